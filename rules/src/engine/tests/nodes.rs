//! The communication of nodes and their coordinator, including faults.

use super::probed::FRAME;
use super::*;
use crate::engine::{Node, Placement, Report};
use crate::value::Machine;

const NODES: u32 = 2;

struct Cluster {
    engine: Engine,
    nodes: Vec<Node>,
    rule: CheckedRule,
}

fn facts(rank: u32) -> ProcessFacts {
    ProcessFacts {
        machine: Machine(u32::from(rank > 0)),
        ..ProcessFacts::of_rank(rank)
    }
}

impl Cluster {
    /// A master on node 0 and two workers on node 1.
    fn new(source: &str) -> Cluster {
        let rule = checked(source);
        let mut engine = Engine::new(vec![rule.clone()], Time(0)).unwrap();
        let mut nodes: Vec<Node> = (0..NODES)
            .map(|id| Node::new(Machine(id), 0, vec![rule.clone()]))
            .collect();
        (0..NODES).for_each(|id| engine.node_joined(Machine(id)));
        for rank in 0..3 {
            engine.process_joined(ProcessId(rank), facts(rank), Time(0));
            nodes[usize::from(rank > 0)].process_joined(ProcessId(rank), facts(rank), Time(0));
        }
        Cluster { engine, nodes, rule }
    }

    /// The agent of the workers' node is replaced by another one.
    fn restart(&mut self, incarnation: u64) -> Node {
        let mut node = Node::new(Machine(1), incarnation, vec![self.rule.clone()]);
        (1..3).for_each(|rank| node.process_joined(ProcessId(rank), facts(rank), Time(0)));
        std::mem::replace(&mut self.nodes[1], node)
    }

    fn hit(&mut self, probe: usize, rank: u32, ms: u64, duration: u64, reads: &[f64]) {
        let hit = hit(
            ProbeId(probe),
            ProcessId(rank),
            Time(ms * MS),
            duration * MS,
            reads,
        );
        self.nodes[usize::from(rank > 0)].observe(hit);
    }

    /// An iteration of 100 ms in which each worker computes this many times, 1 ms each.
    fn iteration(&mut self, number: u64, computes: u64) {
        let (start, n) = (number * 100, number as f64);
        self.hit(0, 0, start, 0, &[n, 2.0]);
        for compute in 0..computes {
            (1..3).for_each(|rank| self.hit(3, rank, start + 1 + compute % 90, 1, &[n]));
        }
        self.hit(1, 0, start + 95, 0, &[n]);
        self.watermarks(start + 99);
    }

    fn watermarks(&mut self, ms: u64) {
        for rank in 0..3 {
            let (process, time) = (ProcessId(rank), Time(ms * MS));
            self.nodes[usize::from(rank > 0)].observe(Observation::Watermark { process, time });
        }
    }

    fn reports(&mut self) -> Vec<Report> {
        self.nodes.iter_mut().map(Node::report).collect()
    }

    /// Two rounds: the order, then the instance. Returns the reports of the second round.
    fn rounds(&mut self, ms: u64) -> Vec<Report> {
        for report in self.reports() {
            assert!(self.engine.take_report(report));
        }
        self.engine.tick(Time(ms * MS));
        let schedule = self.engine.schedule();
        self.nodes.iter_mut().for_each(|node| node.learn(&schedule));
        self.reports()
    }

    fn take(&mut self, reports: Vec<Report>) {
        reports.into_iter().for_each(|report| {
            self.engine.take_report(report);
        });
    }

    /// That many times two rounds, all of whose reports arrive.
    fn taken_rounds(&mut self, ms: u64, count: u64) {
        for round in 0..count {
            let reports = self.rounds(ms + round);
            self.take(reports);
        }
    }

    fn closed(&mut self, ms: u64) -> Vec<String> {
        self.engine.tick(Time(ms * MS));
        let windows = self.engine.drain_windows().into_iter();
        let total = |window: ClosedWindow| window.metrics.into_iter().find(|(name, _)| name == "total");
        windows.filter_map(total).map(|(_, value)| value).collect()
    }
}

