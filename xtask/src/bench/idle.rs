//! `cargo xtask bench idle`: measures what the agent uses while nothing happens, for one program with many
//! probes and for many ranks. bpftrace and perf are measured on the same program.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::usage::Usage;
use tuneagent_e2e::{Outcome, programs};

use super::attach;
use super::tools::Tool;
use crate::Result;
use crate::measure::stats::Spread;
use crate::measure::table::{Cell, Table, cells};
use crate::measure::{self, Claim, Section, Settings};

const SOON: Duration = Duration::from_secs(300);

const RANKS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 256];
const PROBES: [usize; 5] = [1, 10, 100, 1000, 3000];
/// Target P3 applies to at most this number of ranks.
const RANKS_JUDGED: usize = 64;

/// Sleep of the ranks, longer than any measurement, so that nothing happens meanwhile.
const SLEEP_US: &str = "3600000000";

/// A function of the program that is never called.
const FUNCTION: &str = "g0_0";

/// Target P3, in percent of a core.
const PERCENT: f64 = 0.1;
/// Target P3 for the agent's memory in MB, and the bound for an unoptimised agent.
const MEMORY: f64 = 30.0;
const MEMORY_BOUND: f64 = 60.0;
/// Bound above which the agent must be polling. An unoptimised agent needs ten times the CPU time of a
/// release.
const PERCENT_BOUND: f64 = 2.0;

/// Number and length of the measured intervals.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    count: usize,
    seconds: f64,
}

impl Windows {
    pub(super) fn of(settings: &Settings) -> Windows {
        Windows {
            count: settings.number("--windows", 2.0, 5.0) as usize,
            seconds: settings.number("--seconds", 2.0, 8.0),
        }
    }
}

/// Resources that an idle process used; the vectors have a value per window.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Rest {
    pub(super) cpu: Vec<f64>,
    waits_per_s: Vec<f64>,
    reads_per_s: Vec<f64>,
    resident_kib: u64,
}

impl Rest {
    /// Measures a process from now on.
    pub(super) fn of(pid: u32, windows: Windows) -> Outcome<Rest> {
        let mut rest = Rest::default();
        for _ in 0..windows.count {
            let before = Usage::of(pid)?;
            // A fixed time: a request to the agent meanwhile would wake it and count as its work.
            std::thread::sleep(Duration::from_secs_f64(windows.seconds));
            let took = Usage::of(pid)?.since(before);
            rest.cpu.push(took.cpu_ns as f64 / 1e9 / windows.seconds);
            rest.waits_per_s.push(took.waits as f64 / windows.seconds);
            rest.reads_per_s.push(took.reads as f64 / windows.seconds);
            rest.resident_kib = took.resident_kib;
        }
        Ok(rest)
    }

    /// Measures an agent after it has finished its start-up work.
    pub(super) fn of_agent(agent: &Agent, windows: Windows) -> Outcome<Rest> {
        agent.lines.wait_for_line(" after ", SOON)?;
        Rest::of(agent.pid(), windows)
    }

    /// In percent of a core.
    pub(super) fn percent(&self) -> Spread {
        let percent: Vec<f64> = self.cpu.iter().map(|cpu| 100.0 * cpu).collect();
        Spread::or_nan(&percent)
    }

    /// CPU time in percent of a core, wake-ups and reads per second, memory in MiB.
    pub(super) fn cells(&self) -> [Cell; 4] {
        cells![
            self.percent(),
            Spread::of(&self.waits_per_s),
            Spread::of(&self.reads_per_s),
            self.resident_kib as f64 / 1024.0,
        ]
    }
}

/// One measurement: tool, kind and number of watched things, and the result.
#[derive(Serialize)]
struct Row {
    who: &'static str,
    what: &'static str,
    count: usize,
    rest: Rest,
}

const AGENT: &str = "agent";
const OF_ALONE: &str = "program alone, one probe";
const OF_PROBES: &str = "probes of a program alone";
const OF_RANKS: &str = "ranks";

pub(super) fn run(settings: &Settings) -> Result<measure::Outcome> {
    let rows = measured(settings)?;
    let mut table = Table::new(["who", "watches", "% of a core", "wakings/s", "reads/s", "MiB"]);
    for row in &rows {
        let what = format!("{} {}", row.count, row.what);
        table.row(cells![row.who, what].into_iter().chain(row.rest.cells()));
    }
    Ok(measure::Outcome {
        sections: vec![Section::of("While nothing happens", table)],
        claims: claims(&rows),
        figures: Some(json!(rows)),
    })
}

