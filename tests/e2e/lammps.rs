//! LAMMPS from Debian, on more ranks than cores, becomes several times faster while it runs.
//!
//! Pace and results are from LAMMPS's own output. The repair multiplies the rate of probed calls, and the
//! probes must keep to their budget.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Waiting;
use tuneagent_e2e::lammps::{self, Thermo};
use tuneagent_e2e::sessions::Recorded;
use tuneagent_e2e::{Outcome, require};

use crate::expected::SOON;
use crate::iterations::{number, wait_for_report};

const RANKS: usize = 6;
/// On two CPUs without other programs it is 5 to 9; beside a build that fills them, 2.9 was seen.
const GAIN_MIN: f64 = 2.0;
/// Steps whose numbers are compared: before, during and after the change.
const STEPS: u64 = 300;
/// More steps than the guard needs on any machine.
const ENDLESS: u64 = 10_000_000;

/// Steps between two lines of output. While the ranks compete for the cores, a step takes up to a second.
const EVERY: u64 = 2;
/// Number of lines in about a third of a second at the fast pace.
const FAST_LINES: usize = 80;

fn values(thermo: &[Thermo]) -> Vec<(u64, &[String])> {
    thermo
        .iter()
        .map(|line| (line.step, line.values.as_slice()))
        .collect()
}

fn untouched() -> Outcome<Vec<Thermo>> {
    let mut job = lammps::start_printing((Waiting::Yielding, RANKS), STEPS, EVERY)?;
    job.finish(10 * SOON)?;
    Ok(lammps::thermo(&job.lines.all()))
}

/// The guard's entry of the rule's change that was kept.
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
fn an_unmodified_lammps_runs_faster_with_the_same_numbers() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi, Lammps);
    let job = lammps::start_printing((Waiting::Spinning, RANKS), ENDLESS, EVERY)?;
    let lines = |what: &str, is_so: &dyn Fn(&[Thermo]) -> bool| {
        job.lines.wait_for(what, 4 * SOON, |lines| {
            let thermo = lammps::thermo(lines);
            is_so(&thermo).then_some(thermo)
        })
    };
    lines("LAMMPS's first steps", &|thermo| thermo.len() >= 4)?;
    let recorded = Recorded::new()?;
    let mut agent = Agent::attach(job.pid(), &["--apply", "--budget", "0.5%", &recorded.flag()])?;
    agent.lines.wait_for_line("openmpi-busy-wait", SOON)?;
    // What the guard compares with is in the lines up to here: the slow pace varies, and a few lines from
    // before the attach may be of another one.
    let slow = lammps::thermo(&job.lines.all());
    agent.lines.wait_for_line("  guard    ", SOON)?;
    let judged = lammps::thermo(&job.lines.all()).len();
    let mut all = lines("LAMMPS's last step", &|thermo| {
        let is_last = thermo.last().is_some_and(|line| line.step >= STEPS);
        is_last && thermo.len() > judged + FAST_LINES
    })?;
    let (before, during) = (lammps::pace(&slow)?, lammps::pace(&all[judged..])?);
    agent.lines.wait_for_line("sampled from now on", SOON)?;
    wait_for_report(&agent, |now| {
        let cost = &now["cost"];
        cost["windows"]["budget_share"].is_number() && number(&cost["recent"]["probes_share"]) <= 0.006
    })?;
    let report = agent.stop()?;
    let listed = recorded.replay("openmpi-busy-wait")?;
    assert_has!(listed, "decided", "judged");
    let gain = during / before;
    assert!(
        gain >= GAIN_MIN,
        "{before:.1} steps/s before, {during:.1} after\n{}",
        agent.lines.text()
    );
    let ratio = guard(&report)?["ratio"]
        .as_f64()
        .ok_or("the guard has no ratio")?;
    assert!(
        ratio / gain < 4.0 && gain / ratio < 4.0,
        "the guard says {ratio:.1} times, LAMMPS {gain:.1}"
    );

    // The first line after the end may include some fast steps. `runtime` tests that a kept change stays in
    // force.
    let fast = lammps::thermo(&job.lines.all()).len();
    let slow_again = lines("steps as before", &|thermo| thermo.len() >= fast + 4)?;
    let after = lammps::pace(&slow_again[fast + 1..])?;
    assert!(
        during / after >= GAIN_MIN,
        "{during:.1} steps/s while applied, {after:.1} after it was put back"
    );
    // With spinning ranks beside it, the next job would take a minute.
    drop(job);
    all.retain(|line| line.step <= STEPS);
    assert_eq!(
        values(&all),
        values(&untouched()?),
        "LAMMPS's numbers with and without us"
    );
    Ok(())
}