#[test]
fn what_a_node_reports_of_an_iteration_does_not_depend_on_the_number_of_hits() {
    let size = |computes: u64| {
        let mut cluster = Cluster::new(FRAME);
        cluster.iteration(1, computes);
        let first = cluster.reports();
        let observed: usize = first.iter().map(|report| report.observations.len()).sum();
        cluster.take(first);
        let second = cluster.rounds(200);
        let states: usize = second
            .iter()
            .flat_map(|report| &report.partials)
            .map(|partial| partial.states())
            .sum();
        cluster.take(second);
        (observed, states, cluster.closed(201))
    };
    assert_eq!(size(1), (2, 2, vec!["2 ms".to_string()]));
    assert_eq!(size(50), (2, 2, vec!["100 ms".to_string()]));
}

/// A rule for which a node reports no rows of processes.
const NO_ROWS: &str = "\
rule: rows
about: no formula needs the row of a process
roles:
  rank: rank >= 0
probes:
  turn: {role: rank, entry: t}
  stop: {role: rank, return: t}
  work: {role: rank, span: w}
capture:
  turn.number: n
  work.number: n
windows:
  step: {from: turn, to: stop, key: number}
  pulse: {every: 1s}
metrics:
  worked: {in: step, value: sum(work.duration)}
  spread: {in: step, value: stddev(work.duration)}
  longest: {in: step, value: max(work.duration where work.duration > 1us)}
  calls: {in: pulse, value: count(work)}
  slowest: {in: pulse, value: max(work.duration)}
  load: {in: pulse, value: mean(cpu.time / pulse.duration) / max(cpu.time / pulse.duration)}
";

/// Bytes of the messages of a node with these ranks, for a step of 100 ms with these hits in all, and for a window of
/// 1 s: how many messages there are, and how long those are that do not have the boundaries of the step.
fn sent(ranks: u32, hits: u32) -> (usize, usize) {
    let mut engine = of_ranks(NO_ROWS, ranks);
    engine.node_joined(Machine(0));
    let mut node = Node::new(Machine(0), 0, vec![checked(NO_ROWS)]);
    let at = |ms: u64, observe: &mut dyn FnMut(Observation)| {
        for rank in 0..ranks {
            let time = Time(ms * MS);
            observe(cpu_time(rank, time, ms * MS / 2));
            let count = if ms == 0 { 0 } else { u64::from(hits / ranks) };
            observe(totals((2, rank), time, (count, count * 2000)));
        }
    };
    for rank in 0..ranks {
        node.process_joined(ProcessId(rank), ProcessFacts::of_rank(rank), Time(0));
    }
    at(0, &mut |observation| node.observe(observation));
    for rank in 0..ranks {
        let process = ProcessId(rank);
        node.observe(hit(ProbeId(0), process, Time(100 * MS), 0, &[1.0]));
        node.observe(hit(ProbeId(1), process, Time(900 * MS), 0, &[]));
        for number in 0..hits / ranks {
            let time = Time(100 * MS + u64::from(number) * 10_000);
            node.observe(hit(ProbeId(2), process, time, 2000, &[1.0]));
        }
        let time = Time(1000 * MS);
        node.observe(Observation::Watermark { process, time });
    }
    at(1000, &mut |observation| node.observe(observation));
    let mut messages = Vec::new();
    for round in 0..2 {
        let mut report = node.report();
        engine.take_report(Report::decode(&report.encode().unwrap()).unwrap());
        engine.tick(Time((1000 + round) * MS));
        node.learn(&engine.schedule());
        let is_boundary = |probe: &ProbeId| probe.0 < 2;
        report.observations.retain(
            |observation| !matches!(observation, Observation::Hit { probe, .. } if is_boundary(probe)),
        );
        messages.push(report.encode().unwrap());
    }
    let report = node.report();
    engine.take_report(report);
    engine.tick(Time(1002 * MS));
    let closed = engine.drain_windows();
    assert_eq!(closed.len(), 2, "{closed:?}");
    let values = closed.iter().flat_map(|window| &window.metrics);
    values.for_each(|(name, value)| assert!(!value.starts_with("none"), "{name}: {value}"));
    (messages.len(), messages.iter().map(Vec::len).sum())
}

