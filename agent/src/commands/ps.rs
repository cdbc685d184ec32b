//! `tuneagent ps`: programs on this machine that lose time, worst first, from two samples of /proc.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    time::Instant,
};

use job::os_metrics::{Sampler, available, usable};
use job::{ProcessTable, launcher_above, name_of};
use profile::Counters;
use profile::format::{percent, wrapped};
use profile::matches_glob;
use report::view;

use crate::{
    cli::PsArgs,
    exit::{Code, CommandResult, Failure},
    rights,
};

/// A process that neither runs nor waits for this share of a CPU is idle.
const IDLE_SHARE: f64 = 0.005;

/// A program that needs fewer CPUs than this loses nothing that matters.
const SMALL: f64 = 0.1;

/// A program that uses fewer CPUs is shown only if it needs as many as one that competes with others.
const USED: f64 = 0.05;

/// A program that needs this many CPUs competes with others.
const RIVAL: f64 = 0.5;

/// Maximum number of competitors that are shown.
const RIVALS_SHOWN: usize = 3;

/// Indentation of the continuation lines of a reason.
const INDENT: &str = "          ";

/// If a program needs more than this many CPUs per CPU that it may use, it has too many threads.
const OVERSUBSCRIBED: f64 = 1.1;

/// A program is reported as waiting if it waits for a CPU for more than this share of its time.
const WAIT_SHARE: f64 = 0.05;

/// Identifies processes that belong together: those of one launcher, or of one name and parent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProgramKey {
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

pub(super) fn run(args: &PsArgs) -> CommandResult {
    rights::only_look().map_err(Failure::not_permitted)?;
    let table = ProcessTable::read();
    let mut samplers: Vec<(i32, Sampler, Counters, Instant)> = table
        .iter()
        .filter(|(pid, entry)| !entry.is_kernel_thread && pid.unsigned_abs() != std::process::id())
        .filter_map(|(pid, _)| {
            let mut sampler = Sampler::open(pid).ok()?;
            let first = sampler.sample().ok()?;
            Some((pid, sampler, first, Instant::now()))
        })
        .collect();
    std::thread::sleep(args.duration);
    let mut programs: BTreeMap<ProgramKey, Program> = BTreeMap::new();
    for (pid, sampler, first, begin) in &mut samplers {
        let Ok(last) = sampler.sample() else { continue };
        let elapsed = begin.elapsed().as_nanos() as f64;
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
    match args.json {
        true => print_json(&programs, args.all),
        false => {
            print(&programs, args.all);
            Ok(Code::Done)
        }
    }
}

fn key(table: &ProcessTable, pid: i32) -> Option<ProgramKey> {
    let entry = table.get(pid)?;
    let parent = launcher_above(table, pid).unwrap_or(entry.parent);
    Some(ProgramKey {
        parent,
        // Two scripts of one interpreter are two programs. The kernel cuts names after 15 characters.
        name: name_of(pid).unwrap_or_else(|| entry.name.clone()),
    })
}

/// Why no program is shown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NoneShown {
    #[error("no program here waits for a CPU: none was busy")]
    NoneBusy,
    #[error("no program here waits for a CPU ({busy} busy; --all shows them)")]
    NoneWaits { busy: usize },
}

/// The busy programs that are shown, worst first.
fn shown(busy: &BTreeMap<ProgramKey, Program>, all: bool) -> Result<Vec<(&ProgramKey, &Program)>, NoneShown> {
    let waits = |program: &Program| {
        let is_small = program.wanted() <= SMALL || program.cpu < USED && program.wanted() <= RIVAL;
        !is_small && program.wait_share() > WAIT_SHARE
    };
    let shown = busy.iter().filter(|(_, program)| all || waits(program));
    let mut shown: Vec<(&ProgramKey, &Program)> = shown.collect();
    shown.sort_by(|(_, a), (_, b)| b.runqueue.total_cmp(&a.runqueue));
    match (shown.is_empty(), busy.len()) {
        (false, _) => Ok(shown),
        (true, 0) => Err(NoneShown::NoneBusy),
        (true, busy) => Err(NoneShown::NoneWaits { busy }),
    }
}

