//! The time that is left of LAMMPS and GROMACS, from Debian and without debug information: a rule reads their step.
//! Their own clock says when they end.

use std::fs;
use std::path::Path;
use std::time::Instant;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::{Outcome, gromacs, lammps, require};

use crate::expected::SOON;
use crate::iterations::{number, wait_for_report};

/// The share of the steps that the session watches.
const TENTH: f64 = 0.1;

/// The time said may be off by this share where the pace of the machine changes; on CPUs of their own it is a tenth
/// (docs/scaling.md).
const NEAR: f64 = 0.25;

/// After a tenth of the run, watched from the line `begun` on, the end lies in the interval, or is as near as that.
fn the_end_is_known(mut job: Job, steps: f64, (probe, argument): (&str, u32), begun: &str) -> Outcome {
    let folder = tempfile::tempdir()?;
    let rule = folder.path().join("own-step.yaml");
    let text = format!(
        "rule: own-step\nabout: The step of a run.\nprobes:\n  step: {{entry: \"{probe}\"}}\n\
         capture:\n  step.number: arg({argument}) as i64\nwindows:\n  half: {{every: 500ms}}\n\
         metrics:\n  done: last(step.number)\n"
    );
    fs::write(&rule, text)?;
    job.lines.wait_for_line(begun, 4 * SOON)?;
    let (rule, progress) = (rule.display().to_string(), format!("own-step.done/{steps}"));
    let flags = ["--rules", "none", "--rules", &rule, "--progress", &progress];
    let mut agent = Agent::attach_armed(job.pid(), &flags)?;
    let now = wait_for_report(&agent, |now| {
        let progress = &now["progress"];
        progress["remaining_most_s"].is_number() && number(&progress["step"]) >= TENTH * steps
    })?;
    let since = Instant::now();
    agent.stop()?;
    job.finish(10 * SOON)?;
    let (left_s, progress) = (since.elapsed().as_secs_f64(), &now["progress"]);
    println!("{left_s} s were left: {progress}");
    assert_eq!(progress["steps"], steps, "{progress}");
    let said_s = number(&progress["remaining_s"]);
    let interval = number(&progress["remaining_least_s"])..=number(&progress["remaining_most_s"]);
    assert!(
        interval.contains(&left_s) || (said_s / left_s - 1.0).abs() <= NEAR,
        "{left_s} s were left: {progress}"
    );
    Ok(())
}

#[test]
fn the_time_that_is_left_of_lammps_is_known_after_a_tenth_of_the_run() -> Outcome {
    if !is_long() {
        return Ok(());
    }
    // Where other programs take and leave the CPUs, the pace of the first tenth is not that of the rest.
    let _machine = require!(machine: Root, OpenMpi, Lammps, IdleCore);
    let job = lammps::start_large(&[], Waiting::Yielding, 1, 3_000)?;
    the_end_is_known(job, 3_000.0, ("LAMMPS_NS::Integrate::ev_set", 1), "Step")
}

#[test]
fn the_time_that_is_left_of_gromacs_is_known_after_a_tenth_of_the_run() -> Outcome {
    if !is_long() {
        return Ok(());
    }
    // Where other programs take and leave the CPUs, the pace of the first tenth is not that of the rest.
    let _machine = require!(machine: Root, OpenMpi, Gromacs, IdleCore);
    let mut made = Ok(());
    let job = Job::mpi(
        Mpi::OpenMpi,
        Waiting::Yielding,
        1,
        Path::new("gmx_mpi"),
        |folder| {
            made = gromacs::prepare(folder);
            gromacs::arguments(&["-nsteps", "20000"])
        },
    )?;
    made?;
    the_end_is_known(job, 20_000.0, ("do_md_trajectory_writing", 4), "starting mdrun")
}
