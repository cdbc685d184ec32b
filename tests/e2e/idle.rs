//! The agent uses no CPU while all ranks sleep.

use std::time::Duration;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::usage::Usage;
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::SOON;

const RANKS: usize = 4;

/// Longer than the test, so that nothing happens meanwhile.
const SLEEP_US: &str = "600000000";

const WATCHED: Duration = Duration::from_secs(6);

/// Maximum wake-ups per second. Planned is a tick every 2 s, with one wake-up and a dozen reads per job, not
/// per rank; two ticks per second in the first two seconds.
const WAITS_PER_S: f64 = 2.0;
const READS_PER_S: f64 = 20.0;

/// Longer than the time until the agent backs off.
const NAP_US: &str = "6000000";

/// Maximum share of a core, unoptimised, on a busy machine; the counters above are stricter.
const CPU: f64 = 0.05;

/// Maximum private memory. Code and mapped files are not included, because the kernel can reclaim them.
const PRIVATE_KIB: u64 = 8 << 10;

fn asleep_for(us: &str) -> Outcome<Job> {
    let program = programs::mpi("sleepers", Mpi::Mpich)?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, RANKS, &program, |folder| {
        vec![folder.to_string_lossy().into_owned(), us.to_owned()]
    })?;
    job.events("ready", RANKS, SOON)?;
    Ok(job)
}

#[test]
fn calls_of_ranks_that_wake_are_counted_to_the_last_one() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let mut job = asleep_for(NAP_US)?;
    let mut agent = Agent::attach(job.pid(), &[])?;
    agent.lines.wait_for_line(" after ", SOON)?;
    // The ranks find the gate when they wake up, call once, and end.
    job.open("end")?;
    let done = job.events("done", RANKS, SOON)?;
    job.finish(SOON)?;
    let report = agent.finish(SOON)?;
    let done: u64 = done.iter().filter_map(|done| done["calls"].as_u64()).sum();
    let processes = each(&report["processes"]);
    let functions = processes.flat_map(|process| each(&process["functions"]));
    let sums = functions.filter(|function| function["name"] == "MPI_Allreduce");
    let counted: u64 = sums.filter_map(|function| function["calls"].as_u64()).sum();
    assert!(done >= RANKS as u64);
    assert_eq!(counted, done, "{}", report["completeness"]);
    Ok(())
}

#[test]
fn an_agent_with_sleeping_ranks_wakes_and_reads_seldom_and_is_small() -> Outcome {
    let _machine = require!(machine: Root, Mpich);
    let job = asleep_for(SLEEP_US)?;
    let mut agent = Agent::attach(job.pid(), &[])?;
    // With the first numbers, the start-up work is done.
    agent.lines.wait_for_line(" after ", SOON)?;
    let before = Usage::of(agent.pid())?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a fixed time is measured; a request to the agent meanwhile would wake it"
    )]
    std::thread::sleep(WATCHED);
    let took = Usage::of(agent.pid())?.since(before);
    let per_s = |count: u64| count as f64 / WATCHED.as_secs_f64();
    let (waits, reads) = (per_s(took.waits), per_s(took.reads));
    let cpu = took.cpu_ns as f64 / WATCHED.as_nanos() as f64;
    println!(
        "a second: {waits} wakings, {reads} reads, {:.3} % of a core; {} KiB",
        100.0 * cpu,
        took.private_kib
    );
    assert!(waits <= WAITS_PER_S, "{waits} wakings a second");
    assert!(reads <= READS_PER_S, "{reads} reads a second");
    assert!(cpu <= CPU, "{cpu} of a core");
    assert!(took.private_kib <= PRIVATE_KIB, "{} KiB", took.private_kib);
    let report = agent.stop()?;
    // No rank has made an MPI call: whether one is open all the time is unknown, and nothing else is missing.
    let missing = report["completeness"]["missing"].as_array();
    let missing = missing.ok_or("no list of what is missing")?;
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(
        missing[0].to_string().contains("time inside MPI of rank 0"),
        "{missing:?}"
    );
    Ok(())
}
