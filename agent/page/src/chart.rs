//! Charts over the time of the session, as SVG. A plot is as wide as the page, but its texts must not be
//! scaled. The data therefore are in an inner drawing with seconds as coordinates: the browser scales it, and
//! a script changes its view box to show a range. Colours come from the style sheet, which has a light and a
//! dark scheme.

use std::fmt::Write;

use maud::{Markup, html};
use profile::format::{duration, percent};

use crate::model::{PacePart, TimeBand, Timeline};

/// Height of the data, in pixels.
const HEIGHT: f64 = 140.0;
/// Space above the data for the numbers of marks, and below the data for the times.
const TOP: f64 = 18.0;
const BELOW: f64 = 20.0;
/// The axis is logarithmic if the greatest mean time exceeds the least one by more than this factor.
const LOGARITHMIC: f64 = 20.0;
/// Maximum number of times at which a range may begin or end, and of times below a chart. The script has a
/// copy of the second bound.
const STEPS_MAX: f64 = 240.0;
const TICKS_MAX: usize = 8;

/// A chart with time as its horizontal axis.
pub(crate) struct Chart {
    /// Describes the chart for screen readers.
    pub(crate) text: String,
    pub(crate) height: f64,
    /// Labels of the vertical axis, each with its distance from the top of the data.
    pub(crate) labels: Vec<(f64, String)>,
    /// The drawing: x in seconds, y in pixels from the top.
    pub(crate) data: Markup,
}

/// Times at which a range may begin or end: the multiples of a round number of seconds, and the end of the
/// run.
pub(crate) struct Steps {
    pub(crate) step_s: f64,
    pub(crate) end_s: f64,
}

impl Steps {
    pub(crate) fn of(timeline: &Timeline) -> Steps {
        let end_s = end_s(timeline);
        Steps {
            step_s: round_up(end_s / STEPS_MAX),
            end_s,
        }
    }

    fn multiples(&self) -> impl Iterator<Item = f64> {
        let (step_s, end_s) = (self.step_s, self.end_s);
        (0..)
            .map(move |number| f64::from(number) * step_s)
            .take_while(move |at_s| *at_s < end_s)
    }

    /// Formats all steps, separated by `|`, which no formatted time contains.
    pub(crate) fn texts(&self) -> String {
        let all: Vec<String> = self.multiples().chain([self.end_s]).map(time).collect();
        all.join("|")
    }

    /// The steps that are labelled below a chart.
    fn ticks(&self) -> Vec<f64> {
        let count = self.multiples().count();
        let every = [1, 2, 5, 10, 20, 50, 100]
            .into_iter()
            .find(|every| count <= every * TICKS_MAX);
        self.multiples().step_by(every.unwrap_or(100)).collect()
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= value);
    factor.unwrap_or(10.0) * power
}

fn end_s(timeline: &Timeline) -> f64 {
    timeline.end_s.max(1e-3)
}

pub(crate) fn time(seconds: f64) -> String {
    duration(seconds * 1e9)
}

/// Draws a chart with its marks, and the times below it.
pub(crate) fn drawn(timeline: &Timeline, chart: &Chart) -> Markup {
    let (end, height) = (end_s(timeline), chart.height);
    let x = |at_s: f64| format!("{:.2}%", 100.0 * at_s / end);
    html! {
        div .chart {
            svg .values aria-hidden="true" height=(TOP + height + BELOW) {
                @for (y, label) in &chart.labels { text x="100%" y=(format!("{:.1}", TOP + y + 4.0)) { (label) } }
            }
            svg .plot role="img" aria-label=(chart.text) height=(TOP + height + BELOW) {
                rect .gap y=(TOP) width="100%" height=(height) {}
                svg .data y=(TOP) width="100%" height=(height) viewBox={ "0 0 " (end) " " (height) } preserveAspectRatio="none" {
                    (chart.data)
                }
                @for (number, at_s) in Steps::of(timeline).ticks().into_iter().enumerate() {
                    // The style sheet hides every second time on a narrow page.
                    svg .tick .minor[number % 2 == 1] x=(x(at_s)) data-at=(at_s) { text y=(TOP + height + 15.0) { (time(at_s)) } }
                }
                @for mark in &timeline.marks {
                    // Numbers of neighbouring marks are at opposite sides of their lines: 1 and 2 would look
                    // like 12.
                    svg .mark .even[mark.number % 2 == 0] x=(x(mark.at_s)) data-at=(mark.at_s) {
                        line y1=(TOP) y2=(TOP + height) {}
                        text y=(TOP - 5.0) { (mark.number) }
                    }
                }
            }
        }
    }
}

