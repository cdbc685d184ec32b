//! A program whose ranks exchange borders, under the rule that chooses how wide they are: a knob that all ranks turn together, and a rank
//! that is slower than the others.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, median, with_folder};
use crate::iterations::number;

const RANKS: usize = 4;

/// The ring of cells, at its gate.
fn start(arguments: &[&str]) -> Outcome<Job> {
    let program = programs::mpi("stencil", Mpi::Mpich)?;
    let given = [&["steps=1200", "cells=64"][..], arguments].concat();
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, RANKS, &program, |folder| {
        with_folder(folder, given.iter().map(|word| (*word).to_owned()).collect())
    })?;
    job.events("ready", RANKS, SOON)?;
    Ok(job)
}

fn checksum(job: &Job) -> Outcome<Value> {
    Ok(job.events("result", 1, SOON)?[0]["checksum"].clone())
}

/// Seconds that a step takes in the middle one of the iterations of so many steps: another may have met a stop of the whole machine.
fn of_a_step(iterations: &[Value], block: u64) -> f64 {
    let of = iterations.iter().filter(|of| of["block"] == block);
    median(of.map(|of| number(&of["seconds"]) / block as f64).collect())
}

/// An exchange takes 4 ms, a step of the slow rank 4 ms: T(b) = 4/b + (63 + b)/16 ms, which is 8 ms between single steps and least, 4.94 ms,
/// at sqrt(4 · 16) = 8. Who takes the mean of the ranks, of which one step is 2.5 ms, would come to 10.
#[test]
fn a_ring_with_a_slow_rank_has_its_boundaries_widened_in_all_ranks_at_once_and_computes_the_same_as_root()
-> Outcome {
    let _machine = require!(machine: Root, Mpich);
    let mut alone = start(&[])?;
    alone.open("go")?;
    alone.finish(SOON)?;

    let mut job = start(&["step_us=2000", "exchange_us=4000", "slow_rank=1", "slow=2"])?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", "halo-width", "--apply"])?;
    job.open("go")?;
    // A change that some ranks take and others do not would leave it waiting for ever.
    job.finish(SOON)?;
    let report = agent.finish_anyhow(SOON)?;
    let reported = agent.lines.text();

    let iterations = job.events("iteration", 1, SOON)?;
    assert_eq!(iterations[0]["block"], 1, "{reported}");
    // The last may be cut short by the end.
    let whole = &iterations[..iterations.len() - 1];
    let block = whole[whole.len() - 1]["block"].as_u64().ok_or("no block")?;
    assert!(
        (3..=24).contains(&block),
        "{block} steps between exchanges\n{reported}"
    );
    let (before, after) = (of_a_step(whole, 1), of_a_step(whole, block));
    assert!(after < 0.85 * before, "{before} s then {after} s\n{reported}");
    let changes = report["changes"].as_array().ok_or("no changes")?;
    assert!(
        changes.len() >= RANKS && changes.len().is_multiple_of(RANKS),
        "in some ranks only: {report}"
    );
    let mechanism = changes[0]["mechanism"].as_str().unwrap_or_default();
    assert!(
        mechanism.contains("at entry:begin_iteration, its thread stopped for"),
        "{mechanism}\n{reported}"
    );
    assert_eq!(changes[0]["guard"]["verdict"], "kept", "{report}\n{reported}");
    assert_eq!(checksum(&job)?, checksum(&alone)?, "{reported}");
    Ok(())
}
