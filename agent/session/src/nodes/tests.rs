//! The coordinator and its nodes, with messages that are carried by hand.

use std::collections::{BTreeMap, BTreeSet};

use profile::{FunctionTotals, NodeNumbers, NodeState, ProcessView, Snapshot};
use proptest::prelude::*;
use rules::{CheckedRule, Measure, Observation, ProcessFacts, ProcessId, RuleFile, Subject, Time};

use super::message::{Down, JoinRequest, Up};
use super::node::{BY_COORDINATOR, ORPHANED};
use super::*;
use crate::Act;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// The clock of the node is behind that of the coordinator.
const BEHIND: u64 = 40 * S;

const UNEVEN: &str = "\
rule: uneven
about: some ranks compute longer
windows:
  pulse: {every: 1s}
metrics:
  slowest: argmax(cpu.time)
  load: mean(cpu.time / pulse.duration) / max(cpu.time / pulse.duration)
tune:
  - finding: rank {slowest} is uneven
    when: load < 80%
";

fn uneven() -> CheckedRule {
    RuleFile::parse(UNEVEN)
        .unwrap()
        .check(&BTreeMap::new())
        .unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn setup() -> CoordinatorSetup {
    CoordinatorSetup {
        build: "1".to_owned(),
        host: "a".to_owned(),
        ranks: BTreeSet::from([0, 1]),
        size: Some(4),
        orphan_ns: 60 * S,
        nodes: 2,
        ..CoordinatorSetup::default()
    }
}

fn hello() -> JoinRequest {
    JoinRequest {
        build: "1".to_owned(),
        host: "b".to_owned(),
        ranks: vec![2, 3],
        processes: 2,
        size: Some(4),
        cannot_probe: None,
    }
}

fn coordinator() -> Coordinator {
    Coordinator::new(setup(), vec![uneven()], 50 * S).unwrap()
}

/// Lets a node join at 50 s; returns what it is sent.
fn join(coordinator: &mut Coordinator) -> message::Welcome {
    join_as(1, coordinator)
}

fn join_as(node: u32, coordinator: &mut Coordinator) -> message::Welcome {
    let mut effects = coordinator.take(node, &Up::JoinRequest(hello()).encode().unwrap(), 50 * S);
    for exchange in 0.. {
        let now = 50 * S + exchange * MS;
        let [CoordinatorEffect::Send(_, message)] = &effects[..] else {
            panic!("{effects:?}");
        };
        match Down::decode(message).unwrap() {
            Down::Welcome(welcome) => return *welcome,
            Down::Ping { sent_ns } => {
                let at = now + MS / 2 - BEHIND;
                let pong = Up::Pong {
                    sent_ns,
                    received_ns: at,
                    answered_ns: at,
                };
                effects = coordinator.take(node, &pong.encode().unwrap(), now + MS);
            }
            other => panic!("{other:?}"),
        }
    }
    unreachable!()
}

fn numbers(calls: u64) -> NodeNumbers {
    let rank = |rank: u32| ProcessView {
        rank: Some(rank),
        functions: vec![FunctionTotals {
            name: "MPI_Send".to_owned(),
            calls,
            ..FunctionTotals::default()
        }],
        ..ProcessView::default()
    };
    NodeNumbers {
        processes: vec![rank(2), rank(3)],
        ..NodeNumbers::default()
    }
}

/// A part of node 1 without observations.
fn nothing() -> PartReport {
    JobPart::new(1, 1, "b".to_owned(), 0, vec![uneven()]).report()
}

fn closed(incarnation: u64) -> Vec<u8> {
    Up::Closed { incarnation }.encode().unwrap()
}

fn sent(effects: Vec<NodeEffect>) -> Vec<u8> {
    match effects.into_iter().next() {
        Some(NodeEffect::Send(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn said(effects: &[CoordinatorEffect]) -> Vec<&str> {
    let said = effects.iter().filter_map(|effect| match effect {
        CoordinatorEffect::Say(text) => Some(text.as_str()),
        _ => None,
    });
    said.collect()
}

fn shown(coordinator: &Coordinator, now: u64) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.job.host = "a".to_owned();
    coordinator.add_to(&mut snapshot, now);
    snapshot
}

#[test]
fn a_node_that_joins_has_the_offset_of_its_clock_and_is_shown_with_its_bound() {
    let mut coordinator = coordinator();
    let welcome = join(&mut coordinator);
    assert_eq!((welcome.offset_ns, welcome.incarnation), (BEHIND as i64, 1));
    let mut node = NodeAgent::new(&welcome, 10 * S);
    let report = sent(node.report(&numbers(5), nothing(), false, 11 * S));
    assert!(!node.is_due(20 * S), "it is not acknowledged");
    let effects = coordinator.take(1, &report, 51 * S);
    let [CoordinatorEffect::Joined, CoordinatorEffect::Send(1, answer)] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert!(
        matches!(node.take(answer, 12 * S)[..], [NodeEffect::Learn { offset_ns, .. }] if offset_ns == BEHIND as i64)
    );
    assert!(node.is_due(20 * S));
    let shown = shown(&coordinator, 51 * S);
    let view = &shown.nodes[1];
    assert_eq!(
        (view.host.as_str(), view.state, view.processes),
        ("b", NodeState::Watched, 2)
    );
    // Half of 1 ms, and 200 ppm of a second since.
    let bound = view.clock_bound_ns.unwrap();
    assert!((500_000..800_000).contains(&bound), "{bound}");
}

#[test]
fn a_report_that_arrives_twice_or_is_lost_counts_once_and_is_sent_until_it_is_acknowledged() {
    let mut coordinator = coordinator();
    let mut node = NodeAgent::new(&join(&mut coordinator), 10 * S);
    let lost = sent(node.report(&numbers(5), nothing(), false, 11 * S));
    assert_eq!(node.tick(12 * S), []);
    let again = sent(node.tick(13 * S));
    assert_eq!(again, lost);
    for at in [52, 53] {
        let effects = coordinator.take(1, &again, at * S);
        let acknowledged = effects
            .iter()
            .any(|effect| matches!(effect, CoordinatorEffect::Send(..)));
        assert!(acknowledged, "{effects:?}");
    }
    assert_eq!(
        shown(&coordinator, 53 * S).functions()[0].calls,
        10,
        "5 of each rank"
    );
    assert_eq!(shown(&coordinator, 53 * S).nodes[1].losses, 0);
}

#[test]
fn who_may_not_join_is_said_why() {
    for (change, expected) in [
        (
            JoinRequest {
                build: "2".into(),
                ..hello()
            },
            "install the same version on both",
        ),
        (
            JoinRequest {
                ranks: vec![1],
                ..hello()
            },
            "rank 1 is watched on a already",
        ),
        (
            JoinRequest {
                size: Some(8),
                ..hello()
            },
            "different jobs",
        ),
    ] {
        let mut coordinator = coordinator();
        let effects = coordinator.take(1, &Up::JoinRequest(change).encode().unwrap(), 50 * S);
        assert!(said(&effects)[0].contains(expected), "{effects:?}");
        let CoordinatorEffect::Send(1, message) = &effects[0] else {
            panic!("{effects:?}")
        };
        assert!(matches!(Down::decode(message), Ok(Down::Refused(why)) if why.contains(expected)));
    }
    let mut coordinator = coordinator();
    let welcome = join(&mut coordinator);
    let effects = coordinator.take(1, &Up::JoinRequest(hello()).encode().unwrap(), 51 * S);
    let CoordinatorEffect::Send(1, message) = &effects[0] else {
        panic!("{effects:?}")
    };
    let mut first = NodeAgent::new(&welcome, 10 * S);
    assert_eq!(first.take(message, 11 * S), [], "it is for the other agent");
    assert!(
        said(&effects)[0].contains("its join file is in use by b"),
        "{effects:?}"
    );
    let other = JoinRequest {
        host: "c".into(),
        ..hello()
    };
    let effects = coordinator.take(2, &Up::JoinRequest(other).encode().unwrap(), 51 * S);
    assert!(
        said(&effects)[0].contains("rank 2 is watched on b already"),
        "{effects:?}"
    );
}

#[test]
fn a_node_that_was_started_is_reached_when_it_joins_and_one_that_is_refused_is_said_once() {
    let mut coordinator = coordinator();
    let hosts = ["b", "c"].map(str::to_owned).to_vec();
    let effects = coordinator.start(Starts::new("ssh", 1, hosts, 50 * S), 50 * S);
    assert_eq!(
        effects,
        [CoordinatorEffect::Begin(1), CoordinatorEffect::Begin(2)]
    );
    let unlike = JoinRequest {
        build: "2".into(),
        host: "c".into(),
        ..hello()
    };
    let effects = coordinator.take(2, &Up::JoinRequest(unlike).encode().unwrap(), 50 * S);
    assert!(said(&effects)[0].starts_with("c may not join: "), "{effects:?}");
    join(&mut coordinator);
    let end = StartEnd {
        code: Some(2),
        said: "tuneagent: a refuses this node".to_owned(),
    };
    assert_eq!(
        said(&coordinator.take_start(2, &end, 51 * S)),
        ["agents on 1 other machine by ssh, after 8 ms"]
    );
    assert_eq!(said(&coordinator.tick(51 * S)), [""; 0]);
    coordinator.end("Ctrl-C", 52 * S);
    assert_eq!(coordinator.take_start(1, &end, 53 * S), []);
}

#[test]
fn why_a_node_has_no_probes_is_said_when_it_joins() {
    let mut coordinator = coordinator();
    let without = JoinRequest {
        cannot_probe: Some("probes need CAP_BPF\n".to_owned()),
        ..hello()
    };
    coordinator.take(1, &Up::JoinRequest(without).encode().unwrap(), 50 * S);
    let pong = Up::Pong {
        sent_ns: 50 * S,
        received_ns: 10 * S,
        answered_ns: 10 * S,
    };
    let pong = pong.encode().unwrap();
    let effects: Vec<_> = (0..8).flat_map(|_| coordinator.take(1, &pong, 50 * S)).collect();
    assert_eq!(said(&effects), ["b: probes need CAP_BPF"]);
}

#[test]
fn a_silent_node_is_said_to_be_and_its_return_and_its_end_too() {
    let mut coordinator = coordinator();
    let welcome = join(&mut coordinator);
    let mut node = NodeAgent::new(&welcome, 10 * S);
    let report = sent(node.report(&numbers(5), nothing(), false, 11 * S));
    coordinator.take(1, &report, 51 * S);
    assert_eq!(said(&coordinator.tick(53 * S)), [""; 0]);
    assert_eq!(said(&coordinator.tick(55 * S)), ["b: silent for 4 s"]);
    assert_eq!(said(&coordinator.tick(56 * S)), [""; 0], "once");
    let effects = coordinator.take(1, &report, 58 * S);
    assert!(said(&effects)[0].starts_with("b: back after 7 s"), "{effects:?}");
    assert_eq!(said(&coordinator.tick(62 * S)), ["b: silent for 4 s"]);
    let effects = coordinator.tick(120 * S);
    assert_eq!(
        said(&effects),
        ["b: gone, 2 processes with it; the numbers are the last that arrived"]
    );
    assert_eq!(shown(&coordinator, 121 * S).nodes[1].state, NodeState::Gone);
    assert_eq!(shown(&coordinator, 121 * S).functions()[0].calls, 10);
    // Its file may be used again by another agent.
    assert_eq!(join(&mut coordinator).incarnation, 2);
    assert_eq!(
        said(&coordinator.take(1, &report, 122 * S)),
        [""; 0],
        "of the agent before"
    );
    assert_eq!(shown(&coordinator, 122 * S).nodes[1].refused, 1);
    assert_eq!(
        said(&coordinator.take(1, &closed(1), 123 * S)),
        [""; 0],
        "of the agent before"
    );
    let effects = coordinator.take(1, &closed(2), 123 * S);
    assert!(
        said(&effects)[0].starts_with("b: its agent has died; 2 processes there are"),
        "{effects:?}"
    );
}

#[test]
fn the_end_waits_for_the_last_report_and_a_node_without_coordinator_ends_by_itself() {
    let mut coordinator = coordinator();
    let mut node = NodeAgent::new(&join(&mut coordinator), 10 * S);
    assert!(coordinator.is_waiting());
    let [CoordinatorEffect::Send(1, end)] = &coordinator.end("Ctrl-C", 51 * S)[..] else {
        panic!()
    };
    assert_eq!(node.take(end, 11 * S), [NodeEffect::End(BY_COORDINATOR)]);
    let last = sent(node.report(&numbers(9), nothing(), true, 11 * S));
    coordinator.take(1, &last, 52 * S);
    assert!(!coordinator.is_waiting());
    assert_eq!(said(&coordinator.take(1, &closed(1), 53 * S)), [""; 0]);
    assert_eq!(shown(&coordinator, 53 * S).functions()[0].calls, 18);
    assert_eq!(node.tick(70 * S).len(), 1);
    assert!(!node.is_settled());
    assert_eq!(node.tick(71 * S), [NodeEffect::End(ORPHANED)]);
    assert!(node.is_settled(), "no answer is expected");
    let mut other = NodeAgent::new(&message::Welcome::default(), 10 * S);
    other.report(&numbers(9), nothing(), true, 11 * S);
    assert!(!other.is_settled());
    other.orphan();
    assert!(other.is_settled());
}

#[test]
fn another_agent_counts_for_the_ranks_of_one_that_is_gone() {
    let mut coordinator = coordinator();
    let mut node = NodeAgent::new(&join(&mut coordinator), 10 * S);
    let report = sent(node.report(&numbers(5), nothing(), false, 11 * S));
    coordinator.take(1, &report, 51 * S);
    coordinator.take(1, &closed(1), 52 * S);
    assert_eq!(shown(&coordinator, 52 * S).processes.len(), 2);
    join_as(2, &mut coordinator);
    let shown = shown(&coordinator, 53 * S);
    assert_eq!(
        (shown.nodes.len(), shown.nodes[1].state, shown.processes.len()),
        (2, NodeState::Watched, 0)
    );
}

#[test]
fn a_node_that_ends_by_itself_is_said_to() {
    let mut coordinator = coordinator();
    let mut node = NodeAgent::new(&join(&mut coordinator), 10 * S);
    let last = sent(node.report(&numbers(9), nothing(), true, 11 * S));
    let effects = coordinator.take(1, &last, 52 * S);
    assert_eq!(
        said(&effects),
        ["b: its session was ended there; 2 processes not watched any more"]
    );
    assert_eq!(shown(&coordinator, 53 * S).nodes[1].state, NodeState::Ended);
}

/// The ranks of a machine compute for these parts of a second.
fn observe(part: &mut JobPart, shares: [u64; 2], from: u64, to: u64) {
    for (slot, share) in shares.into_iter().enumerate() {
        let process = ProcessId(slot as u32);
        for (time, total) in [(from, 0), (to, share * 10 * MS)] {
            let of = Subject::Process(process);
            part.observe(&Observation::counter(of, Measure::CpuTime, Time(time), total));
        }
        part.observe(&Observation::Watermark {
            process,
            time: Time(to),
        });
    }
}

#[test]
fn a_rule_is_evaluated_over_the_ranks_of_all_machines() {
    for (shares, expected) in [
        ([90, 90], None),
        ([20, 90], Some("rank 0 is uneven (rank 0 is on a)")),
        ([20, 99], Some("rank 3 is uneven (rank 3 is on b)")),
    ] {
        let mut coordinator = coordinator();
        let welcome = join(&mut coordinator);
        let mut own = JobPart::new(0, 0, "a".into(), 0, vec![uneven()]);
        let mut part = JobPart::new(1, 1, "b".into(), welcome.offset_ns, vec![uneven()]);
        let mut node = NodeAgent::new(&welcome, 10 * S);
        let facts = |rank| ProcessFacts {
            rank: Some(rank),
            ..ProcessFacts::default()
        };
        for slot in 0..2 {
            own.joined(ProcessId(slot), facts(slot), Time(50 * S));
            part.joined(ProcessId(slot), facts(2 + slot), Time(50 * S - BEHIND));
        }
        observe(&mut own, [95, 40], 50 * S, 51 * S);
        observe(&mut part, shares, 50 * S - BEHIND, 51 * S - BEHIND);
        let mut acts = Vec::new();
        for round in 0..3 {
            let now = 51 * S + 400 * round * MS;
            let report = sent(node.report(&numbers(1), part.report(), false, now - BEHIND));
            for effect in coordinator.take(1, &report, now) {
                if let CoordinatorEffect::Send(1, answer) = effect {
                    for effect in node.take(&answer, now - BEHIND) {
                        if let NodeEffect::Learn { schedule, offset_ns } = effect {
                            part.learn(&schedule, offset_ns);
                        }
                    }
                }
            }
            let schedule = coordinator.take_own(own.report());
            own.learn(&schedule, 0);
            acts.extend(coordinator.evaluate(now));
        }
        let found = acts.iter().find_map(|act| match act {
            Act::Found {
                text, is_new: true, ..
            } => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(found, expected, "{acts:?}");
    }
}

proptest! {
    /// Whatever arrives is bounded, and what another sends changes nothing of the others.
    #[test]
    fn hostile_messages_change_nothing(
        node in 0u32..5,
        mut garbage in prop::collection::vec(any::<u8>(), 0..200),
        is_format in any::<bool>(),
    ) {
        if let Some(first) = garbage.first_mut().filter(|_| is_format) {
            *first = message::FORMAT;
        }
        let mut coordinator = coordinator();
        let mut joined = NodeAgent::new(&join(&mut coordinator), 10 * S);
        let report = sent(joined.report(&numbers(5), nothing(), false, 11 * S));
        coordinator.take(1, &report, 51 * S);
        coordinator.take(node, &garbage, 52 * S);
        let shown = shown(&coordinator, 52 * S);
        if node != 1 {
            prop_assert_eq!(shown.functions()[0].calls, 10);
        }
        prop_assert!(joined.take(&garbage, 12 * S).len() <= 1);
    }

    /// A message whose bytes were changed on the way is refused or read within its bounds.
    #[test]
    fn changed_messages_are_bounded(at in 0usize..400, byte in any::<u8>()) {
        let mut coordinator = coordinator();
        let mut node = NodeAgent::new(&join(&mut coordinator), 10 * S);
        let mut report = sent(node.report(&numbers(5), nothing(), false, 11 * S));
        let length = report.len();
        report[at % length] = byte;
        coordinator.take(1, &report, 51 * S);
        prop_assert!(shown(&coordinator, 52 * S).processes.len() <= profile::RANKS_OF_NODE_MAX);
    }
}

#[test]
fn messages_that_are_too_long_are_not_read_and_ranks_of_others_are_refused() {
    let mut coordinator = coordinator();
    let mut node = NodeAgent::new(&join(&mut coordinator), 10 * S);
    coordinator.take(1, &vec![message::FORMAT; message::MESSAGE_MAX + 1], 51 * S);
    let mut foreign = numbers(5);
    foreign.processes[0].rank = Some(0);
    let report = sent(node.report(&foreign, nothing(), false, 11 * S));
    coordinator.take(1, &report, 51 * S);
    let shown = shown(&coordinator, 51 * S);
    let ranks: Vec<_> = shown.processes.iter().map(|process| process.rank).collect();
    assert_eq!((ranks, shown.nodes[1].refused), (vec![Some(3)], 2));
}