/// Claims of target P3, and that CPU time grows at most linearly with probes and ranks.
fn claims(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for what in [OF_PROBES, OF_RANKS] {
        let points = rows.iter().filter(|row| row.what == what);
        let points = points.map(|row| (row.count as f64, row.rest.percent().median));
        claims.extend(growth(&format!("CPU time over that of {what}"), points));
    }
    let is_judged = |row: &&Row| row.who == AGENT && row.what != OF_PROBES && row.count <= RANKS_JUDGED;
    for row in rows.iter().filter(is_judged) {
        let what = format!("P3, {} {}", row.count, row.what);
        let cpu = row.rest.percent().median;
        claims.push(Claim::at_most(
            &format!("{what}, % of a core"),
            cpu,
            PERCENT,
            PERCENT_BOUND,
        ));
        let memory = row.rest.resident_kib as f64 * 1024e-6;
        claims.push(Claim::at_most(
            &format!("{what}, MB"),
            memory,
            MEMORY,
            MEMORY_BOUND,
        ));
    }
    claims
}

/// Claims that the last value lies on or below the line through zero and the first value.
pub(super) fn growth(what: &str, points: impl Iterator<Item = (f64, f64)>) -> Option<Claim> {
    let points: Vec<(f64, f64)> = points.collect();
    let ((few, little), (many, much)) = (points.first()?, points.last()?);
    let growth = (much / little) / (many / few);
    Some(Claim::at_most(&format!("growth of {what}"), growth, 1.0, 2.0))
}

fn measured(settings: &Settings) -> Outcome<Vec<Row>> {
    let windows = Windows::of(settings);
    let mut rows = alone(windows)?;
    let some = |all: usize| settings.either(3, all);
    for count in &PROBES[..some(PROBES.len())] {
        rows.push(Row {
            who: AGENT,
            what: OF_PROBES,
            count: *count,
            rest: of_probes(*count, windows)?,
        });
    }
    for count in &RANKS[..some(RANKS.len())] {
        rows.push(Row {
            who: AGENT,
            what: OF_RANKS,
            count: *count,
            rest: of_ranks(*count, windows)?,
        });
    }
    Ok(rows)
}

/// Measures the agent and the other tools on a program alone.
fn alone(windows: Windows) -> Outcome<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let program = attach::many_functions(folder.path(), 1)?;
    let job = Job::alone(&program, |_| Vec::new())?;
    job.events("ready", 1, SOON)?;
    let row = |who, rest| Row {
        who,
        what: OF_ALONE,
        count: 1,
        rest,
    };
    let mut agent = Agent::attach(job.pid(), &["--probe", FUNCTION])?;
    let mut rows = vec![row(AGENT, Rest::of_agent(&agent, windows)?)];
    agent.stop()?;
    for tool in Tool::ALL.into_iter().filter(|tool| tool.is_here()) {
        let watching = Watching::start(tool, job.pid(), &program)?;
        rows.push(row(tool.name(), Rest::of(watching.0.id(), windows)?));
    }
    Ok(rows)
}

/// Measures the agent on one program with `count` probes.
fn of_probes(count: usize, windows: Windows) -> Outcome<Rest> {
    let folder = tempfile::tempdir()?;
    let program = attach::many_functions(folder.path(), count)?;
    let rule = attach::rule_on_all(folder.path(), count)?;
    let job = Job::alone(&program, |_| Vec::new())?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach(job.pid(), &["--rules", "none", &rule.to_string_lossy()])?;
    let rest = Rest::of_agent(&agent, windows)?;
    agent.stop()?;
    Ok(rest)
}

/// Starts ranks that repeatedly sleep `sleep_us` microseconds and make a call.
pub(super) fn sleepers(ranks: usize, sleep_us: &str) -> Outcome<Job> {
    let program = programs::mpi("sleepers", Mpi::Mpich)?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, ranks, &program, |folder| {
        vec![folder.to_string_lossy().into_owned(), sleep_us.to_owned()]
    })?;
    job.events("ready", ranks, SOON)?;
    Ok(job)
}

/// Measures the agent on sleeping ranks.
fn of_ranks(ranks: usize, windows: Windows) -> Outcome<Rest> {
    let job = sleepers(ranks, SLEEP_US)?;
    let mut agent = Agent::attach(job.pid(), &[])?;
    let rest = Rest::of_agent(&agent, windows)?;
    agent.stop()?;
    Ok(rest)
}

/// Another tool that watches a process and prints every second.
struct Watching(Child);

impl Watching {
    fn start(tool: Tool, pid: u32, program: &Path) -> Outcome<Watching> {
        let mut command = Command::new(tool.name());
        match tool {
            Tool::Bpftrace => {
                let probe = format!("uprobe:{}:{FUNCTION}", program.display());
                let script = format!("{probe} {{ @ = count(); }} interval:s:1 {{ print(@); }}");
                command.args(["-p", &pid.to_string(), "-e", &script]);
            }
            Tool::Perf => {
                let event = "context-switches";
                command.args(["stat", "-p", &pid.to_string(), "-I", "1000", "-e", event]);
            }
        }
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let watching = Watching(quiet.spawn()?);
        // The start-up work of a tool is not measured. No tool reports when it is over.
        std::thread::sleep(Duration::from_secs(5));
        Ok(watching)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
