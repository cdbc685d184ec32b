//! `cargo xtask bench attach`: measures how long attaching and detaching take for 10 to 3000 probes, the time
//! until the first numbers are shown on a pipe and on a terminal, for ranks that sleep and ranks that keep
//! every CPU busy, and the CPU time and memory of the agent meanwhile.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::sight::{Ranks, Sight};
use tuneagent_e2e::{Outcome, each};

use super::idle::{self, Rest, Windows};
use crate::measure::stats::Spread;
use crate::measure::table::{Table, cells};
use crate::measure::{self, Section, Settings};
use crate::{Result, process};

const SOON: Duration = Duration::from_secs(120);

/// Number of functions that one pattern of the rule matches.
const EACH: usize = 250;
const PROBES: [usize; 6] = [10, 30, 100, 300, 1000, 3000];
const RANKS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Numbers of ranks for which the time until the first numbers is measured.
const SEEN: [usize; 3] = [1, 4, 16];

/// Time between two calls of a rank, in microseconds.
const SLEEP_US: &str = "10000";

/// Times for one number of probes, in seconds.
#[derive(Default)]
struct Times {
    /// Start of the agent until all probes are attached.
    attach: Vec<f64>,
    /// Ctrl-C until the agent has ended.
    leave: Vec<f64>,
}

pub(super) fn run(settings: &Settings) -> Result<measure::Outcome> {
    let mut figures = Vec::new();
    let seen = of_sight(settings.repeats, &mut figures)?;
    let probes = of_probes(settings.repeats, &mut figures)?;
    let ranks = of_ranks(settings, &mut figures)?;
    Ok(measure::Outcome {
        sections: vec![
            Section::of("Until first numbers", seen),
            Section::of("Attaching and leaving", probes),
            Section::of("Ranks that make 100 calls a second", ranks),
        ],
        figures: Some(Value::Array(figures)),
        ..measure::Outcome::default()
    })
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
            let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule.to_string_lossy()])?;
            let armed = agent.lines.wait_for_line("armed", SOON)?;
            times.attach.push(armed.at.duration_since(began).as_secs_f64());
            let began = Instant::now();
            let report = agent.stop()?;
            times.leave.push(began.elapsed().as_secs_f64());
            if report["completeness"]["status"] != "complete" {
                return Err(format!("{count} probes: {}", report["completeness"]).into());
            }
        }
        table.row(cells![count, ms(&times.attach), ms(&times.leave)]);
        figures.push(json!({"probes": count, "attach_s": times.attach, "leave_s": times.leave}));
    }
    Ok(table)
}

fn ms(values: &[f64]) -> Option<Spread> {
    let values: Vec<f64> = values.iter().map(|seconds| seconds * 1e3).collect();
    Spread::of(&values)
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
        job.end(SOON)?;
        let who = format!("{count} {}", ranks.name());
        figures.push(json!({"seen": who, "armed_s": armed, "line_s": line, "screen_s": screen}));
        table.row(cells![who, ms(&armed), ms(&line), ms(&screen)]);
    }
    Ok(table)
}

/// Compiles a program with `count` functions, in groups that one pattern of the rule matches.
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

/// Writes a rule that counts the calls of all these functions.
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

fn of_ranks(settings: &Settings, figures: &mut Vec<Value>) -> Outcome<Table> {
    let mut table = Table::new([
        "ranks",
        "start to armed, ms",
        "start to first numbers of all, ms",
        "agent, % of a core",
        "wakings/s",
        "reads/s",
        "MiB",
    ]);
    for count in &RANKS[..settings.either(3, RANKS.len())] {
        let mut job = idle::sleepers(*count, SLEEP_US)?;
        let began = Instant::now();
        let mut agent = Agent::attach(job.pid(), &[])?;
        let since = |at: Instant| 1e3 * at.duration_since(began).as_secs_f64();
        let armed_ms = since(agent.lines.wait_for_line("armed", SOON)?.at);
        let shown_ms = since(agent.lines.wait_for_line(" after ", SOON)?.at);
        let report = agent.snapshot()?;
        let is_calling = |process: &&Value| process["functions"][0]["calls"].as_u64() > Some(0);
        if each(&report["processes"]).filter(is_calling).count() != *count {
            return Err(format!("not every rank had calls with the first lines: {report}").into());
        }
        let rest = Rest::of(agent.pid(), Windows::of(settings))?;
        agent.stop()?;
        job.end(SOON)?;
        let cells = cells![*count, armed_ms, shown_ms];
        table.row(cells.into_iter().chain(rest.cells()));
        figures.push(json!({"ranks": count, "armed_ms": armed_ms, "shown_ms": shown_ms, "agent": rest}));
    }
    Ok(table)
}