#[test]
fn a_node_sends_two_messages_a_step_of_a_length_that_depends_on_neither_hits_nor_processes() {
    let expected = sent(8, 1280);
    assert_eq!(expected.0, 2);
    for (ranks, hits) in [(128, 1280), (8, 128_000), (128, 128_000)] {
        let (messages, bytes) = sent(ranks, hits);
        assert_eq!(messages, expected.0);
        // Numbers of more hits have more digits.
        assert!(
            bytes.abs_diff(expected.1) < 64,
            "{ranks} ranks, {hits} hits: {bytes}, not {}",
            expected.1
        );
    }
}

#[test]
fn reports_that_come_twice_or_out_of_order_change_nothing_and_one_that_never_comes_is_a_loss() {
    let mut cluster = Cluster::new(FRAME);
    cluster.iteration(1, 3);
    let mut reports = cluster.rounds(200);
    cluster.iteration(2, 4);
    reports.extend(cluster.reports());
    reports.reverse();
    for report in reports {
        assert!(cluster.engine.take_report(report.clone()));
        assert!(cluster.engine.take_report(report));
    }
    assert_eq!(cluster.closed(300), ["6 ms"]);
    cluster.taken_rounds(301, 1);
    assert_eq!(cluster.closed(302), ["8 ms"]);
    // A report of the workers is lost; the many reports after it end the wait for it.
    cluster.iteration(3, 5);
    let mut lost = cluster.reports();
    cluster.engine.take_report(lost.remove(0));
    for _ in 0..70 {
        let reports = cluster.reports();
        cluster.take(reports);
    }
    cluster.iteration(4, 5);
    cluster.taken_rounds(500, 3);
    let closed = cluster.closed(510);
    assert!(closed[0].contains("the window is partial"), "{closed:?}");
    let unknown = Node::new(Machine(9), 0, Vec::new()).report();
    assert!(!cluster.engine.take_report(unknown));
}

#[test]
fn a_restarted_agent_begins_at_report_0_and_makes_the_windows_in_flight_partial() {
    let mut cluster = Cluster::new(FRAME);
    cluster.iteration(1, 3);
    cluster.taken_rounds(200, 1);
    assert_eq!(cluster.closed(201), ["6 ms"]);
    // The agent of the workers is replaced while iteration 2 is open, with a hit that it has not reported.
    cluster.hit(0, 0, 300, 0, &[2.0, 2.0]);
    cluster.watermarks(320);
    cluster.taken_rounds(321, 2);
    cluster.hit(3, 1, 325, 1, &[2.0]);
    let mut old = cluster.restart(7);
    cluster.hit(3, 2, 330, 1, &[2.0]);
    for number in 3..5 {
        cluster.hit(1, 0, 295 + (number - 2) * 100, 0, &[number as f64 - 1.0]);
        cluster.hit(0, 0, number * 100 + 100, 0, &[number as f64, 2.0]);
        (1..3).for_each(|rank| cluster.hit(3, rank, number * 100 + 110, 1, &[number as f64]));
        cluster.watermarks(number * 100 + 120);
        cluster.taken_rounds(number * 100 + 130, 3);
    }
    let closed = cluster.closed(540);
    assert_eq!(closed.len(), 2, "{closed:?}");
    assert!(closed[0].contains("an agent was restarted in it"), "{closed:?}");
    // Instance 3 began before the first watermark of the new agent, so hits of it may be missing.
    assert!(closed[1].contains("the window is partial"), "{closed:?}");
    let dropped = cluster.engine.dropped(RuleId(0));
    assert_eq!((dropped.outdated, dropped.partial), (0, 2));
    // What the old agent reports late is ignored and counted.
    old.observe(hit(ProbeId(1), ProcessId(1), Time(340 * MS), 0, &[2.0]));
    let late = old.report();
    assert!(cluster.engine.take_report(late.clone()));
    assert!(cluster.engine.take_report(late));
    assert_eq!(cluster.engine.dropped(RuleId(0)).outdated, 2);
    cluster.iteration(6, 4);
    cluster.taken_rounds(700, 3);
    assert_eq!(cluster.closed(710).last().map(String::as_str), Some("8 ms"));
}

