//! Who watches ranks that sleep sleeps too.

use std::time::Duration;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::machine;
use tuneagent_e2e::usage::Usage;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::SOON;

const RANKS: usize = 4;

/// Longer than the test: nobody does anything meanwhile.
const SLEEP_US: &str = "600000000";

const WATCHED: Duration = Duration::from_secs(4);

/// Two ticks a second are planned, for there are rules with windows of 500 ms, of one waking each, and 9 reads, of the job rather than of
/// its ranks.
const WAITS_PER_S: f64 = 4.0;
const READS_PER_S: f64 = 40.0;

/// Of a core, without optimisation, beside whatever else runs: what is counted above says more.
const CPU: f64 = 0.05;

/// Of memory. Without optimisation our code is three times as large.
const RESIDENT_KIB: u64 = 40 << 10;

#[test]
fn an_agent_whose_ranks_sleep_wakes_and_reads_seldom_and_is_small_as_root() -> Outcome {
    require!(Root, Mpich);
    let _machine = machine();
    let program = programs::mpi("sleepers", Mpi::Mpich)?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, RANKS, &program, |folder| {
        vec![folder.to_string_lossy().into_owned(), SLEEP_US.to_owned()]
    })?;
    job.events("ready", RANKS, SOON)?;
    let mut agent = Agent::attach(job.pid(), &[])?;
    // With the first numbers everything that is looked up once has been.
    agent.lines.wait_for_line(" after ", SOON)?;
    let before = Usage::of(agent.pid())?;
    // No reading of it may begin or end the time.
    std::thread::sleep(WATCHED);
    let took = Usage::of(agent.pid())?.since(before);
    let per_s = |count: u64| count as f64 / WATCHED.as_secs_f64();
    let (waits, reads) = (per_s(took.waits), per_s(took.reads));
    let cpu = took.cpu_ns as f64 / WATCHED.as_nanos() as f64;
    println!(
        "a second: {waits} wakings, {reads} reads, {:.3} % of a core; {} KiB",
        100.0 * cpu,
        took.resident_kib
    );
    assert!(waits <= WAITS_PER_S, "{waits} wakings a second");
    assert!(reads <= READS_PER_S, "{reads} reads a second");
    assert!(cpu <= CPU, "{cpu} of a core");
    assert!(took.resident_kib <= RESIDENT_KIB, "{} KiB", took.resident_kib);
    let report = agent.stop()?;
    assert_eq!(
        report["completeness"]["status"], "complete",
        "{}",
        report["completeness"]
    );
    Ok(())
}