fn print_json(busy: &BTreeMap<ProgramKey, Program>, all: bool) -> CommandResult {
    let row = |&(key, program): &(&ProgramKey, &Program)| {
        serde_json::json!({
            "pids": program.pids,
            "user": user(program),
            "program": key.name,
            "cpus": program.cpu,
            "waiting_share": program.wait_share(),
            "why": why(program, &rivals((key, program), busy)),
        })
    };
    let rows: Vec<_> = shown(busy, all).unwrap_or_default().iter().map(row).collect();
    super::print_json(&rows)
}

/// The user of its first process.
fn user(program: &Program) -> Option<String> {
    let first = *program.pids.first()?;
    let user = procfs::process::Process::new(first).and_then(|process| process.uid());
    user.map(tuner::user_name).ok()
}

fn print(busy: &BTreeMap<ProgramKey, Program>, all: bool) {
    // In a pipe each program takes one line.
    let columns = view::columns(io::stdout()).unwrap_or(usize::MAX);
    let programs = match shown(busy, all) {
        Ok(programs) => programs,
        Err(why) => return say!("{why}"),
    };
    say!(
        "{:>8}  {:<10} {:<16} {:>9} {:>6} {:>8}  why",
        "PID",
        "USER",
        "PROGRAM",
        "PROCESSES",
        "CPUS",
        "WAITING"
    );
    for &(key, program) in &programs {
        let first = program.pids.first().copied().unwrap_or_default();
        let line = format!(
            "{first:>8}  {:<10} {:<16} {:>9} {:>6} {:>8}  {}",
            user(program).unwrap_or_else(|| "?".into()),
            key.name,
            program.pids.len(),
            cpus(program.cpu),
            percent(program.wait_share()),
            why(program, &rivals((key, program), busy)),
        );
        wrapped(INDENT, &line, columns)
            .iter()
            .for_each(|line| say!("{line}"));
    }
    if let Some((name, pid)) = worst_program(&programs, |pid| !runtimes(pid).is_empty()) {
        say!(
            "to see what {name} waits for, and what can be done: {}",
            crate::hint::as_root(&format!("attach {pid}"))
        );
    }
}

/// CPUs with as many digits as differ from 0.
fn cpus(used: f64) -> String {
    match used < USED {
        true => format!("{used:.2}"),
        false => format!("{used:.1}"),
    }
}

/// The program that loses most time. Those that can be tuned come first: the others may belong to other users.
fn worst_program<'a>(
    programs: &[(&'a ProgramKey, &Program)],
    can_be_tuned: impl Fn(i32) -> bool,
) -> Option<(&'a str, i32)> {
    let firsts = programs
        .iter()
        .filter_map(|(key, program)| Some((key.name.as_str(), *program.pids.first()?)));
    let firsts: Vec<(&str, i32)> = firsts.collect();
    let tuned = firsts.iter().find(|(_, pid)| can_be_tuned(*pid));
    tuned.or(firsts.first()).copied()
}

/// Run-times in which a process may spin, by the names of their libraries.
const RUNTIMES: &[(&str, &str)] = &[
    ("libmpi.so*", "Open MPI"),
    ("libmpich*.so*", "MPICH"),
    ("lib*openblas*.so*", "OpenBLAS"),
    ("libmkl_*.so*", "MKL"),
    ("libgomp*.so*", "OpenMP"),
    ("lib*omp5*.so*", "OpenMP"),
];

/// Run-times of a process that may have too many threads; empty if its libraries may not be read.
fn runtimes(pid: i32) -> Vec<&'static str> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let maps = tuner::parse_maps(&String::from_utf8_lossy(&text)).unwrap_or_default();
    let files: BTreeSet<&str> = maps
        .iter()
        .filter_map(|map| Some(map.name().rsplit_once('/')?.1))
        .collect();
    let mut found: Vec<&str> = Vec::new();
    for (glob, name) in RUNTIMES {
        if files.iter().any(|file| matches_glob(glob, file)) && !found.contains(name) {
            found.push(name);
        }
    }
    found
}

