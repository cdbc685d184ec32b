//! `cargo xtask bench scale`: measures how the agent's resource use grows with the rate of hits: for the
//! profile, for a rule that sums over the calls of each iteration, and for a rule that needs each call.
//!
//! The data from the kernel is shown in bytes through the ring per iteration of the program. If the kernel
//! aggregates, this number does not depend on the number of hits in an iteration.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, programs};

use super::idle::{Rest, Windows, growth};
use crate::Result;
use crate::measure::table::{Table, cells};
use crate::measure::{self, Claim, Section, Settings};
use crate::process::capture;

const SOON: Duration = Duration::from_secs(120);

/// Requested calls per second; each has a hit at the entry and one at the return. One core cannot reach the
/// last rate.
const CALLS: [u64; 6] = [100, 1_000, 10_000, 50_000, 200_000, 500_000];

/// Iterations per second of the program at full speed.
const ITERATIONS_PER_S: f64 = 100.0;
/// Function that the program calls in its iterations.
const CALLED: &str = "MPI_Allreduce";

/// Writes a rule that sums over those calls of each iteration that meet a condition.
fn rule(folder: &Path, name: &str, condition: &str) -> Outcome<PathBuf> {
    let text = format!(
        "rule: {name}\nabout: adds up the calls of each iteration\nroles: {{one: exe != \"\"}}\nprobes:\n  begin: {{role: one, entry: \
         begin_iteration}}\n  end: {{role: one, entry: end_iteration}}\n  call: {{role: one, span: {CALLED}}}\nwindows: {{iteration: {{from: \
         begin, to: end}}}}\nmetrics:\n  calls: count(call{condition})\n  time: sum(call.duration{condition})\n"
    );
    let file = folder.join(format!("{name}.yaml"));
    std::fs::write(&file, text)?;
    Ok(file)
}

/// Condition that every call meets. It prevents aggregation in the kernel.
const CONDITION: &str = " where call.duration >= 0s";

/// Result at one rate, for the profile alone or with a rule.
struct Rated {
    how: &'static str,
    requested: u64,
    calls_per_s: f64,
    rest: Rest,
    bytes_per_iteration: f64,
    lost: u64,
}

const PROFILE: &str = "profile";
const WITH_RULE: &str = "rule";
const EACH_SENT: &str = "each hit sent";

const WAYS: [&str; 3] = [PROFILE, WITH_RULE, EACH_SENT];

pub(super) fn run(settings: &Settings) -> Result<measure::Outcome> {
    let rates = &CALLS[..settings.either(3, CALLS.len())];
    let rated = of_rates(rates, Windows::of(settings))?;
    let mut table = Table::new([
        "calls/s asked",
        "with",
        "hits/s",
        "agent, % of a core",
        "bytes an iteration",
        "lost",
    ]);
    for row in &rated {
        table.row(cells![
            row.requested,
            row.how,
            2.0 * row.calls_per_s,
            row.rest.percent(),
            row.bytes_per_iteration,
            row.lost,
        ]);
    }
    Ok(measure::Outcome {
        sections: vec![Section::of("What the agent takes", table)],
        claims: claims(&rated),
        figures: Some(rated.iter().map(figures).collect()),
    })
}

fn figures(row: &Rated) -> Value {
    json!({
        "with": row.how,
        "calls_per_s_asked": row.requested,
        "hits_per_s": 2.0 * row.calls_per_s,
        "agent_cpu": row.rest.cpu,
        "bytes_per_iteration": row.bytes_per_iteration,
        "lost": row.lost,
    })
}

fn of_rates(rates: &[u64], windows: Windows) -> Outcome<Vec<Rated>> {
    let folder = tempfile::tempdir()?;
    let paced = rule(folder.path(), "paced", "")?;
    let each = rule(folder.path(), "each", CONDITION)?;
    let ways = [
        (PROFILE, None),
        (WITH_RULE, Some(&*paced)),
        (EACH_SENT, Some(&*each)),
    ];
    let program = programs::mpi("pace", Mpi::Mpich)?;
    let mut rated = Vec::new();
    for calls in rates {
        for (how, rule) in ways {
            rated.push(at_rate(&program, *calls, (how, rule), windows)?);
            println!("{calls} calls a second, {how}: measured");
        }
    }
    Ok(rated)
}

fn at_rate(
    program: &Path,
    calls: u64,
    (how, rule): (&'static str, Option<&Path>),
    windows: Windows,
) -> Outcome<Rated> {
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 1, program, |folder| {
        vec![calls.to_string(), folder.to_string_lossy().into_owned()]
    })?;
    job.events("ready", 1, SOON)?;
    let rule = rule.map(|rule| rule.to_string_lossy().into_owned());
    let flags: Vec<&str> = ["--rules", "none"].into_iter().chain(rule.as_deref()).collect();
    let mut agent = Agent::attach(job.pid(), &flags)?;
    agent.lines.wait_for_line(" after ", SOON)?;
    let (first, filling) = (position(&agent)?, Instant::now());
    let rest = Rest::of(agent.pid(), windows)?;
    // Positions are modulo 2^32, which is more bytes than are sent in a minute.
    let bytes = position(&agent)?.wrapping_sub(first);
    let bytes_per_s = f64::from(bytes) / filling.elapsed().as_secs_f64();
    let report = agent.stop()?;
    let calls_per_s = calls_of(&report)? as f64 / report["elapsed_s"].as_f64().unwrap_or(f64::NAN);
    Ok(Rated {
        how,
        requested: calls,
        calls_per_s,
        rest,
        bytes_per_iteration: bytes_per_s / (calls_per_s / (calls as f64 / ITERATIONS_PER_S)),
        lost: report["completeness"]["lost"]["ring_full"].as_u64().unwrap_or(0),
    })
}

/// Calls of `CALLED` that the agent counted.
fn calls_of(report: &Value) -> Outcome<u64> {
    let functions = report["processes"][0]["functions"].as_array();
    let mut functions = functions.into_iter().flatten();
    let called = functions.find(|function| function["name"] == CALLED);
    let calls = called.and_then(|function| function["calls"].as_u64());
    Ok(calls.ok_or("the report does not tell the calls")?)
}

/// Number of bytes written to the agent's ring so far.
fn position(agent: &Agent) -> Outcome<u32> {
    let mut command = super::instrument("events");
    let reported: Value =
        serde_json::from_str(&capture(command.args(["position", &agent.pid().to_string()]))?)?;
    let position = reported["position"]
        .as_u64()
        .and_then(|at| u32::try_from(at).ok());
    Ok(position.ok_or("the position of the ring is not told")?)
}

/// Claims that CPU time grows at most linearly with hits, and that the bytes per iteration do not grow with
/// its hits.
fn claims(rated: &[Rated]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let of = |how: &'static str| rated.iter().filter(move |row| row.how == how);
    for how in WAYS {
        let points = of(how).map(|row| (row.calls_per_s, row.rest.percent().median));
        claims.extend(growth(&format!("CPU time over that of hits, {how}"), points));
    }
    let bytes = |row: &Rated| row.bytes_per_iteration;
    let sent = of(PROFILE).map(bytes).fold(0.0, f64::max);
    claims.push(Claim::at_most(
        "profile: bytes an iteration, at most",
        sent,
        0.0,
        1000.0,
    ));
    if let (Some(few), Some(many)) = (of(WITH_RULE).next(), of(WITH_RULE).next_back()) {
        let growth = bytes(many) / bytes(few);
        let what = "rule: bytes an iteration at the most hits, times those at the fewest";
        claims.push(Claim::at_most(what, growth, 1.1, f64::INFINITY));
    }
    claims
}
