//! A job of many ranks: how long it takes until all have joined, until all have ended, and how long the
//! coordinator takes for an iteration, of the model halo-width, whose boundaries each rank hits.
//!
//! `cargo bench -p tuneagent-rules --bench ranks`.

mod models;

use models::model;

use divan::Bencher;
use rules::{
    Engine, Machine, Node, Observation, ProbeId, ProcessFacts, ProcessId, Report, RuleId, Scalar, Time,
};

/// Ranks on each node.
const ON_NODE: u32 = 20;
/// Length of an iteration in nanoseconds.
const ITERATION: u64 = 100_000_000;

fn main() {
    divan::main();
}

fn facts(rank: u32) -> ProcessFacts {
    ProcessFacts {
        machine: Machine(rank / ON_NODE),
        host: Some(format!("n{}", rank / ON_NODE)),
        rank: Some(rank),
        ..ProcessFacts::default()
    }
}

/// An engine that all ranks joined, and the node of each [`ON_NODE`] of them.
fn joined(ranks: u32) -> (Engine, Vec<Node>) {
    let mut engine = Engine::new(vec![model("halo-width")], Time(0)).expect("one rule has no conflict");
    let checked = model("halo-width");
    let nodes = (0..ranks / ON_NODE).map(|id| {
        engine.node_joined(Machine(id));
        let mut node = Node::new(Machine(id), 0, vec![checked.clone()]);
        for rank in id * ON_NODE..(id + 1) * ON_NODE {
            node.process_joined(ProcessId(rank), facts(rank), Time(0));
            engine.process_joined(ProcessId(rank), facts(rank), Time(0));
        }
        node
    });
    let nodes = nodes.collect();
    (engine, nodes)
}

#[divan::bench(args = [10_000, 100_000], sample_count = 3, sample_size = 1)]
fn all_ranks_join(ranks: u32) -> (Engine, Vec<Node>) {
    joined(ranks)
}

#[divan::bench(args = [1_000, 10_000], sample_count = 3, sample_size = 1)]
fn all_ranks_join_again_and_leave(bencher: Bencher<'_, '_>, ranks: u32) {
    bencher
        .with_inputs(|| joined(ranks).0)
        .bench_local_values(|mut engine| {
            for rank in 0..ranks {
                engine.process_joined(ProcessId(rank), facts(rank), Time(1));
            }
            (0..ranks).for_each(|rank| engine.process_left(ProcessId(rank), Time(2)));
            engine.tick(Time(ITERATION));
            engine.tick(Time(2 * ITERATION));
            assert_eq!(engine.members(RuleId(0)).len(), 0);
            engine
        });
}

/// Hits of an iteration of a rank, and its watermark. The ranks do not begin in the order of their numbers.
fn hits(rank: u32, number: u64) -> Vec<Observation> {
    let late = u64::from(rank).wrapping_mul(7919) % 10_007 * 1000;
    let (start, n) = ((number + 1) * ITERATION + late, number as f64);
    let hit = |probe: usize, after: u64, duration_ns: u64, reads: &[f64]| Observation::Hit {
        rule: RuleId(0),
        probe: ProbeId(probe),
        process: ProcessId(rank),
        thread: 0,
        time: Time(start + after),
        duration_ns,
        captures: reads.iter().map(|read| Ok(Scalar::Number(*read))).collect(),
    };
    // Probe numbers are in the order of the file: begin, end, exchange, compute.
    vec![
        hit(0, 0, 0, &[n]),
        hit(2, 11_000_000, 10_000_000, &[n]),
        hit(3, 51_000_000, 40_000_000, &[n, 1.0, 1000.0]),
        hit(1, 52_000_000, 0, &[]),
        Observation::Watermark {
            process: ProcessId(rank),
            time: Time((number + 2) * ITERATION - 1),
        },
    ]
}

/// The messages of the nodes, in an order that is not that of their numbers.
fn messages(nodes: &mut [Node]) -> Vec<Vec<u8>> {
    let count = nodes.len();
    let mut order: Vec<usize> = (0..count).map(|index| index * 7919 % count).collect();
    order.dedup();
    let message = |index: usize| nodes[index].report().encode().expect("it fits");
    order.into_iter().map(message).collect()
}

fn receive(engine: &mut Engine, messages: &[Vec<u8>]) {
    for message in messages {
        engine.take_report(Report::decode(message).expect("it is one of a node"));
    }
}

/// An iteration: the messages before the schedule, and those after it.
fn iteration(engine: &Engine, nodes: &mut [Node]) -> [Vec<Vec<u8>>; 2] {
    let first = messages(nodes);
    let mut engine = engine.clone();
    receive(&mut engine, &first);
    engine.tick(Time(2 * ITERATION));
    let schedule = engine.schedule();
    nodes.iter_mut().for_each(|node| node.learn(&schedule));
    [first, messages(nodes)]
}

/// What the coordinator does for an iteration, decoding of its messages included.
#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 5, sample_size = 1)]
fn an_iteration_of_all_ranks(bencher: Bencher<'_, '_>, ranks: u32) {
    bencher
        .with_inputs(|| {
            let (engine, mut nodes) = joined(ranks);
            for rank in 0..ranks {
                let node = &mut nodes[(rank / ON_NODE) as usize];
                hits(rank, 0).into_iter().for_each(|hit| node.observe(hit));
            }
            let messages = iteration(&engine, &mut nodes);
            (engine, messages)
        })
        .bench_local_values(|(mut engine, [first, second])| {
            receive(&mut engine, &first);
            engine.tick(Time(2 * ITERATION));
            let schedule = engine.schedule().encode().expect("it fits");
            receive(&mut engine, &second);
            engine.tick(Time(2 * ITERATION + 1));
            let closed = engine.drain_windows();
            let taken = closed[0].metrics.iter().find(|(name, _)| name == "taken");
            assert_eq!(
                taken.map(|(_, value)| value.as_str()),
                Some("50 ms"),
                "{closed:?}"
            );
            (engine, schedule)
        });
}
