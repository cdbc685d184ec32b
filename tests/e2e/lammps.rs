//! The headline: LAMMPS, as Debian ships it, on more ranks than cores, becomes several times faster while it runs.
//!
//! Nothing here believes the agent: pace and results are those that LAMMPS itself prints.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Waiting;
use tuneagent_e2e::lammps::{self, Thermo};
use tuneagent_e2e::needs::machine;
use tuneagent_e2e::{Outcome, require};

use crate::expected::SOON;

const RANKS: usize = 6;
/// The steps whose numbers are compared: a few seconds once it is fast.
const STEPS: u64 = 5000;
/// How quickly a machine computes must not decide whether the guard has time to judge: no run ends by itself.
const ENDLESS: u64 = 10_000_000;

fn values(thermo: &[Thermo]) -> Vec<(u64, &[String])> {
    thermo
        .iter()
        .map(|line| (line.step, line.values.as_slice()))
        .collect()
}

fn untouched() -> Outcome<Vec<Thermo>> {
    let mut job = lammps::start(Waiting::Yielding, RANKS, STEPS)?;
    job.finish(3 * SOON)?;
    Ok(lammps::thermo(&job.lines.all()))
}

/// The guard of the only change of the rule that kept something.
fn guard(report: &Value) -> Outcome<&Value> {
    let changes = report["changes"].as_array().ok_or("no changes in the report")?;
    let kept =
        |change: &&Value| change["guard"]["verdict"] == "kept" && change["rule"] == "openmpi-busy-wait";
    let change = changes
        .iter()
        .find(kept)
        .ok_or_else(|| format!("no change was kept: {}", report["changes"]))?;
    Ok(&change["guard"])
}

#[test]
fn an_unmodified_lammps_runs_five_times_faster_with_the_same_numbers() -> Outcome {
    require!(Root, OpenMpi, Lammps);
    let _machine = machine();
    let job = lammps::start(Waiting::Spinning, RANKS, ENDLESS)?;
    // Four lines are three intervals: enough for the pace before, which is slow.
    let slow = job.lines.wait_for("LAMMPS's first steps", 2 * SOON, |lines| {
        let thermo = lammps::thermo(lines);
        (thermo.len() >= 4).then_some(thermo)
    })?;
    let mut agent = Agent::attach(job.pid(), &["--apply", "--keep"])?;
    agent.lines.wait_for_line("openmpi-busy-wait", SOON)?;
    agent.lines.wait_for_line("  guard    ", SOON)?;
    let mut all = job.lines.wait_for("LAMMPS's last step", 4 * SOON, |lines| {
        let thermo = lammps::thermo(lines);
        thermo
            .last()
            .is_some_and(|line| line.step >= STEPS)
            .then_some(thermo)
    })?;
    let report = agent.stop()?;

    all.retain(|line| line.step <= STEPS);
    let (before, after) = (lammps::pace(&slow)?, lammps::pace(&all[all.len() / 2..])?);
    let gain = after / before;
    assert!(
        gain >= 5.0,
        "{before:.1} steps/s before, {after:.1} after\n{}",
        agent.lines.text()
    );

    let ratio = guard(&report)?["ratio"]
        .as_f64()
        .ok_or("the guard has no ratio")?;
    assert!(
        ratio / gain < 4.0 && gain / ratio < 4.0,
        "the guard says {ratio:.1} times, LAMMPS {gain:.1}"
    );
    assert_eq!(
        values(&all),
        values(&untouched()?),
        "LAMMPS's numbers with and without us"
    );
    Ok(())
}

#[test]
fn what_was_changed_is_put_back_at_the_end_unless_it_is_to_be_kept() -> Outcome {
    require!(Root, OpenMpi, Lammps);
    let _machine = machine();
    let job = lammps::start(Waiting::Spinning, RANKS, ENDLESS)?;
    let steps = |wanted: usize| {
        job.lines.wait_for("steps of LAMMPS", 2 * SOON, |lines| {
            let thermo = lammps::thermo(lines);
            (thermo.len() >= wanted).then_some(thermo)
        })
    };
    steps(3)?;
    let mut agent = Agent::attach(job.pid(), &["--apply", "--duration", "15s"])?;
    agent.lines.wait_for_line("openmpi-busy-wait", SOON)?;
    agent.finish(2 * SOON)?;
    let fast = lammps::thermo(&job.lines.all());
    let during = lammps::pace(&fast[fast.len() * 3 / 4..])?;
    // The first line after the end may still cover some fast steps.
    let all = steps(fast.len() + 4)?;
    let after = lammps::pace(&all[fast.len() + 1..])?;
    assert!(
        during / after >= 5.0,
        "{during:.1} steps/s while applied, {after:.1} after it was reverted"
    );
    Ok(())
}
