//! `tuneagent ps`: programs on this machine that lose time, worst first, from two looks at /proc.

use std::{collections::BTreeMap, time::Instant};

use crate::{
    cli::PsArgs,
    discover::{ProcessTable, launcher_above},
    evidence::{Counters, Sampler, available},
    exit::{Code, Failure, Outcome},
    format::percent,
    rights,
};

/// A process that neither runs nor waits for this share of a CPU is idle.
const IDLE_SHARE: f64 = 0.005;

/// A program that wants less than this many CPUs has nothing to lose.
const SMALL: f64 = 0.1;

/// A program is said to wait when it waits for a CPU more than this share of its time.
const WAIT_SHARE: f64 = 0.05;

/// Processes that belong together: those of one launcher, or of one name under one parent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    parent: i32,
    name: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Program {
    pids: Vec<i32>,
    cpu: f64,
    runqueue: f64,
}

impl Program {
    /// CPUs that it would use if it never had to wait.
    fn wanted(&self) -> f64 {
        self.cpu + self.runqueue
    }

    fn wait_share(&self) -> f64 {
        if self.wanted() > 0.0 {
            self.runqueue / self.wanted()
        } else {
            0.0
        }
    }
}

pub(super) fn run(args: &PsArgs) -> Outcome {
    rights::only_look().map_err(Failure::not_permitted)?;
    let table = ProcessTable::read();
    let mut samplers: Vec<(i32, Sampler, Counters)> = table
        .iter()
        .filter(|(pid, entry)| !entry.is_kernel_thread && pid.unsigned_abs() != std::process::id())
        .filter_map(|(pid, _)| {
            let mut sampler = Sampler::open(pid).ok()?;
            let first = sampler.sample().ok()?;
            Some((pid, sampler, first))
        })
        .collect();
    let started = Instant::now();
    std::thread::sleep(args.duration);
    let mut programs: BTreeMap<Key, Program> = BTreeMap::new();
    for (pid, sampler, first) in &mut samplers {
        let Ok(last) = sampler.sample() else { continue };
        let elapsed = started.elapsed().as_nanos() as f64;
        let cpu = last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / elapsed;
        let runqueue = last.runqueue_ns.saturating_sub(first.runqueue_ns) as f64 / elapsed;
        if cpu + runqueue < IDLE_SHARE {
            continue;
        }
        let Some(key) = key(&table, *pid) else { continue };
        let program = programs.entry(key).or_default();
        program.pids.push(*pid);
        program.cpu += cpu;
        program.runqueue += runqueue;
    }
    print(programs, args.all);
    Ok(Code::Done)
}

fn key(table: &ProcessTable, pid: i32) -> Option<Key> {
    let entry = table.get(pid)?;
    let parent = launcher_above(table, pid).unwrap_or(entry.parent);
    Some(Key {
        parent,
        name: entry.name.clone(),
    })
}

fn print(programs: BTreeMap<Key, Program>, all: bool) {
    let mut programs: Vec<(Key, Program)> = programs.into_iter().collect();
    programs.sort_by(|(_, a), (_, b)| b.runqueue.total_cmp(&a.runqueue));
    let total = programs.len();
    if !all {
        programs.retain(|(_, program)| program.wanted() > SMALL && program.wait_share() > WAIT_SHARE);
    }
    if programs.is_empty() {
        say!("no program here waits for a CPU ({total} were busy; --all shows them)");
        return;
    }
    say!(
        "{:>8}  {:<10} {:<16} {:>9} {:>6} {:>8}  why",
        "PID",
        "USER",
        "PROGRAM",
        "PROCESSES",
        "CPUS",
        "WAITING"
    );
    for (key, program) in programs {
        let first = program.pids.first().copied().unwrap_or_default();
        let user = procfs::process::Process::new(first)
            .and_then(|process| process.uid())
            .map(tuner::who::user_name);
        say!(
            "{first:>8}  {:<10} {:<16} {:>9} {:>6.1} {:>8}  {}",
            user.unwrap_or_else(|_| "?".into()),
            key.name,
            program.pids.len(),
            program.cpu,
            percent(program.wait_share()),
            why(&program),
        );
    }
}

fn why(program: &Program) -> String {
    match available(&program.pids) {
        Some(share) if program.wanted() > 1.1 * share.cpus() => {
            format!(
                "wants {:.1} CPUs and may use {:.1}: too many busy processes or threads",
                program.wanted(),
                share.cpus()
            )
        }
        Some(_) if program.wait_share() > WAIT_SHARE => "shares its CPUs with other busy programs".into(),
        Some(_) => String::new(),
        None => "ended meanwhile".into(),
    }
}
