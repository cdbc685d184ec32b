//! What the plan says of the places of an evaluation, and what a node does.

use super::probed::FRAME;
use super::*;
use crate::engine::Node;
use crate::engine::instance_table::Entry;
use crate::engine::node::{Scheduled, is_of_time};
use crate::engine::{Placement, Schedule};
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
        .replace("  total: sum(busy)\n", "  sent: {in: pulse, value: max(send.duration)}\n  load: {in: pulse, value: mean(cpu.time)}\n")
        .replace("  workers: begin.workers\n", "  workers: {in: iteration, value: begin.workers}\n");
    shipped.chain([FRAME.to_string(), mixed]).collect()
}

/// A schedule by which each window has an instance with the key 1.
fn schedule(rule: &CheckedRule) -> Schedule {
    let entry = Entry {
        index: 0,
        key: Some(Key::of(&Scalar::Number(1.0))),
        begun: Time(0),
        over: None,
    };
    Schedule {
        rules: vec![Scheduled {
            reach: Some(Time(1000)),
            windows: vec![vec![entry]; rule.windows.len()],
        }],
        ..Schedule::default()
    }
}

/// How many of the hits of a probe a node passes on one by one, and how many it folds.
fn travelling(rule: &CheckedRule, probe: usize) -> (usize, usize) {
    let mut node = Node::new(Machine(0), 0, vec![rule.clone()]);
    node.process_joined(ProcessId(0), &ProcessFacts::of_rank(0));
    let reads = vec![1.0; rule.plan.probes[probe].captures.len()];
    for number in 0..HITS as u64 {
        node.observe(hit(ProbeId(probe), ProcessId(0), Time(10 + number), 5, &reads));
    }
    node.learn(&schedule(rule));
    let report = node.report();
    let folded = report.partials.iter().map(|partial| partial.content.len()).max();
    (report.observations.len(), folded.unwrap_or(0))
}

#[test]
fn what_the_plan_places_on_nodes_is_what_a_node_folds_and_all_else_travels() {
    let mut counts = [0; 3];
    for text in texts() {
        let rule = checked(&text);
        for (place, folds) in rule.folds.iter().enumerate() {
            for (fold, _) in folds.gathered() {
                // Pairs of hits are made by the coordinator.
                let Some(planned) = rule.plan.probes.get(fold.probe) else {
                    assert_eq!(
                        rule.placement_of(fold, place),
                        Placement::Coordinator,
                        "{}",
                        fold.text
                    );
                    continue;
                };
                let (passed_on, folded) = travelling(&rule, fold.probe);
                let which = match rule.placement_of(fold, place) {
                    Placement::Kernel => {
                        assert_eq!(planned.delivers, Delivery::PartialSums, "{}", fold.text);
                        0
                    }
                    Placement::Node => {
                        let of_time = if is_of_time(&rule, fold.probe) { HITS } else { 0 };
                        assert_eq!((passed_on, folded), (of_time, HITS), "{} of\n{text}", fold.text);
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
        for measure in rule.plan.measures.clone() {
            let mut node = Node::new(Machine(0), 0, vec![rule.clone()]);
            node.process_joined(ProcessId(0), &ProcessFacts::of_rank(0));
            node.observe(gauge(0, measure, Time(1), 2.0));
            assert_eq!(node.report().observations.len(), 1, "{}", measure.name());
        }
        let graph = crate::graph(&[rule]);
        let measured = graph.nodes.iter().filter(|node| {
            let is_measure = |measure: &&Measure| node.label == measure.name();
            Measure::ALL.iter().any(|measure| is_measure(&measure))
        });
        for node in measured {
            assert_eq!(node.place, Some(Placement::Coordinator), "{}", node.label);
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}
