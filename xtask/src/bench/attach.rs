//! `cargo xtask bench attach`: how long attaching and leaving take with few and many probes, how soon there is something to see of few and many
//! ranks, in lines and on a terminal, and what the agent takes of the machine meanwhile.
//!
//! The ranks sleep their compute time and wait for nobody, so that 64 of them fit on two cores: what is measured is the agent. How soon
//! there is something to see is measured beside ranks that keep every CPU busy too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::sight::{Ranks, Sight};
use tuneagent_e2e::usage::Usage;
use tuneagent_e2e::{Outcome, programs};

use super::Measured;
use super::options::Options;
use crate::Result;
use crate::experiment::{
    stats::{Spread, figure},
    table::Table,
};
use crate::process;

const SOON: Duration = Duration::from_secs(120);

/// Functions of one pattern of the rule that probes them.
const EACH: usize = 250;
const PROBES: [usize; 6] = [10, 30, 100, 300, 1000, 3000];
const RANKS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Of which it is measured how soon they are seen.
const SEEN: [usize; 3] = [1, 4, 16];

/// Ranks make a call this often, in microseconds.
const SLEEP_US: &str = "10000";
/// The agent's CPU time is taken over this.
const WATCHED: Duration = Duration::from_secs(5);

/// What is measured of one number of probes, in seconds.
#[derive(Default)]
struct Times {
    /// From its start until all probes are attached.
    attach: Vec<f64>,
    /// From Ctrl-C to its end.
    leave: Vec<f64>,
}

/// What is measured of one number of ranks.
struct Cost {
    armed_s: f64,
    /// From its start to the first lines, which have calls of every rank.
    shown_s: f64,
    cpu: f64,
    rss_kib: u64,
}

pub(super) fn run(options: &Options) -> Result<Measured> {
    let mut figures = Vec::new();
    let repeats = if options.quick { 1 } else { 5 };
    println!("\n{}", of_sight(repeats, &mut figures)?);
    println!("\n{}", of_probes(repeats, &mut figures)?);
    let ranks = if options.quick { &RANKS[..3] } else { &RANKS[..] };
    println!("\n{}", of_ranks(ranks, &mut figures)?);
    Ok(Measured::of(figures))
}

fn of_probes(repeats: usize, figures: &mut Vec<Value>) -> Outcome<Table> {
    let folder = tempfile::tempdir()?;
    let mut table = Table::new(["probes", "start to armed, ms", "Ctrl-C to end, ms"]);
    for count in PROBES {
        let program = many_functions(folder.path(), count)?;
        let rule = rule_on_all(folder.path(), count)?;
        let mut times = Times::default();
        for _ in 0..repeats {
            let job = Job::alone(&program, |_| Vec::new())?;
            job.events("ready", 1, SOON)?;
            let began = Instant::now();
            let mut agent = Agent::attach(job.pid(), &["--rules", "none", &rule.to_string_lossy()])?;
            agent.armed()?;
            let armed = agent.lines.wait_for_line("armed", SOON)?;
            times.attach.push(armed.at.duration_since(began).as_secs_f64());
            let began = Instant::now();
            let report = agent.stop()?;
            times.leave.push(began.elapsed().as_secs_f64());
            if report["completeness"]["status"] != "complete" {
                return Err(format!("{count} probes: {}", report["completeness"]).into());
            }
        }
        table.row([count.to_string(), ms(&times.attach), ms(&times.leave)]);
        figures.push(json!({"probes": count, "attach_s": times.attach, "leave_s": times.leave}));
    }
    Ok(table)
}

fn ms(values: &[f64]) -> String {
    let values: Vec<f64> = values.iter().map(|seconds| seconds * 1e3).collect();
    Spread::of(&values).map_or_else(String::new, |spread| spread.to_string())
}

fn of_sight(repeats: usize, figures: &mut Vec<Value>) -> Outcome<Table> {
    let mut table = Table::new([
        "ranks",
        "start to armed, ms",
        "to first numbers in lines, ms",
        "on a terminal, ms",
    ]);
    for (ranks, count) in Ranks::ALL
        .iter()
        .flat_map(|ranks| SEEN.map(|count| (ranks, count)))
    {
        let mut job = ranks.start(count)?;
        let (mut armed, mut line, mut screen) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repeats {
            let sight = Sight::of(&job)?;
            armed.push(sight.armed.as_secs_f64());
            line.push(sight.line.as_secs_f64());
            screen.push(sight.screen.as_secs_f64());
        }
        job.open("end")?;
        job.finish(SOON)?;
        let who = format!("{count} {}", ranks.name());
        figures.push(json!({"seen": who, "armed_s": armed, "line_s": line, "screen_s": screen}));
        table.row([who, ms(&armed), ms(&line), ms(&screen)]);
    }
    Ok(table)
}

