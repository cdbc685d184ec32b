//! `cargo xtask demo`: makes an unmodified program faster, from a clean clone, with no preparation.
//!
//! The job is Debian's LAMMPS on its `melt` example, six ranks under Open MPI. Waiting ranks spin there
//! unless Open MPI knows that they share CPUs. The host file hides this, as quotas, containers and other jobs
//! on a node do. The figures at the end are LAMMPS's own (its step and CPU columns), not the agent's. The job
//! and the agent always end with the demo. Processes are started and ended by the harness of the tests.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tuneagent_e2e::agent;
use tuneagent_e2e::job::{Job, Waiting};
use tuneagent_e2e::lammps::{self, Thermo};

use crate::Result;
use crate::measure::{self, stats::figure};
use crate::process::{run, shown};
use crate::setup::{self, Purpose};

const RANKS: usize = 6;
/// More steps than the demo needs; it ends the job.
const STEPS: u64 = 10_000_000;
/// Time for which LAMMPS is observed before the agent attaches and after it has left.
const ALONE: Duration = Duration::from_secs(6);
/// Duration of the agent's session.
const SESSION: &str = "20s";
/// Last part of the session, after the change was made and judged.
const SETTLED: Duration = Duration::from_secs(5);

pub(crate) fn main(flags: &[&str]) -> Result<()> {
    crate::only_flags("demo", flags, &["--yes"])?;
    setup::bring(&[Purpose::Build, Purpose::Demo], flags.contains(&"--yes"))?;
    measure::build_agent(&crate::root())?;
    let agent = agent::binary().map_err(|problem| problem.to_string())?;
    let interrupted = catch_interrupts()?;

    let job = lammps::start(Waiting::Spinning, RANKS, STEPS).map_err(|problem| problem.to_string())?;
    println!("\n$ {}", job.command());
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "LAMMPS, unmodified, runs its own example alone for {} s: {RANKS} ranks on {cpus} CPUs",
        ALONE.as_secs()
    );
    let begun = Instant::now();
    let first = wait_for_line_after(&job, begun, &interrupted)?;
    wait_for_line_after(&job, first + ALONE, &interrupted)?;

    let came = Instant::now();
    let session = attach(&agent, job.pid());
    let left = Instant::now();
    stop_if(&interrupted).and(session)?;
    wait_for_line_after(&job, left + ALONE, &interrupted)?;
    conclude(&lammps::thermo(&job.lines.all()), first, came, left)
}

/// The agent is in our process group and gets Ctrl-C, too. It detaches, and then we end the job.
fn catch_interrupts() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, flag.clone()).map_err(|error| error.to_string())?;
    }
    Ok(flag)
}

fn stop_if(interrupted: &AtomicBool) -> Result<()> {
    if interrupted.load(Ordering::Relaxed) {
        Err("interrupted; LAMMPS was ended".to_owned())
    } else {
        Ok(())
    }
}

/// Waits until LAMMPS prints a line about its steps after `moment`, and returns the time of this line.
fn wait_for_line_after(job: &Job, moment: Instant, interrupted: &AtomicBool) -> Result<Instant> {
    let deadline = moment.max(Instant::now()) + Duration::from_secs(120);
    loop {
        // Short waits, to notice a Ctrl-C in between.
        let found = job
            .lines
            .wait_for("a step of LAMMPS", Duration::from_millis(200), |lines| {
                lammps::thermo(lines)
                    .iter()
                    .map(|line| line.at)
                    .find(|at| *at >= moment)
            });
        stop_if(interrupted)?;
        match found {
            Ok(at) => return Ok(at),
            Err(problem) if Instant::now() > deadline || job.lines.has_ended() => {
                return Err(problem.to_string());
            }
            Err(_) => {}
        }
    }
}

/// Runs the agent in the foreground, on our terminal.
fn attach(agent: &Path, pid: u32) -> Result<()> {
    let mut words = vec![agent.to_string_lossy().into_owned()];
    words.extend(["attach", &pid.to_string(), "--apply", "--duration", SESSION].map(str::to_owned));
    if !rustix::process::geteuid().is_root() {
        words.insert(0, "sudo".to_owned());
    }
    let mut command = Command::new("setpriv");
    // If we are killed, the agent gets SIGINT and detaches (under sudo it ends with the job instead).
    command.args(["--pdeathsig", "INT", "--"]).args(&words);
    let mut typed = Command::new(&words[0]);
    println!("\n$ {}", shown(typed.args(&words[1..])));
    run(&mut command).map_err(|_| format!("tuneagent failed; by hand: {}", shown(&typed)))
}

fn conclude(lines: &[Thermo], first: Instant, came: Instant, left: Instant) -> Result<()> {
    let pace = |from, to| lammps::pace_between(lines, from, to).map_err(|problem| problem.to_string());
    let before = pace(first, came)?;
    let during = pace(left - SETTLED, left)?;
    println!(
        "\nLAMMPS's own output: {} steps/s before, {} steps/s after: {} times",
        figure(before),
        figure(during),
        figure(during / before)
    );
    if let Ok(alone) = pace(left + Duration::from_secs(1), Instant::now()) {
        println!(
            "and alone again, everything put back: {} steps/s (--keep would have left it)",
            figure(alone)
        );
    }
    Ok(())
}
