//! The law of this crate: any division of the processes among nodes and any order of delivery give the
//! windows, findings and decisions of a single evaluator that gets all hits in order. Timeouts are excluded,
//! because they depend on the clock.
//!
//! A watermark comes after the hits that it covers, and ticks come at any time; everything else is shuffled.

mod features;
mod formulas;
mod generated;
mod job;
mod links;
mod live;
mod partial_sums;
mod streams;
mod windows;

use proptest::prelude::*;

use super::probed::{FRAME, Farm};
use super::*;
use crate::measure::{MeasureKind, Scope};
use features::{Counts, count_all};
use generated::any_rule;
use job::{any_delivery, central, delivered, observation};
use streams::{PROCESSES, Turn, any_turn, stream, with_doubles};

/// Hand-written rules.
fn rules() -> Vec<String> {
    let (_, model) = crate::models()[0];
    let guard = "guard: {minimize: iteration.duration, over: 1, undo_if_worse_by: 5%}";
    let tune = format!(
        "tune:\n  - set: chunk\n    role: worker\n    value: floor(busy / 1ms)\n    when: total > 100ms\n    {guard}\n"
    );
    let looking_back = "metrics:\n  trend: mean(total over 3)\n  before: busy - busy[-1]\n";
    let frame = FRAME.replace("metrics:\n", looking_back);
    let framed = |key: &str| frame.replace("key: number}", key) + &tune;
    let joined = FRAME
        .replace(
            "  compute.number",
            "  send.batch: b\n  send.tasks: t\n  send.to: w\n  compute.number",
        )
        .replace(
            "windows:",
            "join:\n  chunk: {of: [send, compute], by: [send.to = compute.process, send.batch = compute.number]}\nwindows:",
        )
        .replace(
            "metrics:",
            "metrics:\n  pace: chunk.send.tasks / chunk.compute.duration\n  paces: sum(pace) by chunk.send.to\n  pairs: count(chunk)",
        );
    vec![
        joined + &tune,
        model.replace("over: 5", "over: 1"),
        framed("key: number}"),
        framed("key: number, straddle: drop, skip: 1}"),
        framed("key: number, complete: {worker: count(compute) == 2}, discard: any(send.bytes > 5KB)}"),
        homed(&framed("key: number}\n  turn: {from: begin}")).replace(
            "  bytes:",
            "  each: {in: turn, value: stddev(compute.duration)}\n  bytes:",
        ),
        // Its view of the iteration so far depends on the order of hits, which the iteration alone does not
        // need.
        homed(&framed("key: number}\n  step: {within: iteration, from: send}")).replace(
            "  bytes:",
            "  so_far: {in: step, value: sum(compute.duration over iteration)}\n  bytes:",
        ),
    ]
}

/// States the window of each metric.
fn homed(rule: &str) -> String {
    let bytes = "value: sum(send.bytes) / product(send.duration / 1ms)";
    let scopes = [
        (
            "bytes: sum(send.bytes)",
            format!("bytes: {{in: iteration, {bytes}}}"),
        ),
        (
            "busy: sum(compute.duration) by process",
            "busy: {in: iteration, value: sum(compute.duration) by process}".to_string(),
        ),
        (
            "workers: begin.workers",
            "workers: {in: iteration, value: begin.workers}".to_string(),
        ),
    ];
    let put = |text: String, (plain, home): (&str, String)| text.replace(plain, &home);
    scopes.into_iter().fold(rule.to_string(), put)
}

/// The shipped rules and the rules of the tests that have windows over hits.
fn shipped() -> Vec<String> {
    let of_tests = [
        include_str!("../../../../tests/rules/adjusting-factoring.yaml"),
        include_str!("../../../../tests/rules/barrier-imbalance.yaml"),
        include_str!("../../../../tests/rules/factoring.yaml"),
        include_str!("../../../../tests/rules/knobs.yaml"),
        include_str!("../../../../tests/rules/openmp-team-size.yaml"),
    ];
    let shipped = crate::models()
        .iter()
        .chain(crate::library())
        .map(|(_, text)| *text);
    // Lets a guard decide on such a short stream, and windows close.
    let soon = |text: &str| {
        text.replace("over: 5", "over: 1")
            .replace("over: 10", "over: 1")
            .replace("for: 3", "for: 1")
            .replace("every: 2s", "every: 500ms")
    };
    shipped.chain(of_tests).map(soon).collect()
}

