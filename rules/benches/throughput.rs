//! Hits per second that one core evaluates: the model optimal-workers on a master and 63 workers.
//!
//! `cargo bench -p tuneagent-rules`. In each iteration every worker has four sends, replies and computations.
//! Hits are passed process by process with a watermark each, as the agent does, and followed by a tick.

mod models;

use divan::Bencher;
use divan::counter::ItemsCount;
use models::model;
use rules::{
    CheckedRule, DecisionOutcome, Engine, Machine, Mode, Node, Observation, Output, ProbeId, ProcessFacts,
    ProcessId, RuleId, Scalar, Time,
};

const PROCESSES: u32 = 64;
const ITERATIONS: u64 = 100;
const CHUNKS: u64 = 4;
/// Length of an iteration in nanoseconds.
const ITERATION: u64 = 100_000_000;

fn main() {
    divan::main();
}

fn facts(rank: u32) -> ProcessFacts {
    ProcessFacts {
        machine: Machine(rank / NODE),
        rank: Some(rank),
        ..ProcessFacts::default()
    }
}

fn engine() -> Engine {
    let mut engine = Engine::new(vec![model("optimal-workers")], Time(0)).expect("one rule has no conflict");
    (0..PROCESSES).for_each(|rank| engine.process_joined(ProcessId(rank), facts(rank), Time(0)));
    engine
}

fn hit(probe: usize, rank: u32, time: u64, duration_ns: u64, reads: &[f64]) -> Observation {
    Observation::Hit {
        rule: RuleId(0),
        probe: ProbeId(probe),
        process: ProcessId(rank),
        thread: 0,
        time: Time(time),
        duration_ns,
        captures: reads.iter().map(|read| Ok(Scalar::Number(*read))).collect(),
    }
}

/// Hits of one iteration: the master's first, and those of each process in time order.
fn iteration(number: u64) -> Vec<Observation> {
    let (start, n) = ((number + 1) * ITERATION, number as f64);
    let workers = PROCESSES - 1;
    // Probe numbers are in the order of the file: begin, end, send, reply, compute.
    let mut master = vec![hit(0, 0, start, 0, &[n, workers.into()])];
    let mut out = Vec::new();
    for chunk in 0..CHUNKS {
        for worker in 1..=workers {
            let at = start + chunk * 20_000_000 + u64::from(worker) * 100_000;
            let work = 1_000_000 + u64::from(worker) * 37;
            master.push(hit(2, 0, at, 50_000, &[4096.0]));
            master.push(hit(3, 0, at + work + 50_000, 0, &[worker.into(), 128.0]));
            out.push((worker, hit(4, worker, at + work, work, &[n])));
        }
    }
    master.push(hit(1, 0, start + 90_000_000, 0, &[]));
    master.sort_by_key(|hit| match hit {
        Observation::Hit { time, .. } => *time,
        _ => Time(0),
    });
    out.sort_by_key(|(worker, _)| *worker);
    master.extend(out.into_iter().map(|(_, hit)| hit));
    master
}

fn stream() -> Vec<Vec<Observation>> {
    (0..ITERATIONS).map(iteration).collect()
}

fn watermark(rank: u32, number: u64) -> Observation {
    Observation::Watermark {
        process: ProcessId(rank),
        time: Time((number + 1) * ITERATION + 95_000_000),
    }
}

