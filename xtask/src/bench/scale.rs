//! `cargo xtask bench scale`: how what the agent takes grows: over hits a second, for the profile and for a rule that adds up the calls of each
//! iteration, and for one that asks for each of them; over probes, and over processes, of which nobody does anything. A table and a picture.
//!
//! What comes up from the kernel is told as bytes through the ring, for each iteration of the program: who adds up where hits are made
//! sends as much for an iteration whatever happens in it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::usage::Usage;
use tuneagent_e2e::{Outcome, programs};

use super::Measured;
use super::attach;
use super::idle::{self, Rest, Windows};
use super::options::Options;
use super::verdict::Verdict;
use crate::Result;
use crate::experiment::chart::{Line, Panel, Picture};
use crate::experiment::stats::Spread;
use crate::experiment::table::{Cell, Table, cells};
use crate::process::capture;

const SOON: Duration = Duration::from_secs(120);

/// Calls a second that are asked for: a hit at the entry and one at the return each. The last is more than a core can make.
const CALLS: [u64; 6] = [100, 1_000, 10_000, 50_000, 200_000, 500_000];
const PROBES: [usize; 5] = [1, 10, 100, 1000, 3000];
const PROCESSES: [usize; 5] = [1, 4, 16, 64, 256];

/// Iterations of the program in a second, when it keeps its pace.
const ITERATIONS_PER_S: f64 = 100.0;
/// What it calls in them.
const CALLED: &str = "MPI_Allreduce";

/// Adds up the calls of each iteration that fulfil a condition.
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

/// What every call fulfils; nothing is added up in the kernel then.
const CONDITION: &str = " where call.duration >= 0s";

/// At one rate, of the profile alone or with a rule.
struct Rated {
    how: &'static str,
    asked: u64,
    calls_per_s: f64,
    cpu: Vec<f64>,
    bytes_per_iteration: f64,
    lost: u64,
}

const PROFILE: &str = "profile";
const WITH_RULE: &str = "rule";
const EACH_SENT: &str = "each hit sent";

const WAYS: [&str; 3] = [PROFILE, WITH_RULE, EACH_SENT];

pub(super) fn run(options: &Options) -> Result<Measured> {
    let windows = Windows::of(options);
    let first = |all: usize| if options.quick { 3 } else { all };
    let rated = of_rates(&CALLS[..first(CALLS.len())], windows)?;
    let probes = of_probes(&PROBES[..first(PROBES.len())], windows)?;
    let processes = PROCESSES[..first(PROCESSES.len())].iter();
    let processes: Outcome<Vec<_>> = processes
        .map(|count| Ok((*count, idle::of_ranks(*count, windows)?)))
        .collect();
    let processes = processes?;
    let tables = [
        rates_table(&rated),
        counts_table("probes", &probes),
        counts_table("processes that sleep", &processes),
    ];
    for table in &tables {
        println!("\n{table}");
    }
    let drawn = super::folder().join("scale.svg");
    std::fs::create_dir_all(super::folder())
        .and_then(|()| std::fs::write(&drawn, picture(&rated, &tables[1], &tables[2]).svg()))
        .map_err(|error| format!("{}: {error}", drawn.display()))?;
    println!("drawn: {}\n", drawn.display());
    Ok(Measured {
        figures: figures(&rated, &probes, &processes),
        verdicts: verdicts(&rated, &probes, &processes),
    })
}

/// Shares of a core in percent.
fn percent(cpu: &[f64]) -> Option<Spread> {
    let values: Vec<f64> = cpu.iter().map(|cpu| 100.0 * cpu).collect();
    Spread::of(&values)
}

fn rates_table(rated: &[Rated]) -> Table {
    let mut table = Table::new([
        "calls/s asked",
        "with",
        "hits/s",
        "agent, % of a core",
        "bytes an iteration",
        "lost",
    ]);
    for row in rated {
        table.row(cells![
            row.asked,
            row.how,
            2.0 * row.calls_per_s,
            percent(&row.cpu),
            row.bytes_per_iteration,
            row.lost,
        ]);
    }
    table
}

fn counts_table(what: &str, rows: &[(usize, Rest)]) -> Table {
    let mut table = Table::new([what, "agent, % of a core", "wakings/s", "reads/s", "MiB"]);
    for (count, rest) in rows {
        table.row(std::iter::once(Cell::from(*count)).chain(rest.cells()));
    }
    table
}

fn figures(rated: &[Rated], probes: &[(usize, Rest)], processes: &[(usize, Rest)]) -> Value {
    let rate = |row: &Rated| {
        json!({
            "with": row.how,
            "calls_per_s_asked": row.asked,
            "hits_per_s": 2.0 * row.calls_per_s,
            "agent_cpu": row.cpu,
            "bytes_per_iteration": row.bytes_per_iteration,
            "lost": row.lost,
        })
    };
    let counted = |rows: &[(usize, Rest)]| -> Value {
        let rows = rows.iter();
        rows.map(|(count, rest)| json!({"count": count, "rest": rest.as_json()}))
            .collect()
    };
    json!({
        "rates": rated.iter().map(rate).collect::<Value>(),
        "probes": counted(probes),
        "processes": counted(processes),
    })
}

