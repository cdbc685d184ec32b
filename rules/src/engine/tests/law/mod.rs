//! The law of this crate: any division of the processes among nodes and any order of delivery give the windows,
//! findings and decisions of one evaluator that sees everything in order. Timeouts apart: they go by the clock.
//!
//! A watermark comes behind the hits it covers, and ticks fall where they fall; everything else is shuffled.

mod generated;
mod job;
mod streams;

use proptest::prelude::*;

use super::probed::{FRAME, Farm, Sent};
use super::*;
use generated::any_rule;
use job::{any_delivery, central, delivered, shuffled};
use streams::{Turn, any_turn, stream, with_doubles};

/// Rules that were written by hand.
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
        framed("key: number}\n  turn: {from: begin}")
            .replace(
                "  bytes:",
                "  each: {in: turn, value: stddev(compute.duration)}\n  bytes:",
            )
            .replace(
                "bytes: sum(send.bytes)",
                "bytes: {in: iteration, value: sum(send.bytes) / product(send.duration / 1ms)}",
            )
            .replace(
                "busy: sum(compute.duration) by process",
                "busy: {in: iteration, value: sum(compute.duration) by process}",
            )
            .replace(
                "workers: begin.workers",
                "workers: {in: iteration, value: begin.workers}",
            ),
    ]
}

/// The probes of a rule, and how much is read at each.
fn probes(rule: &CheckedRule) -> Vec<(&'static str, usize)> {
    let all = ["begin", "end", "send", "reply", "compute", "enter", "leave"];
    let planned = |name: &'static str| {
        let probe = rule.plan().probes.iter().find(|probe| probe.name == name)?;
        Some((name, probe.captures.len()))
    };
    all.into_iter().filter_map(planned).collect()
}

/// Every third is one of those written by hand, and among them the models we ship.
fn any_checked() -> impl Strategy<Value = (String, CheckedRule)> {
    let written = rules();
    let text = prop_oneof![1 => proptest::sample::select(written), 2 => any_rule()];
    text.prop_filter_map("it checks", |text| {
        let rule = CheckedRule::from_source(&text).ok()?;
        Some((text, rule))
    })
}

/// 500 in every run; `PROPTEST_CASES` asks for more, as `cargo xtask test --long` does.
fn cases() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let plain = ProptestConfig::default().cases == 256;
    ProptestConfig {
        cases: if plain { 500 } else { asked.cases },
        max_global_rejects: 1_000_000,
        max_local_rejects: 1_000_000,
        ..asked
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_split_over_nodes_and_any_order_give_the_windows_findings_and_decisions_of_one_evaluator(
        (text, rule) in any_checked(),
        turns in prop::collection::vec(any_turn(), 1..7),
        delivery in any_delivery(),
    ) {
        let hits = stream(&turns, &probes(&rule));
        let mut expected = central(&rule, &hits);
        let (hits, doubled) = with_doubles(&hits, &turns);
        expected.dropped.duplicate += doubled;
        let order = shuffled(&hits, &delivery.order);
        let found = delivered(&rule, &order, &delivery);
        prop_assert_eq!(&found, &expected, "by nodes, of\n{}", text);
        let alone = job::Delivery { nodes: Vec::new(), ..delivery };
        prop_assert_eq!(&delivered(&rule, &order, &alone), &expected, "by one engine, of\n{}", text);
    }

    #[test]
    fn no_stream_of_hits_makes_the_engine_panic(
        turns in prop::collection::vec(any_turn(), 1..7),
        delivery in any_delivery(),
        place in any::<prop::sample::Index>(),
        late in prop::collection::vec((0u32..5, 0u64..4000), 1..20),
    ) {
        let text = rules().swap_remove(place.index(rules().len()));
        let mut farm = Farm::new(&text.replace("key: number", "key: number, timeout: 300ms"), 6);
        let (_, rule, _) = farm.engine.rules().next().unwrap();
        let hits = shuffled(&stream(&turns, &probes(rule)), &delivery.order);
        for ((hit, tick), (process, ms)) in hits.into_iter().zip(&delivery.ticks).zip(late.iter().cycle()) {
            farm.hit(hit);
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

#[test]
fn the_streams_of_the_law_close_windows_and_decide() {
    let turn = Turn {
        workers: 5,
        computes: vec![300, 200, 100, 50, 20],
        work: vec![1; 5],
        skew: 20,
        missing: 99,
        doubled: 99,
        behind: false,
    };
    for text in rules() {
        let rule = CheckedRule::from_source(&text).unwrap();
        let told = central(&rule, &stream(&vec![turn.clone(); 4], &probes(&rule)));
        assert!(told.windows.len() >= 3, "{told:?}\n{text}");
        let decided = |output: &Output| matches!(output, Output::Decision(_));
        assert!(told.said.iter().any(decided), "{told:?}\n{text}");
    }
}

#[test]
fn most_of_what_is_generated_closes_windows_is_folded_by_nodes_and_decides() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let turns = prop::collection::vec(any_turn(), 6);
    let (mut closed, mut valued, mut decided, mut folded) = (0, 0, 0, 0);
    for _ in 0..100 {
        let (_, rule) = any_checked().new_tree(&mut runner).unwrap().current();
        let turns = turns.new_tree(&mut runner).unwrap().current();
        let told = central(&rule, &stream(&turns, &probes(&rule)));
        let shown = || told.windows.iter().flat_map(|window| &window.metrics);
        let by_key = crate::engine::desk::ByKey::of(&rule);
        closed += usize::from(!told.windows.is_empty());
        valued += usize::from(shown().filter(|(_, value)| !value.starts_with("none")).count() >= 4);
        decided += usize::from(told.said.iter().any(|said| matches!(said, Output::Decision(_))));
        folded += usize::from((0..rule.probes.len()).any(|probe| by_key.has(probe)));
    }
    let counts = (closed, valued, decided, folded);
    assert!(
        closed > 70 && valued > 50 && decided > 30 && folded > 30,
        "{counts:?}"
    );
}
