//! A program whose ranks exchange boundary cells, one of them slower than the others, and the rule that sets
//! the boundary width in all ranks at the same iteration.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, median, with_folder};
use crate::iterations::number;

const RANKS: usize = 4;

/// Starts the ring of cells, which waits at its gate.
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

/// Median seconds per step of the iterations with this block size. The median ignores stops of the machine.
fn of_a_step(iterations: &[Value], block: u64) -> f64 {
    let of = iterations.iter().filter(|of| of["block"] == block);
    median(of.map(|of| number(&of["seconds"]) / block as f64).collect())
}

/// An exchange takes 4 ms, a step of the slow rank 4 ms: T(b) = 4/b + (63 + b)/16 ms, which is 8 ms for b = 1
/// and minimal, 4.94 ms, at b = sqrt(4 · 16) = 8. The mean over the ranks, 2.5 ms per step, would lead to b =
/// 10.
#[test]
fn a_ring_with_a_slow_rank_has_its_boundaries_widened_in_all_ranks_at_once_and_computes_the_same() -> Outcome
{
    let _machine = require!(calm: Root, Mpich);
    let mut alone = start(&[])?;
    alone.open("go")?;
    alone.finish(SOON)?;

    let mut job = start(&["step_us=2000", "exchange_us=4000", "slow_rank=1", "slow=2"])?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", "halo-width", "--apply"])?;
    job.open("go")?;
    // If only some ranks had changed, the program would hang.
    job.finish(SOON)?;
    let report = agent.finish_with(SOON, &[0, 1])?;
    let reported = agent.lines.text();

    let iterations = job.events("iteration", 1, SOON)?;
    assert_eq!(iterations[0]["block"], 1, "{reported}");
    // The last iteration may be cut short by the end.
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
