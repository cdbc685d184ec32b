use rules::{Dimension, MetricReading};

use super::{MARKS_MAX, POINTS_MAX, Plot, PlotMarkKind, SERIES_MAX};

fn reading(low: f64, high: f64) -> Option<MetricReading> {
    Some(MetricReading {
        low,
        mean: (low + high) / 2.0,
        high,
        dimension: Some(Dimension::TIME),
        is_share: false,
    })
}

const RULE: &str = "busy <wait> & more";

/// A hundred windows of half a second: the iteration time falls when the change is made; the rule has no
/// value at the start.
fn plot() -> Plot {
    let mut plot = Plot::new(vec![(RULE.to_owned(), "pulse.duration / step".to_owned())]);
    for window in 1..=100_u64 {
        let (at, waited) = (window * 500_000_000, (window as f64 / 7.0).sin().abs());
        let slow = if window < 40 { 0.09 } else { 0.012 };
        let share = MetricReading {
            low: waited,
            mean: waited,
            high: waited,
            dimension: Some(Dimension::NONE),
            is_share: true,
        };
        let crowded = MetricReading {
            low: f64::from(window < 40),
            mean: f64::from(window < 40),
            high: f64::from(window < 40),
            dimension: None,
            is_share: false,
        };
        let readings = [
            ("waiting", Some(share)),
            ("crowded", Some(crowded)),
            (
                "step",
                (window > 5)
                    .then(|| reading(slow, slow * (1.0 + waited)))
                    .flatten(),
            ),
            ("never", None),
        ];
        plot.window(at, RULE, "pulse", Some(slow), readings.into_iter());
    }
    for (at, kind, text) in [
        (
            12,
            PlotMarkKind::Finding,
            "8 ranks share 2 CPUs & spin\nwhile they wait",
        ),
        (20, PlotMarkKind::Decision, "yield = true in process 0"),
        (20, PlotMarkKind::Decision, "yield = true in process 1"),
        (
            26,
            PlotMarkKind::Kept,
            "step: 91.4 ms -> 12 ms (10 windows each); kept",
        ),
        (27, PlotMarkKind::Gone, ""),
        (40, PlotMarkKind::Reverted, "worse"),
    ] {
        plot.mark(at * 1_000_000_000, RULE, kind, text);
    }
    plot
}

#[test]
fn a_picture_is_complete_says_its_units_and_holds_no_markup_of_the_rule() {
    let svg = plot().svg();
    assert!(!svg.contains("<wait>") && svg.contains("busy &lt;wait&gt; &amp; more"));
    for word in [
        "100 ms",
        "50 %",
        "true",
        "none in 5 of 100 windows",
        "1 metric without a value in any window",
    ] {
        assert!(svg.contains(word), "{word}");
    }
}

#[test]
fn whatever_is_given_the_picture_is_bounded_and_says_what_it_leaves_out() {
    let mut plot = Plot::default();
    let names: Vec<String> = (0..SERIES_MAX + 8).map(|name| format!("m{name}")).collect();
    for window in 0..10_000_u64 {
        let value = if window == 7001 { f64::MAX } else { -1e-300 };
        let readings = names.iter().map(|name| (name.as_str(), reading(value, value)));
        plot.window(window, "r", "w", None, readings);
        plot.mark(window, "r", PlotMarkKind::Finding, &"long ".repeat(100));
    }
    assert!(plot.series.len() == SERIES_MAX && plot.marks.len() == MARKS_MAX);
    for series in &plot.series {
        assert!(series.points.len() <= POINTS_MAX && series.windows == 10_000);
        let high = series
            .points
            .iter()
            .filter_map(|point| point.reading)
            .map(|(_, of)| of.high);
        assert_eq!(
            high.fold(f64::MIN, f64::max),
            f64::MAX,
            "the peak was merged away"
        );
    }
    let svg = plot.svg();
    assert!(svg.contains("259 metrics not drawn") && svg.contains("9988 more, which are not drawn"));
    assert!(svg.contains("a point is 8 windows of w"), "{}", &svg[..4000]);
    assert!(
        svg.len() < 4_000_000 && !svg.contains("NaN") && !svg.contains("inf "),
        "{}",
        svg.len()
    );
}

#[test]
fn an_empty_replay_gives_a_picture_that_says_so() {
    assert!(Plot::default().svg().contains("no window closed"));
}

/// The height of the picture in pixels.
fn height(svg: &str) -> f64 {
    let height = svg.split("height=\"").nth(1).unwrap();
    height.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn outcome_and_objective_come_first_and_the_picture_is_one_screen_tall() {
    let mut plot = plot();
    for rule in ["another", "third"] {
        for window in 1..=100_u64 {
            let metrics = ["a", "b", "c", "d"].map(|name| (name, reading(1.0, 2.0)));
            plot.window(window * 500_000_000, rule, "pulse", None, metrics.into_iter());
        }
    }
    plot.mark(1_000_000_000, "another", PlotMarkKind::Finding, "it waits");
    let svg = plot.svg();
    let at = |text: &str| {
        svg.find(text)
            .unwrap_or_else(|| panic!("{text} is not in the picture"))
    };
    let order = [
        at("reverted busy &lt;wait&gt; &amp; more: worse"),
        at(">pulse.duration<"),
        at(">step<"),
        at(">waiting<"),
        at(">crowded<"),
        at(">another<"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert!(!svg.contains(">never<") && !svg.contains(">third<"));
    assert!(height(&svg) <= 1000.0, "{}", height(&svg));
}

#[test]
fn recorded_decisions_are_drawn_unless_the_replay_decides_anew() {
    let reading = || [("pace", reading(1.0, 1.0))].into_iter();
    let recorded = || {
        let mut plot = Plot::default();
        plot.window(1_000_000_000, "r", "w", None, reading());
        plot.mark(2_000_000_000, "r", PlotMarkKind::Finding, "found anew");
        plot.mark(2_000_000_000, "other", PlotMarkKind::Finding, "nobody told that");
        for (kind, text) in [
            ("change", "6 changes written"),
            ("kept", "9 ms before, 1 ms after; kept"),
        ] {
            plot.recorded(3_000_000_000, "r", plan::MarkKind::named(kind).into(), text);
        }
        plot
    };
    let svg = recorded().svg();
    for text in [
        "6 changes written",
        "9 ms before, 1 ms after; kept",
        "nobody told that",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("found anew"));

    let mut anew = recorded();
    anew.mark(4_000_000_000, "r", PlotMarkKind::Decision, "yield = true");
    let svg = anew.svg();
    assert!(svg.contains("yield = true") && !svg.contains("6 changes written"));
}
