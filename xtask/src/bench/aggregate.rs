//! `cargo xtask bench aggregate`: what it saves that the kernel adds hits up: events for an iteration and the agent's CPU time, beside a
//! rule that needs each hit for the same numbers, in turns on the same running program.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::{Outcome, programs};

use super::attach::{TICKS_PER_S, cpu_ticks};
use super::options::Options;
use crate::Result;
use crate::experiment::{
    stats::{Spread, figure},
    table::Table,
};

const SOON: Duration = Duration::from_secs(60);

/// Calls in an iteration of 10 ms, or longer where they take longer.
const CALLS: [u32; 3] = [10, 100, 1000];

/// What is watched at a time, and how often; the quick form only says whether all works.
const LONG: (Duration, usize) = (Duration::from_secs(4), 5);
const QUICK: (Duration, usize) = (Duration::from_secs(1), 1);

/// What every hit passes: only who looks at each can tell.
const CONDITION: &str = " where work.duration >= 0s";

/// What is measured of one rule at one rate.
#[derive(Default)]
struct Cost {
    hits_per_s: Vec<f64>,
    events_per_iteration: Vec<f64>,
    cpu: Vec<f64>,
}

pub(super) fn run(options: &Options) -> Result<super::Measured> {
    let mut figures = Vec::new();
    let table = rates(if options.quick { QUICK } else { LONG }, &mut figures)?;
    println!("\n{table}");
    Ok(super::Measured::of(figures))
}

fn rates((watched, rounds): (Duration, usize), figures: &mut Vec<Value>) -> Outcome<Table> {
    let program = programs::c_with_math("hot")?;
    let folder = tempfile::tempdir()?;
    let rules = [
        rule(folder.path(), "added", "")?,
        rule(folder.path(), "each", CONDITION)?,
    ];
    let mut table = Table::new([
        "hits/s",
        "events an iteration, added up",
        "each hit",
        "fewer",
        "agent, % of a core, added up",
        "each hit",
        "less",
    ]);
    for calls in CALLS {
        let job = Job::alone(&program, |folder| {
            vec![
                folder.to_string_lossy().into_owned(),
                calls.to_string(),
                "10000".to_owned(),
            ]
        })?;
        job.events("ready", 1, SOON)?;
        let mut costs = [Cost::default(), Cost::default()];
        for _ in 0..rounds {
            for (cost, rule) in costs.iter_mut().zip(&rules) {
                measure(&job, rule, watched, cost)?;
            }
        }
        let [added, each] = &costs;
        let spread =
            |values: &[f64]| Spread::of(values).map_or_else(String::new, |spread| spread.to_string());
        let ratio = |of: &[f64], to: &[f64]| {
            let ratios: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
            Spread::of(&ratios)
        };
        let shown = |found: Option<Spread>| {
            found.map_or_else(String::new, |spread| format!("{}x", figure(spread.median)))
        };
        table.row([
            spread(&each.hits_per_s),
            spread(&added.events_per_iteration),
            spread(&each.events_per_iteration),
            shown(ratio(&each.events_per_iteration, &added.events_per_iteration)),
            spread(&added.cpu),
            spread(&each.cpu),
            shown(ratio(&each.cpu, &added.cpu)),
        ]);
        for (name, cost) in [("added_up", added), ("each_hit", each)] {
            figures.push(json!({
                "rule": name,
                "calls_an_iteration": calls,
                "hits_per_s": cost.hits_per_s,
                "events_an_iteration": cost.events_per_iteration,
                "agent_cpu_percent": cost.cpu,
            }));
        }
    }
    Ok(table)
}

/// A rule that sums over iterations, of the hits that fulfil a condition.
fn rule(folder: &Path, name: &str, condition: &str) -> Outcome<PathBuf> {
    let text = format!(
        "rule: {name}\nabout: sums over an iteration\nprobes:\n  begin: {{entry: begin_iteration}}\n  \
         end: {{return: end_iteration}}\n  work: {{span: work}}\ncapture:\n  begin.number: arg(0) as i64\n  \
         work.value: arg(0) as i64\n  work.number: arg(1) as i64\nwindows:\n  \
         iteration: {{from: begin, to: end, key: number}}\nmetrics:\n  hits: count(work{condition})\n  \
         busy: sum(work.duration{condition})\n  total: sum(work.value{condition})\n"
    );
    let file = folder.join(format!("{name}.yaml"));
    std::fs::write(&file, text)?;
    Ok(file)
}

fn measure(job: &Job, rule: &Path, watched: Duration, cost: &mut Cost) -> Outcome<()> {
    let mut agent = Agent::attach(job.pid(), &["--rules", "none", &rule.to_string_lossy()])?;
    agent.armed()?;
    // The first iterations, and what is made once.
    std::thread::sleep(Duration::from_millis(500));
    let before = agent.snapshot()?;
    let (ticks, since) = (cpu_ticks(agent.pid())?, Instant::now());
    // No reading of it may begin or end the time.
    std::thread::sleep(watched);
    let (ticks, elapsed) = (cpu_ticks(agent.pid())? - ticks, since.elapsed().as_secs_f64());
    let after = agent.snapshot()?;
    let report = agent.stop()?;
    if report["completeness"]["status"] != "complete" {
        return Err(format!("{}: {}", rule.display(), report["completeness"]).into());
    }
    let more = |of: &dyn Fn(&Value) -> Option<f64>| Some(of(&after)? - of(&before)?);
    let calls = |report: &Value, name: &str| {
        let functions = report["processes"][0]["functions"].as_array()?;
        functions.iter().find(|function| function["name"] == name)?["calls"].as_f64()
    };
    let events = |report: &Value| report["completeness"]["events_received"].as_f64();
    let seconds = |report: &Value| report["elapsed_s"].as_f64();
    let hits = more(&|report| calls(report, "work")).ok_or("no calls of work")?;
    let iterations = more(&|report| calls(report, "begin_iteration")).ok_or("no iterations")?;
    cost.hits_per_s.push(hits / more(&seconds).unwrap_or(elapsed));
    cost.events_per_iteration
        .push(more(&events).ok_or("no events")? / iterations);
    cost.cpu.push(ticks / TICKS_PER_S / elapsed * 100.0);
    Ok(())
}