/// A rule as text and checked; displayed as text.
#[derive(Clone)]
struct Checked {
    text: String,
    rule: CheckedRule,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// A fifth of the rules is hand-written, and another fifth is shipped or from the tests.
fn any_checked() -> impl Strategy<Value = Checked> {
    let (written, shipped) = (
        proptest::sample::select(rules()),
        proptest::sample::select(shipped()),
    );
    let text = prop_oneof![1 => written, 1 => shipped, 3 => any_rule()];
    text.prop_filter_map("it checks", |text| {
        let rule = CheckedRule::from_source(&text).ok()?;
        Some(Checked { text, rule })
    })
}

/// 200 in every run; `PROPTEST_CASES` requests more, as `cargo xtask test --long` does.
fn cases() -> ProptestConfig {
    let requested = ProptestConfig::default();
    let plain = ProptestConfig::default().cases == 256;
    ProptestConfig {
        cases: if plain { 200 } else { requested.cases },
        max_global_rejects: 1_000_000,
        max_local_rejects: 1_000_000,
        ..requested
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_split_over_nodes_and_any_order_give_the_windows_findings_and_decisions_of_one_evaluator(
        Checked { text, rule } in any_checked(),
        turns in prop::collection::vec(any_turn(), 1..7),
        delivery in any_delivery(),
    ) {
        let hits = stream(&turns, &rule);
        let mut expected = central(&rule, &hits, &delivery.machines);
        let (hits, doubled) = with_doubles(&hits, &turns);
        // Duplicates are detected only in ordered hits, not in samples.
        let ordered = rule.windows.iter().any(|window| window.boundaries().is_some()) || !rule.joins.is_empty();
        expected.dropped.duplicate += if ordered { doubled } else { 0 };
        let apart = delivered(&rule, &hits, &delivery).differs(&expected);
        prop_assert!(apart.is_none(), "by nodes, {}, of\n{}", apart.unwrap_or_default(), text);
        let alone = job::Delivery { nodes: Vec::new(), ..delivery };
        let apart = delivered(&rule, &hits, &alone).differs(&expected);
        prop_assert!(apart.is_none(), "by one engine, {}, of\n{}", apart.unwrap_or_default(), text);
    }

    #[test]
    fn a_node_that_restarts_leaves_values_out_and_makes_none_wrong(
        turns in prop::collection::vec(any_turn(), 2..7),
        delivery in any_delivery(),
        index in any::<prop::sample::Index>(),
    ) {
        let rule = CheckedRule::from_source(FRAME).unwrap();
        let hits = stream(&turns, &rule);
        let expected = central(&rule, &hits, &delivery.machines);
        // An agent takes no hits that are later than the begin of the next agent.
        let delivery = job::Delivery { order: Vec::new(), ..delivery };
        let (restart, ordered) = (index.index(hits.len()), job::shuffled(&hits, &delivery));
        prop_assume!(ordered.get(restart + 1).is_none_or(|next| next.end > ordered[restart].end));
        // Otherwise boundaries are lost, and the instances have other numbers.
        prop_assume!(delivery.nodes[0] != delivery.nodes[ordered[restart].process as usize]);
        let delivery = job::Delivery { restart: Some(restart), ..delivery };
        for window in delivered(&rule, &hits, &delivery).windows {
            let whole = expected.windows.iter().find(|whole| whole.index == window.index);
            let whole = whole.expect("an instance was begun by its boundary");
            for ((_, value), (name, right)) in window.metrics.iter().zip(&whole.metrics) {
                prop_assert!(value == right || value.starts_with("none"), "{} {} {}", name, value, right);
            }
        }
    }

    #[test]
    fn a_node_that_restarts_makes_no_value_of_a_window_of_a_length_wrong(
        turns in prop::collection::vec(any_turn(), 2..7),
        delivery in any_delivery(),
        index in any::<prop::sample::Index>(),
    ) {
        let windows = "windows:\n  pulse: {every: 500ms}\n";
        let metrics = "metrics:\n  n: {in: pulse, value: count(compute)}\n  longest: {in: pulse, value: max(compute.duration)}\n  spread: {in: pulse, value: 'stddev(send.duration where send.time > 1ms)'}\n  load: {in: pulse, value: mean(mpi.time / cpu.time)}\n  teams: {in: pulse, value: sum(threads)}\n";
        let (head, _) = FRAME.split_once("windows:\n").unwrap();
        let rule = CheckedRule::from_source(&format!("{head}{windows}{metrics}")).unwrap();
        let hits = stream(&turns, &rule);
        let expected = central(&rule, &hits, &delivery.machines);
        let delivery = job::Delivery { restart: Some(index.index(hits.len())), mischief: vec![0], ..delivery };
        let found = delivered(&rule, &hits, &delivery);
        prop_assert_eq!(found.windows.len(), expected.windows.len());
        let mut known = 0;
        for (window, whole) in found.windows.iter().zip(&expected.windows) {
            for ((_, value), (name, right)) in window.metrics.iter().zip(&whole.metrics) {
                prop_assert!(value == right || value.starts_with("none"), "{} {} {}", name, value, right);
                known += usize::from(value == right);
            }
        }
        // Only the windows in flight have no values: the open one, and the one before it.
        let expected = (found.windows.len() - 2) * 5;
        prop_assert!(known >= expected, "{} of {}", known, expected);
    }

    #[test]
    fn no_stream_of_hits_makes_the_engine_panic(
        turns in prop::collection::vec(any_turn(), 1..7),
        delivery in any_delivery(),
        index in any::<prop::sample::Index>(),
        late in prop::collection::vec((0u32..5, 0u64..4000), 1..20),
    ) {
        let all = [rules(), shipped()].concat();
        let text = index.get(&all);
        let mut farm = Farm::new(&text.replace("key: number", "key: number, timeout: 300ms"), 6);
        let (_, rule, _) = farm.engine.rules().next().unwrap();
        let hits = job::shuffled(&stream(&turns, rule), &delivery);
        for ((hit, tick), (process, ms)) in hits.iter().zip(delivery.ticks.iter().cycle()).zip(late.iter().cycle()) {
            farm.engine.observe(observation(hit));
            farm.watermark(*process, *ms);
            if *tick {
                farm.engine.tick(Time(ms * MS));
            }
            if ms % 7 == 0 {
                farm.engine.process_left(ProcessId(*process), Time(ms * MS));
                farm.join(*process, *ms);
            }
        }
        farm.all_until(10_000);
        farm.engine.status();
    }
}

fn a_turn() -> Turn {
    Turn {
        workers: 5,
        computes: vec![10, 300, 200, 100, 50, 20],
        work: vec![1; 6],
        skew: 20,
        missing: 999,
        doubled: 999,
        unread: 999,
        behind: false,
    }
}

#[test]
fn the_streams_of_the_law_close_windows_and_decide() {
    let fewer = Turn {
        workers: 4,
        ..a_turn()
    };
    let turns = [vec![a_turn(); 3], vec![fewer; 3]].concat();
    for text in rules().into_iter().chain(shipped()) {
        let rule = CheckedRule::from_source(&text).unwrap();
        let delivered = central(&rule, &stream(&turns, &rule), &[0; PROCESSES as usize]);
        assert!(delivered.windows.len() >= 3, "{delivered:?}\n{text}");
        let has_value =
            |window: &ClosedWindow| window.metrics.iter().any(|(_, value)| !value.starts_with("none"));
        // Some rules, such as MPICH's, apply to none of these processes.
        let has_role = (0..6).any(|rank| !rule.roles_of(&streams::facts(rank)).is_empty());
        assert!(
            !has_role || delivered.windows.iter().any(has_value),
            "{delivered:?}\n{text}"
        );
        let decides = rules().contains(&text);
        let decided = |output: &Output| matches!(output, Output::Decision(_));
        assert!(
            !decides || delivered.said.iter().any(decided),
            "{delivered:?}\n{text}"
        );
    }
}

#[test]
fn what_is_generated_has_every_part_of_the_language_and_comes_to_something() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    const RULES: usize = 400;
    let mut runner = TestRunner::deterministic();
    let turns = prop::collection::vec(any_turn(), 6);
    let (mut counts, mut tried, mut checked) = (Counts::new(), 0, 0);
    while checked < RULES {
        tried += 1;
        let text = any_rule().new_tree(&mut runner).unwrap().current();
        let Ok(rule) = CheckedRule::from_source(&text) else {
            continue;
        };
        checked += 1;
        let turns = turns.new_tree(&mut runner).unwrap().current();
        let delivered = central(&rule, &stream(&turns, &rule), &[0; PROCESSES as usize]);
        count_all(&mut counts, &text, &rule, &delivered);
    }
    assert!(tried < RULES * 5 / 4, "{tried} rules for {checked} that check");
    for feature in OFTEN {
        let (has, came) = counts.get(*feature).copied().unwrap_or_default();
        assert!(has >= RULES / 10, "{feature} is in {has} of {RULES}");
        assert!(came * 2 >= has, "{feature} came to something in {came} of {has}");
    }
    // A feature that never has a value is not covered by the law.
    for (feature, (has, came)) in &counts {
        assert!(
            *came > 0,
            "{feature} is in {has} of {RULES} and never came to anything"
        );
    }
}

/// Features of at least a tenth of the rules.
const OFTEN: &[&str] = &[
    "window",
    "window every",
    "window within",
    "window deep",
    "window until",
    "window chained",
    "window of each process",
    "window skip",
    "window straddle begin",
    "window straddle split",
    "window straddle drop",
    "window complete",
    "window complete by metric",
    "window discard",
    "window discard by metric",
    "window keyed by pairs",
    "metric so_far",
    "metric inside",
    "metric before",
    "metric outer_before",
    "metric newest",
    "metric run",
    "metric carried",
    "metric ewma",
    "metric pairs",
    "metric at_border",
    "metric measure",
    "metric timed pairs",
    "metric timed timed_hits",
    "metric timed totals",
    "metric timed calls",
    "tune at_hit",
    "tune bare",
    "tune while",
    "tune of_each",
    "tune chunk",
    "folded by nodes",
];