/// A program of so many functions, in groups that a pattern each means.
pub(super) fn many_functions(folder: &Path, count: usize) -> Outcome<PathBuf> {
    let function = |number: usize| {
        let (group, member) = (number / EACH, number % EACH);
        format!("__attribute__((noinline, used)) void g{group}_{member}(void) {{ calls++; }}\n")
    };
    let functions: String = (0..count).map(function).collect();
    let source = format!(
        "#include <stdio.h>\n#include <unistd.h>\nvolatile int calls;\n{functions}\
         int main(void) {{ puts(\"{{\\\"event\\\":\\\"ready\\\"}}\"); fflush(stdout); for (;;) pause(); }}\n"
    );
    let (file, program) = (
        folder.join(format!("many{count}.c")),
        folder.join(format!("many{count}")),
    );
    std::fs::write(&file, source)?;
    process::run(Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(&file))?;
    Ok(program)
}

/// A rule that counts the calls of all of them.
pub(super) fn rule_on_all(folder: &Path, count: usize) -> Outcome<PathBuf> {
    let probe = |group: usize| format!("  p{group}: {{role: one, entry: g{group}_*}}\n");
    let probes: String = (0..count.div_ceil(EACH)).map(probe).collect();
    let text = format!(
        "rule: many\nabout: counts the calls of many functions\nroles: {{one: exe != \"\"}}\nprobes:\n{probes}\
         windows: {{second: {{every: 1s}}}}\nmetrics: {{calls: count(p0)}}\n"
    );
    let file = folder.join(format!("many{count}.yaml"));
    std::fs::write(&file, text)?;
    Ok(file)
}

fn of_ranks(ranks: &[usize], figures: &mut Vec<Value>) -> Outcome<Table> {
    let program = programs::mpi("sleepers", Mpi::Mpich)?;
    let mut table = Table::new([
        "ranks",
        "start to armed, ms",
        "start to first numbers of all, ms",
        "agent, % of a core",
        "agent, MiB",
    ]);
    for count in ranks {
        let cost = of_some(&program, *count)?;
        table.row([
            count.to_string(),
            figure(cost.armed_s * 1e3),
            figure(cost.shown_s * 1e3),
            figure(cost.cpu * 100.0),
            figure(cost.rss_kib as f64 / 1024.0),
        ]);
        figures.push(json!({
            "ranks": count,
            "armed_s": cost.armed_s,
            "shown_s": cost.shown_s,
            "agent_cpu": cost.cpu,
            "agent_rss_kib": cost.rss_kib,
        }));
    }
    Ok(table)
}

fn of_some(program: &Path, ranks: usize) -> Outcome<Cost> {
    let mut job = Job::mpi(Mpi::Mpich, Waiting::Yielding, ranks, program, |folder| {
        vec![folder.to_string_lossy().into_owned(), SLEEP_US.to_owned()]
    })?;
    job.events("ready", ranks, SOON)?;
    let began = Instant::now();
    let mut agent = Agent::attach(job.pid(), &[])?;
    let armed = agent.lines.wait_for_line("armed", SOON)?;
    let shown = agent.lines.wait_for_line(" after ", SOON)?;
    let report = agent.snapshot()?;
    let processes = report["processes"].as_array().into_iter().flatten();
    let calling = processes.filter(|process| process["functions"][0]["calls"].as_u64() > Some(0));
    if calling.count() != ranks {
        return Err(format!("not every rank had calls with the first lines: {report}").into());
    }
    let (before, since) = (Usage::of(agent.pid())?, Instant::now());
    // No reading of it may begin or end the time.
    std::thread::sleep(WATCHED);
    let took = Usage::of(agent.pid())?.since(before);
    let cost = Cost {
        armed_s: armed.at.duration_since(began).as_secs_f64(),
        shown_s: shown.at.duration_since(began).as_secs_f64(),
        cpu: took.cpu_ns as f64 / 1e9 / since.elapsed().as_secs_f64(),
        rss_kib: took.resident_kib,
    };
    agent.stop()?;
    job.open("end")?;
    job.finish(SOON)?;
    Ok(cost)
}
