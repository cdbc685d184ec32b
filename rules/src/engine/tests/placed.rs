//! What the plan says of the places of an evaluation, and what a node does.

use super::probed::FRAME;
use super::*;
use crate::engine::instance_table::Entry;
use crate::engine::node::Scheduled;
use crate::engine::timed::TimedEntry;
use crate::engine::{Node, Placement, Schedule};
use crate::measure::Scope;
use crate::plan::Delivery;
use crate::value::{Key, Machine};

const HITS: usize = 7;

/// The shipped rules, and a rule with each kind of window over the same hits.
fn texts() -> Vec<String> {
    let shipped = crate::library().iter().chain(crate::models());
    let shipped = shipped.map(|(_, text)| (*text).to_string());
    let mixed = FRAME
        .replace("windows:\n", "windows:\n  pulse: {every: 1s}\n")
        .replace("  bytes: sum(send.bytes)\n", "  bytes: {in: iteration, value: sum(send.bytes)}\n")
        .replace("  busy: sum(compute.duration) by process\n", "  busy: {in: iteration, value: 'max(compute.duration where compute.duration > 1ms) by process'}\n")
        .replace("  total: sum(busy)\n", "  sent: {in: pulse, value: max(send.duration)}\n  load: {in: pulse, value: mean(cpu.time)}\n  row: {in: pulse, value: max(cpu.time) - threads * 1s}\n  spent: {in: iteration, value: sum(mpi.time)}\n")
        .replace("  workers: begin.workers\n", "  workers: {in: iteration, value: begin.workers}\n");
    shipped.chain([FRAME.to_string(), mixed]).collect()
}

/// A schedule by which each window has an instance with the key 1, and is over if it has a length.
fn schedule(rule: &CheckedRule) -> Schedule {
    let entry = Entry {
        index: 0,
        key: Some(Key::of(&Scalar::Number(1.0))),
        begun: Time(0),
        over: Some(Time(1000)),
    };
    let timed = rule.windows.iter().enumerate();
    let timed = timed.filter(|(_, window)| window.boundaries().is_none());
    let timed_entry = |window| TimedEntry {
        window,
        index: 0,
        span: (Time(0), Time(1000)),
    };
    Schedule {
        rules: vec![Scheduled {
            reach: Some(Time(1000)),
            windows: vec![vec![entry]; rule.windows.len()],
            timed: timed.map(|(window, _)| timed_entry(window)).collect(),
        }],
    }
}

/// How many of the hits of a probe a node passes on one by one, and how many it folds.
fn travelling(rule: &CheckedRule, probe: usize) -> (usize, usize) {
    let mut node = Node::new(Machine(0), 0, vec![rule.clone()]);
    node.process_joined(ProcessId(0), ProcessFacts::of_rank(0), Time(0));
    let reads = vec![1.0; rule.plan.probes[probe].captures.len()];
    node.observe(totals((probe, 0), Time(0), (0, 0)));
    for number in 0..HITS as u64 {
        node.observe(hit(ProbeId(probe), ProcessId(0), Time(10 + number), 5, &reads));
    }
    node.observe(totals((probe, 0), Time(1000), (HITS as u64, 5 * HITS as u64)));
    node.learn(&schedule(rule));
    let report = node.report();
    let of_instances = report.partials.iter().map(|partial| partial.content.len());
    let of_times = report.parts.iter().map(|part| part.content.len());
    let is_hit = |observation: &&Observation| matches!(observation, Observation::Hit { .. });
    let passed_on = report.observations.iter().filter(is_hit).count();
    (passed_on, of_instances.chain(of_times).max().unwrap_or(0))
}

/// Whether a node passes on each value of a measure, and whether its part of a window has a row of it.
fn measured(rule: &CheckedRule, measure: Measure) -> (bool, bool) {
    let mut node = Node::new(Machine(0), 0, vec![rule.clone()]);
    node.process_joined(ProcessId(0), ProcessFacts::of_rank(0), Time(0));
    let of = match measure.scope() {
        Scope::Process => Subject::Process(ProcessId(0)),
        Scope::Machine => Subject::Machine(Machine(0)),
    };
    node.observe(Observation::gauge(of, measure, Time(1), 2.0));
    node.learn(&schedule(rule));
    let report = node.report();
    let has_row = report.parts.iter().any(|part| part.has_row(measure));
    (!report.observations.is_empty(), has_row)
}

/// Compares for each measure what the plan says with what a node sends; returns how many are reduced on nodes.
fn reduced_measures(rule: &CheckedRule, text: &str) -> usize {
    let mut reduced = 0;
    let graph = crate::graph(std::slice::from_ref(rule));
    for measure in rule.plan.measures.clone() {
        let places = graph.nodes.iter().filter(|node| node.label == measure.name());
        let travels = places
            .map(|node| node.place)
            .any(|place| place != Some(Placement::Node));
        let (is_passed, has_row) = measured(rule, measure);
        let is_read = graph.nodes.iter().any(|node| node.label == measure.name());
        if is_read {
            assert_eq!(is_passed || has_row, travels, "{} of\n{text}", measure.name());
            reduced += usize::from(!travels);
        }
    }
    reduced
}

#[test]
fn what_the_plan_places_on_nodes_is_what_a_node_folds_and_all_else_travels() {
    let (mut counts, mut reduced) = ([0; 3], 0);
    for text in texts() {
        let rule = checked(&text);
        for (index, folds) in rule.folds.iter().enumerate() {
            for (fold, _) in folds.gathered() {
                // Pairs of hits are made by the coordinator.
                let Some(planned) = rule.plan.probes.get(fold.probe) else {
                    assert_eq!(
                        rule.placement_of(fold, index),
                        Placement::Coordinator,
                        "{}",
                        fold.text
                    );
                    continue;
                };
                let (passed_on, folded) = travelling(&rule, fold.probe);
                let which = match rule.placement_of(fold, index) {
                    Placement::Kernel => {
                        assert_eq!(planned.delivers, Delivery::PartialSums, "{}", fold.text);
                        0
                    }
                    Placement::Node => {
                        let is_timed = |index: usize| rule.windows[index].boundaries().is_none();
                        // Rules for OpenMP do not apply to the process.
                        let has_role =
                            rule.roles[rule.probes[fold.probe].role].has(&ProcessFacts::of_rank(0));
                        let expected = if has_role || !is_timed(index) { HITS } else { 0 };
                        assert_eq!(folded, expected, "{} of\n{text}", fold.text);
                        let of_others = rule.folds.iter().enumerate().any(|(other, folds)| {
                            let mut folds = folds.gathered().filter(|(other, _)| other.probe == fold.probe);
                            let coordinator = |of| rule.placement_of(of, other) == Placement::Coordinator;
                            (is_timed(index) || is_timed(other)) && folds.any(|(of, _)| coordinator(of))
                        });
                        assert!(passed_on == 0 || of_others, "{} of\n{text}", fold.text);
                        1
                    }
                    Placement::Coordinator => {
                        assert_eq!(passed_on, HITS, "{} of\n{text}", fold.text);
                        2
                    }
                };
                counts[which] += 1;
            }
        }
        reduced += reduced_measures(&rule, &text);
    }
    assert!(
        counts.iter().all(|count| *count > 0) && reduced > 10,
        "{counts:?} {reduced}"
    );
}