fn picture(rated: &[Rated], probes: &Table, processes: &Table) -> Picture {
    let unit = "agent, % of a core";
    let line = |how: &str| {
        let rows = rated.iter().filter(|row| row.how == how);
        let points = rows.filter_map(|row| Some((2.0 * row.calls_per_s / 1e3, percent(&row.cpu)?)));
        Line {
            name: how.to_owned(),
            points: points.collect(),
        }
    };
    Picture {
        title: "What the agent takes".to_owned(),
        panels: vec![
            Panel::new(("hits", "1000 hits/s", unit), WAYS.map(line)),
            probes.panel("probes at rest", unit, &[unit]),
            processes.panel("ranks at rest", unit, &[unit]),
        ],
    }
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
    let mut cpu = Vec::new();
    for _ in 0..windows.count {
        let usage = Usage::of(agent.pid())?;
        // No reading of it may begin or end the time.
        std::thread::sleep(Duration::from_secs_f64(windows.seconds));
        let took = Usage::of(agent.pid())?.since(usage);
        cpu.push(took.cpu_ns as f64 / 1e9 / windows.seconds);
    }
    // Positions are told modulo 2^32: not so many bytes are sent in a minute.
    let bytes = position(&agent)?.wrapping_sub(first);
    let bytes_per_s = f64::from(bytes) / filling.elapsed().as_secs_f64();
    let report = agent.stop()?;
    let calls_per_s = calls_of(&report)? as f64 / report["elapsed_s"].as_f64().unwrap_or(f64::NAN);
    Ok(Rated {
        how,
        asked: calls,
        calls_per_s,
        cpu,
        bytes_per_iteration: bytes_per_s / (calls_per_s / (calls as f64 / ITERATIONS_PER_S)),
        lost: report["completeness"]["lost"]["ring_full"].as_u64().unwrap_or(0),
    })
}

/// Calls of the function by the program, as the agent counted them.
fn calls_of(report: &Value) -> Outcome<u64> {
    let functions = report["processes"][0]["functions"].as_array();
    let mut functions = functions.into_iter().flatten();
    let called = functions.find(|function| function["name"] == CALLED);
    let calls = called.and_then(|function| function["calls"].as_u64());
    Ok(calls.ok_or("the report does not tell the calls")?)
}

/// How many bytes were put into its ring so far.
fn position(agent: &Agent) -> Outcome<u32> {
    let mut command = super::instrument("events");
    let told: Value = serde_json::from_str(&capture(command.args(["position", &agent.pid().to_string()]))?)?;
    let position = told["position"].as_u64().and_then(|at| u32::try_from(at).ok());
    Ok(position.ok_or("the position of the ring is not told")?)
}

fn of_probes(counts: &[usize], windows: Windows) -> Outcome<Vec<(usize, Rest)>> {
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    for count in counts {
        let program = attach::many_functions(folder.path(), *count)?;
        let rule = attach::rule_on_all(folder.path(), *count)?;
        let job = Job::alone(&program, |_| Vec::new())?;
        job.events("ready", 1, SOON)?;
        let mut agent = Agent::attach(job.pid(), &["--rules", "none", &rule.to_string_lossy()])?;
        rows.push((*count, Rest::of_agent(&agent, windows)?));
        agent.stop()?;
    }
    Ok(rows)
}

/// Nothing grows faster than what it is over, and what is sent of an iteration does not grow with its hits.
fn verdicts(rated: &[Rated], probes: &[(usize, Rest)], processes: &[(usize, Rest)]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut linear = |what: String, points: &[(f64, f64)]| {
        if let (Some((few, little)), Some((many, much))) = (points.first(), points.last()) {
            let growth = (much / little) / (many / few);
            verdicts.push(Verdict::at_most(what, growth, 1.0, 2.0));
        }
    };
    let counted = |rows: &[(usize, Rest)]| -> Vec<(f64, f64)> {
        rows.iter()
            .map(|(count, rest)| (*count as f64, rest.median_cpu()))
            .collect()
    };
    let of = |how: &str| {
        rated
            .iter()
            .filter(move |row| row.how == how)
            .collect::<Vec<&Rated>>()
    };
    for how in WAYS {
        let cpu = |row: &&Rated| percent(&row.cpu).map_or(f64::NAN, |spread| spread.median / 100.0);
        let points: Vec<(f64, f64)> = of(how).iter().map(|row| (row.calls_per_s, cpu(row))).collect();
        linear(format!("{how}: growth of CPU time over that of hits"), &points);
    }
    linear(
        "growth of CPU time over that of probes".to_owned(),
        &counted(probes),
    );
    linear(
        "growth of CPU time over that of processes".to_owned(),
        &counted(processes),
    );
    let bytes = |row: &Rated| row.bytes_per_iteration;
    let sent = of(PROFILE).iter().map(|row| bytes(row)).fold(0.0, f64::max);
    verdicts.push(Verdict::at_most(
        "profile: bytes an iteration, at most",
        sent,
        0.0,
        1000.0,
    ));
    let with_rule = of(WITH_RULE);
    if let (Some(few), Some(many)) = (with_rule.first(), with_rule.last()) {
        let growth = bytes(many) / bytes(few);
        verdicts.push(Verdict::at_most(
            "rule: bytes an iteration at the most hits, times those at the fewest",
            growth,
            1.1,
            f64::INFINITY,
        ));
    }
    verdicts
}