/// Draws the time of one iteration. The line has a gap where no iteration was measured.
pub(crate) fn pace(timeline: &Timeline) -> Option<Chart> {
    let parts = &timeline.pace;
    let means = || parts.iter().map(|part| part.mean_s).filter(|mean| *mean > 0.0);
    let (least, most) = (means().reduce(f64::min)?, means().reduce(f64::max)?);
    let is_logarithmic = most > LOGARITHMIC * least;
    let (low, high) = match is_logarithmic {
        true => (least / 1.5, most * 1.5),
        false => (0.0, most * 1.1),
    };
    let y = |seconds: f64| match is_logarithmic {
        true => HEIGHT * (1.0 - (seconds / low).ln() / (high / low).ln()),
        false => HEIGHT * (1.0 - seconds / high),
    };
    let values = match is_logarithmic {
        true => powers(low, high),
        false => multiples(high),
    };
    let (mut ground, mut band, mut line) = (String::new(), String::new(), String::new());
    // The axis is that of the means; one long iteration reaches beyond it.
    let within = |seconds: f64| y(seconds.clamp(low, high));
    for run in unbroken(parts) {
        let (first, last) = (run[0], run[run.len() - 1]);
        area(&mut ground, (first.from_s, last.until_s), (0.0, HEIGHT));
        for (number, part) in run.iter().enumerate() {
            let letter = if number == 0 { 'M' } else { 'L' };
            let ends = (within(part.most_s), within(part.least_s));
            area(&mut band, (part.from_s, part.until_s), ends);
            let y = y(part.mean_s);
            append(
                &mut line,
                format_args!("{letter}{:.3} {y:.1}H{:.3}", part.from_s, part.until_s),
            );
        }
    }
    let log = if is_logarithmic { ", logarithmic axis" } else { "" };
    Some(Chart {
        text: format!(
            "Mean time of one iteration over the session{log}: least {}, most {}, last {}; the longest iteration {}",
            time(least),
            time(most),
            time(parts.last().map_or(0.0, |part| part.mean_s)),
            time(parts.iter().map(|part| part.most_s).fold(0.0, f64::max))
        ),
        height: HEIGHT,
        data: html! {
            path .ground d=(ground) {}
            (grid(timeline, values.iter().map(|value| y(*value))))
            path .band d=(band) {}
            path .pace d=(line) {}
        },
        labels: values.iter().map(|value| (y(*value), time(*value))).collect(),
    })
}

/// Groups the parts into sequences without a gap.
fn unbroken(parts: &[PacePart]) -> Vec<Vec<PacePart>> {
    let mut runs: Vec<Vec<PacePart>> = Vec::new();
    for part in parts.iter().filter(|part| part.mean_s > 0.0) {
        match runs.last_mut() {
            // An iteration that crosses the boundary of two parts counts in neither; it leaves no gap.
            Some(run) if part.from_s <= run[run.len() - 1].until_s + 2.0 * part.mean_s => run.push(*part),
            _ => runs.push(vec![*part]),
        }
    }
    runs
}

/// Draws the parts of the time of the processes, stacked: each area reaches from the ground to the top of its
/// part, and those of lower parts are drawn over it.
pub(crate) fn time_parts(timeline: &Timeline) -> Option<Chart> {
    let chart = &timeline.time;
    let last = chart.bands.first()?.shares.iter().rposition(Option::is_some)?;
    let y = |share: f64| HEIGHT * (1.0 - share);
    let mut tops: Vec<Option<f64>> = vec![Some(0.0); chart.until_s.len()];
    let mut areas = Vec::new();
    for band in &chart.bands {
        for (top, share) in tops.iter_mut().zip(&band.shares) {
            *top = top.zip(*share).map(|(top, share)| top + share);
        }
        let class = format!("{} {}", band.state, band.place);
        areas.push((class, steps(timeline, &tops, y)));
    }
    let shares = |at: usize| -> Vec<String> {
        let share = |band: &TimeBand| Some(format!("{} {}", band.name, percent(band.shares[at]?)));
        chart.bands.iter().filter_map(share).collect()
    };
    let values = multiples(1.0);
    Some(Chart {
        text: format!(
            "Where the time of the processes went over the session; at the end {}",
            shares(last).join(", ")
        ),
        height: HEIGHT,
        data: html! {
            @for (class, path) in areas.iter().rev() { path class=(class) d=(path) {} }
            (grid(timeline, values.iter().map(|value| y(*value))))
        },
        labels: values.iter().map(|value| (y(*value), percent(*value))).collect(),
    })
}