fn hits() -> ItemsCount {
    ItemsCount::new(stream().iter().map(Vec::len).sum::<usize>())
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn one_engine(bencher: Bencher<'_, '_>) {
    let prepared = stream();
    bencher
        .counter(hits())
        .with_inputs(|| (engine(), prepared.clone()))
        .bench_local_values(|(mut engine, stream)| {
            for (number, hits) in (0..).zip(stream) {
                hits.into_iter().for_each(|hit| engine.observe(hit));
                (0..PROCESSES).for_each(|rank| engine.observe(watermark(rank, number)));
                engine.tick(Time((number + 1) * ITERATION + 96_000_000));
            }
            assert_eq!(engine.drain_windows().len() as u64, ITERATIONS);
            engine
        });
}

/// Duration of the tick that closes an iteration and decides on it, with a master, a worker and the model of
/// the experiment `reaction`, after nine iterations.
#[divan::bench(sample_count = 2000, sample_size = 1)]
fn from_the_last_hit_to_the_decision(bencher: Bencher<'_, '_>) {
    let text = include_str!("../../tests/programs/reaction.yaml");
    let rule = CheckedRule::from_source(text).expect("it checks");
    let mut engine = Engine::new(vec![rule], Time(0)).expect("one rule has no conflict");
    (0..2).for_each(|rank| engine.process_joined(ProcessId(rank), facts(rank), Time(0)));
    engine.set_mode(RuleId(0), Mode::Applying);
    for number in 0..9 {
        small_iteration(&mut engine, number);
        for output in engine.tick(Time((number + 1) * ITERATION + 91_000_000)) {
            if let Output::Decision(decision) = output {
                engine.receipt(
                    decision.id,
                    DecisionOutcome::Applied,
                    decision.window.unwrap_or_default().1,
                );
            }
        }
    }
    engine.drain_windows();
    small_iteration(&mut engine, 9);
    bencher
        .with_inputs(|| engine.clone())
        .bench_local_values(|mut engine| {
            let outputs = engine.tick(Time(10 * ITERATION + 91_000_000));
            assert!(matches!(outputs.as_slice(), [Output::Decision(_)]), "{outputs:?}");
            engine
        });
}

/// Passes the hits of one iteration with one worker.
fn small_iteration(engine: &mut Engine, number: u64) {
    let (start, n) = ((number + 1) * ITERATION, number as f64);
    // Probe numbers are in the order of the file: begin, end, send, reply, compute.
    let hits = [
        hit(0, 0, start, 0, &[n, 1.0]),
        hit(2, 0, start + 600_000, 500_000, &[4096.0]),
        hit(4, 1, start + 80_000_000, 70_000_000, &[n]),
        hit(3, 0, start + 81_000_000, 0, &[1.0, 128.0]),
        hit(1, 0, start + 90_000_000, 0, &[]),
    ];
    for hit in hits {
        let Observation::Hit { time, .. } = hit else {
            continue;
        };
        engine.observe(hit);
        for process in [0, 1].map(ProcessId) {
            engine.observe(Observation::Watermark { process, time });
        }
        // The caller makes the last tick.
        if time.0 < start + 90_000_000 {
            engine.tick(time);
        }
    }
}

/// The same load evaluated by four engines of 16 processes each and one that joins their results.
#[divan::bench(sample_count = 50, sample_size = 1)]
fn four_nodes(bencher: Bencher<'_, '_>) {
    let prepared = stream();
    bencher
        .counter(hits())
        .with_inputs(|| (cluster(), prepared.clone()))
        .bench_local_values(|((mut engine, mut nodes), stream)| {
            for (number, hits) in (0..).zip(stream) {
                for hit in hits {
                    let Observation::Hit { process, .. } = &hit else {
                        continue;
                    };
                    nodes[(process.0 / NODE) as usize].observe(hit);
                }
                (0..PROCESSES)
                    .for_each(|rank| nodes[(rank / NODE) as usize].observe(watermark(rank, number)));
                round(&mut engine, &mut nodes, (number + 1) * ITERATION + 96_000_000);
            }
            for extra in 0..2 {
                round(&mut engine, &mut nodes, (ITERATIONS + 2 + extra) * ITERATION);
            }
            assert_eq!(engine.drain_windows().len() as u64, ITERATIONS);
            engine
        });
}

/// Number of processes per engine.
const NODE: u32 = 16;

fn cluster() -> (Engine, Vec<Node>) {
    let mut engine = engine();
    let nodes = (0..PROCESSES / NODE).map(|id| {
        engine.node_joined(Machine(id));
        let mut node = Node::new(Machine(id), 0, vec![model("optimal-workers")]);
        (id * NODE..(id + 1) * NODE)
            .for_each(|rank| node.process_joined(ProcessId(rank), facts(rank), Time(0)));
        node
    });
    let nodes = nodes.collect();
    (engine, nodes)
}

fn round(engine: &mut Engine, nodes: &mut [Node], now: u64) {
    for node in nodes.iter_mut() {
        engine.take_report(node.report());
    }
    engine.tick(Time(now));
    let schedule = engine.schedule();
    nodes.iter_mut().for_each(|node| node.learn(&schedule));
}
