//! `cargo xtask bench idle`: what the agent takes of the machine while nothing happens, of a program alone and of many ranks; beside what
//! bpftrace and perf take, attached to the same program.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::usage::Usage;
use tuneagent_e2e::{Outcome, programs};

use super::Measured;
use super::attach;
use super::options::Options;
use super::tools::Tool;
use super::verdict::Verdict;
use crate::Result;
use crate::experiment::stats::Spread;
use crate::experiment::table::{Cell, Table, cells};

const SOON: Duration = Duration::from_secs(300);

const RANKS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Longer than any measurement: nobody does anything meanwhile.
const SLEEP_US: &str = "3600000000";

/// The program alone, which has this function and never calls it.
const FUNCTION: &str = "g0_0";

const TARGET: f64 = 0.001;
/// What P3 allows an agent of memory, in MB, and an unoptimised one.
const MEMORY: f64 = 30.0;
const MEMORY_BOUND: f64 = 60.0;
/// Something polls. An unoptimised agent takes ten times as much as one that is shipped.
const BOUND: f64 = 0.02;

/// How long, and how often.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    pub(super) count: usize,
    pub(super) seconds: f64,
}

impl Windows {
    pub(super) const OPTIONS: [&str; 2] = ["--windows", "--seconds"];

    pub(super) fn of(options: &Options) -> Windows {
        Windows {
            count: options.number("--windows", (2.0, 5.0)) as usize,
            seconds: options.number("--seconds", (2.0, 8.0)),
        }
    }
}

/// What a process took while nothing happened, a value for each window.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest {
    pub(super) cpu: Vec<f64>,
    pub(super) waits_per_s: Vec<f64>,
    pub(super) reads_per_s: Vec<f64>,
    pub(super) resident_kib: u64,
}

impl Rest {
    /// Of a process, from now on.
    pub(super) fn of(pid: u32, windows: Windows) -> Outcome<Rest> {
        let mut rest = Rest::default();
        for _ in 0..windows.count {
            let before = Usage::of(pid)?;
            // No reading of it may begin or end the time.
            std::thread::sleep(Duration::from_secs_f64(windows.seconds));
            let took = Usage::of(pid)?.since(before);
            rest.cpu.push(took.cpu_ns as f64 / 1e9 / windows.seconds);
            rest.waits_per_s.push(took.waits as f64 / windows.seconds);
            rest.reads_per_s.push(took.reads as f64 / windows.seconds);
            rest.resident_kib = took.resident_kib;
        }
        Ok(rest)
    }

    /// Of an agent that has looked up all that it looks up once.
    pub(super) fn of_agent(agent: &Agent, windows: Windows) -> Outcome<Rest> {
        agent.lines.wait_for_line(" after ", SOON)?;
        Rest::of(agent.pid(), windows)
    }

    pub(super) fn median_cpu(&self) -> f64 {
        Spread::of(&self.cpu).map_or(f64::NAN, |spread| spread.median)
    }

    /// CPU time in percent of a core, wakings and reads a second, memory in MiB.
    pub(super) fn cells(&self) -> [Cell; 4] {
        let percent: Vec<f64> = self.cpu.iter().map(|cpu| 100.0 * cpu).collect();
        cells![
            Spread::of(&percent),
            Spread::of(&self.waits_per_s),
            Spread::of(&self.reads_per_s),
            self.resident_kib as f64 / 1024.0,
        ]
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "cpu": self.cpu,
            "waits_per_s": self.waits_per_s,
            "reads_per_s": self.reads_per_s,
            "resident_kib": self.resident_kib,
        })
    }
}

/// Ranks that sleep, watched.
pub(super) fn of_ranks(ranks: usize, windows: Windows) -> Outcome<Rest> {
    let program = programs::mpi("sleepers", Mpi::Mpich)?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, ranks, &program, |folder| {
        vec![folder.to_string_lossy().into_owned(), SLEEP_US.to_owned()]
    })?;
    job.events("ready", ranks, SOON)?;
    let mut agent = Agent::attach(job.pid(), &[])?;
    let rest = Rest::of_agent(&agent, windows)?;
    agent.stop()?;
    Ok(rest)
}

pub(super) fn run(options: &Options) -> Result<Measured> {
    let ranks = if options.quick { &RANKS[..3] } else { &RANKS[..] };
    let rows = measured(ranks, Windows::of(options))?;
    let mut table = Table::new(["who watches what", "% of a core", "wakings/s", "reads/s", "MiB"]);
    for (what, rest) in &rows {
        table.row(std::iter::once(Cell::from(&**what)).chain(rest.cells()));
    }
    println!("\n{table}");
    let of_agent = rows.iter().filter(|(what, _)| what.starts_with("agent"));
    let verdicts = of_agent.flat_map(|(what, rest)| {
        let cpu = (100.0 * rest.median_cpu(), 100.0 * TARGET, 100.0 * BOUND);
        let memory = (rest.resident_kib as f64 * 1024e-6, MEMORY, MEMORY_BOUND);
        [("% of a core", cpu), ("MB", memory)]
            .map(|(unit, (is, target, bound))| Verdict::at_most(format!("{what}, {unit}"), is, target, bound))
    });
    Ok(Measured {
        verdicts: verdicts.collect(),
        figures: rows
            .iter()
            .map(|(what, rest)| json!({"what": what, "rest": rest.as_json()}))
            .collect(),
    })
}

fn measured(ranks: &[usize], windows: Windows) -> Outcome<Vec<(String, Rest)>> {
    let folder = tempfile::tempdir()?;
    let program = attach::many_functions(folder.path(), 1)?;
    let job = Job::alone(&program, |_| Vec::new())?;
    job.events("ready", 1, SOON)?;
    let mut rows = Vec::new();
    let mut agent = Agent::attach(job.pid(), &["--probe", FUNCTION])?;
    rows.push((
        "agent: a program alone".to_owned(),
        Rest::of_agent(&agent, windows)?,
    ));
    agent.stop()?;
    for tool in Tool::ALL.into_iter().filter(|tool| tool.is_here()) {
        let watching = Watching::start(tool, job.pid(), &program)?;
        let rest = Rest::of(watching.0.id(), windows)?;
        rows.push((format!("{}: the same", tool.name()), rest));
    }
    for count in ranks {
        rows.push((format!("agent: {count} ranks"), of_ranks(*count, windows)?));
    }
    Ok(rows)
}

/// Another tool that watches a process, and tells every second.
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
        // What a tool does at its start is not to be measured, and none says when it is over.
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