#[test]
fn a_node_speaks_of_its_own_processes_only() {
    let mut cluster = Cluster::new(FRAME);
    cluster.iteration(1, 3);
    // The node of the master claims the hits of the workers, and that everything of them was observed.
    let observe = |node: &mut Node, process: u32| {
        let (process, time) = (ProcessId(process), Time(1000 * MS));
        node.observe(hit(ProbeId(3), process, Time(150 * MS), MS, &[1.0]));
        node.observe(Observation::Watermark { process, time });
        let of = Subject::Machine(Machine(1));
        node.observe(Observation::gauge(of, Measure::JobCpus, time, 2.0));
    };
    (1..3).for_each(|rank| cluster.nodes[0].process_joined(ProcessId(rank), facts(rank), Time(0)));
    observe(&mut cluster.nodes[0], 1);
    let (process, time) = (ProcessId(2), Time(199 * MS));
    cluster.nodes[0].observe(Observation::Watermark { process, time });
    let reports = cluster.rounds(200);
    let folded = reports[0].partials.len();
    cluster.take(reports);
    assert_eq!(cluster.closed(201), ["6 ms"]);
    let dropped = cluster.engine.dropped(RuleId(0));
    // The gauge and the hit, which the node had folded.
    assert_eq!((folded, dropped.foreign), (1, 2), "{dropped:?}");
    let foreign = dropped.hits().into_iter().find(|left| left.reason == "foreign");
    assert_eq!(
        foreign.map(|left| left.words),
        Some("reported by a node that is not theirs")
    );
}

#[test]
fn each_fold_is_placed_as_near_to_its_hits_as_may_be_and_equal_ones_are_one() {
    let (head, _) = FRAME.split_once("metrics:\n").unwrap();
    let metrics = "  pulse: {every: 1s}
metrics:
  bytes: {in: iteration, value: sum(send.bytes)}
  busy: {in: iteration, value: sum(compute.duration) by process}
  workers: {in: iteration, value: begin.workers}
  slow: {in: iteration, value: max(compute.duration where compute.duration > 1ms)}
  late: {in: iteration, value: sum(compute.duration * iteration.duration / 1s)}
  again: max(busy) - sum(compute.duration) / 2
  each: {in: pulse, value: count(send)}
";
    let rule = checked(&format!("{head}{metrics}"));
    let placements = rule.placements();
    for (fold, expected) in [
        // The fold that waits for the close has its hits kept, so they are passed on one by one.
        (
            "sum(compute.duration * iteration.duration / 1s)",
            Placement::Coordinator,
        ),
        (
            "max(compute.duration where compute.duration > 1ms)",
            Placement::Coordinator,
        ),
        ("count(send)", Placement::Kernel),
        ("begin.workers", Placement::Coordinator),
    ] {
        let found = placements.iter().find(|placed| placed.fold == fold);
        assert_eq!(found.map(|placed| placed.placement), Some(expected), "{fold}");
    }
    let rule = checked(FRAME);
    let shown: Vec<String> = rule
        .placements()
        .iter()
        .map(|placed| {
            format!(
                "{} {} {} {}",
                placed.window, placed.fold, placed.uses, placed.placement
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "iteration sum(send.bytes) 1 kernel",
            "iteration sum(compute.duration) by process 1 kernel",
            "iteration begin.workers 1 coordinator",
        ]
    );
}

#[test]
fn every_fold_of_every_formula_has_its_place() {
    let shipped = crate::library()
        .iter()
        .chain(crate::models())
        .map(|(_, text)| (*text).to_string());
    for text in shipped.chain([FRAME.to_string()]) {
        let rule = checked(&text);
        let nowhere = format!("slot: {}", crate::folds::NOWHERE);
        let formulas = format!(
            "{:?} {:?} {:?} {:?}",
            rule.metrics, rule.tunes, rule.windows, rule.runs
        );
        assert!(!formulas.contains(&nowhere), "{text}");
    }
}