/// Why a program waits; `rivals` are the busy programs that may use some of the same CPUs.
fn why(program: &Program, rivals: &[(&ProgramKey, &Program)]) -> String {
    let Some(share) = available(&program.pids) else {
        return "ended meanwhile".into();
    };
    if program.wait_share() <= WAIT_SHARE {
        return String::new();
    }
    let mut parts = Vec::new();
    if program.wanted() > OVERSUBSCRIBED * share.cpus() {
        let limit = match share.quota {
            Some(quota) if quota < share.allowed.len() as f64 => " (a quota)",
            _ => "",
        };
        parts.push(format!(
            "wants {:.1} CPUs and may use {:.1}{limit}",
            program.wanted(),
            share.cpus()
        ));
        let runtimes = program.pids.first().map_or_else(Vec::new, |pid| runtimes(*pid));
        match runtimes.is_empty() {
            true => parts.push("too many busy processes or threads".into()),
            false => parts.push(format!("too many threads or ranks ({})", runtimes.join(", "))),
        }
    }
    let named: Vec<String> = rivals
        .iter()
        .filter_map(|(key, rival)| Some(format!("{} ({})", key.name, rival.pids.first()?)))
        .collect();
    if !named.is_empty() {
        parts.push(format!("shares its CPUs with {}", named.join(", ")));
    }
    if parts.is_empty() {
        parts.push("waits for CPUs that others use".into());
    }
    parts.join("; ")
}

/// Some busy programs that may use the same CPUs as this one, those that need most first.
fn rivals<'a>(
    of: (&ProgramKey, &Program),
    all: &'a BTreeMap<ProgramKey, Program>,
) -> Vec<(&'a ProgramKey, &'a Program)> {
    let own = usable(&of.1.pids);
    let fights = |(key, program): &(&ProgramKey, &Program)| {
        *key != of.0 && program.wanted() > RIVAL && !usable(&program.pids).is_disjoint(&own)
    };
    let mut rivals: Vec<_> = all.iter().filter(fights).collect();
    rivals.sort_by(|(_, a), (_, b)| b.wanted().total_cmp(&a.wanted()));
    rivals.truncate(RIVALS_SHOWN);
    rivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_offered_only_where_it_shows_more() {
        let names = |busy: &BTreeMap<ProgramKey, Program>, all| {
            let shown = shown(busy, all)?;
            Ok::<Vec<String>, NoneShown>(shown.into_iter().map(|(key, _)| key.name.clone()).collect())
        };
        let program = |name: &str, runqueue| {
            let key = ProgramKey {
                parent: 1,
                name: name.to_owned(),
            };
            let program = Program {
                pids: vec![2],
                cpu: 1.0,
                runqueue,
            };
            (key, program)
        };
        let no_process = names(&BTreeMap::new(), true).unwrap_err();
        assert!(!no_process.to_string().contains("--all"), "{no_process}");
        assert_eq!(names(&BTreeMap::new(), false), Err(no_process));
        let mut busy = BTreeMap::from([program("a", 0.0)]);
        let hint = names(&busy, false).unwrap_err().to_string();
        assert!(hint.contains("1 busy; --all shows them"), "{hint}");
        assert_eq!(names(&busy, true), Ok(vec!["a".to_owned()]));
        busy.extend([program("b", 0.5)]);
        assert_eq!(names(&busy, false), Ok(vec!["b".to_owned()]));
        assert_eq!(names(&busy, true), Ok(vec!["b".to_owned(), "a".to_owned()]));
    }

    #[test]
    fn a_program_that_hardly_uses_a_cpu_is_shown_if_it_needs_half_of_one() {
        let is_shown = |cpu, runqueue| {
            let program = Program {
                pids: vec![2],
                cpu,
                runqueue,
            };
            let key = ProgramKey {
                parent: 1,
                name: "bash".to_owned(),
            };
            shown(&BTreeMap::from([(key, program)]), false).is_ok()
        };
        assert!(!is_shown(0.01, 0.3), "it waits 97 % of its time, for little work");
        assert!(is_shown(0.02, 0.7) && is_shown(0.1, 0.3));
        assert_eq!((cpus(0.02), cpus(0.25)), ("0.02".to_owned(), "0.2".to_owned()));
    }

    #[test]
    fn of_the_programs_that_lose_time_one_that_can_be_tuned_is_suggested() {
        let of = |name: &str, pid: i32| {
            let key = ProgramKey {
                parent: 1,
                name: name.to_owned(),
            };
            let program = Program {
                pids: vec![pid],
                ..Program::default()
            };
            (key, program)
        };
        let both = [of("rustc", 7), of("heat", 8)];
        let programs: Vec<(&ProgramKey, &Program)> =
            both.iter().map(|(key, program)| (key, program)).collect();
        assert_eq!(worst_program(&programs, |pid| pid == 8), Some(("heat", 8)));
        assert_eq!(worst_program(&programs, |_| false), Some(("rustc", 7)));
        assert_eq!(worst_program(&[], |_| true), None);
    }
}