/// The areas from the ground to the top of each bucket; a gap has none. Steps are relative and in whole pixels, as
/// absolute numbers would be most of what a live page sends.
fn steps(timeline: &Timeline, tops: &[Option<f64>], y: impl Fn(f64) -> f64) -> String {
    // A pixel of the complete run has ten different times: a reader may choose a short range.
    let digits = (4.0 - end_s(timeline).log10()).ceil().clamp(0.0, 9.0) as usize;
    let scale = 10f64.powi(digits as i32);
    let x = |seconds: f64| (seconds * scale).round();
    let ground = HEIGHT as i64;
    let mut path = String::new();
    // The pen's place; `None` in a gap.
    let mut pen: Option<(f64, i64)> = None;
    let mut from = x(timeline.time.from_s);
    let across = |to: f64, from: f64| (to - from) / scale;
    for (top, until_s) in tops.iter().zip(&timeline.time.until_s) {
        let top = top.map(|top| y(top).round() as i64);
        pen = match (pen, top) {
            (Some((at, height)), Some(top)) if height == top => Some((at, top)),
            (Some((at, height)), Some(top)) => {
                append(&mut path, format_args!("h{}v{}", across(from, at), top - height));
                Some((from, top))
            }
            (Some((at, _)), None) => {
                append(&mut path, format_args!("h{}V{ground}Z", across(from, at)));
                None
            }
            (None, Some(top)) => {
                append(&mut path, format_args!("M{} {ground}V{top}", from / scale));
                Some((from, top))
            }
            (None, None) => None,
        };
        from = x(*until_s);
    }
    if let Some((at, _)) = pen {
        append(&mut path, format_args!("h{}V{ground}Z", across(from, at)));
    }
    path
}

/// Draws a line at each labelled value.
fn grid(timeline: &Timeline, places: impl Iterator<Item = f64>) -> Markup {
    let mut path = String::new();
    for y in places {
        append(&mut path, format_args!("M0 {y:.1}H{:.3}", end_s(timeline)));
    }
    html! { path .grid d=(path) {} }
}

/// Adds a rectangle to a path.
fn area(path: &mut String, (from, until): (f64, f64), (top, bottom): (f64, f64)) {
    append(
        path,
        format_args!("M{from:.3} {bottom:.1}V{top:.1}H{until:.3}V{bottom:.1}Z"),
    );
}

fn append(path: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = path.write_fmt(text);
}

/// Round values from 0 to `high`.
fn multiples(high: f64) -> Vec<f64> {
    let step = round_up(high / 5.0);
    (0..)
        .map(|number| f64::from(number) * step)
        .take_while(|value| *value <= high)
        .collect()
}

/// Powers of ten between two values; also 2 and 5 times each power if there are fewer than three decades.
fn powers(low: f64, high: f64) -> Vec<f64> {
    let mut all: Vec<f64> = Vec::new();
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let factors: &[f64] = if (high / low).log10() < 3.0 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    for decade in decades {
        all.extend(factors.iter().map(|factor| factor * 10f64.powi(decade)));
    }
    all.retain(|value| (low..=high).contains(value));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasting(end_s: f64) -> Steps {
        Steps::of(&Timeline {
            end_s,
            ..Timeline::default()
        })
    }

    #[test]
    fn a_range_begins_and_ends_at_round_times_or_at_the_end() {
        for end_s in [0.013, 0.9, 61.3, 240.0, 7261.0] {
            let steps = lasting(end_s);
            let texts = steps.texts();
            let count = texts.split('|').count();
            assert!((96..=242).contains(&count), "{end_s}: {count}");
            assert!(
                texts.starts_with("0 s|") && texts.ends_with(&time(end_s)),
                "{texts}"
            );
            assert!(
                (2..=TICKS_MAX).contains(&steps.ticks().len()),
                "{end_s}: {:?}",
                steps.ticks()
            );
        }
        assert_eq!(lasting(61.3).step_s, 0.5);
        assert_eq!(lasting(61.3).ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    }

    #[test]
    fn values_at_an_axis_are_round() {
        assert_eq!(multiples(1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(powers(0.007, 0.15), [0.01, 0.02, 0.05, 0.1]);
        assert_eq!(powers(0.0007, 15.0), [0.001, 0.01, 0.1, 1.0, 10.0]);
    }

    #[test]
    fn a_line_is_broken_where_nothing_was_measured() {
        let part = |from_s, until_s| PacePart {
            from_s,
            until_s,
            count: 10,
            mean_s: 0.1,
            least_s: 0.05,
            most_s: 9.0,
        };
        let timeline = Timeline {
            end_s: 10.0,
            pace: vec![part(0.0, 2.0), part(2.1, 4.0), part(8.0, 9.0)],
            ..Timeline::default()
        };
        let data = pace(&timeline).unwrap().data.into_string();
        let line = data
            .split("class=\"pace\" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert_eq!(line.matches('L').count(), 1, "{line}");
        // The band ends at the axis, 1.1 times the greatest mean, although one iteration took 9 s.
        assert_eq!(data.matches("V0.0H").count(), 3 + 2, "{data}");
    }

    #[test]
    fn a_stacked_area_ends_where_nothing_was_measured() {
        let timeline = Timeline {
            end_s: 4.0,
            time: crate::model::TimeChart {
                until_s: vec![1.0, 2.0, 3.0, 4.0],
                ..Default::default()
            },
            ..Timeline::default()
        };
        let path = steps(&timeline, &[Some(7.0), Some(5.0), None, Some(0.0)], |top| top);
        assert_eq!(path, "M0 140V7h1v-2h1V140ZM3 140V0h1V140Z");
    }
}
