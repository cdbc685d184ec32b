//! Measures how often the guard confirms a change without effect, on live programs: a rule writes `opterr` of
//! the C library, which programs read only while they parse their command line. The programs are those of
//! `runtime`, started with the wrong settings. Several run at once, so that they compete for CPUs and their
//! pace varies in bursts.

use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Signal;
use tuneagent_e2e::crowd::is_verdict;
use tuneagent_e2e::repairs::{self, CASES, Case, Start};

use super::rounds::progress;
use super::runtime::here;
use crate::Result;
use crate::measure::table::{Cell, Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

/// Number of programs that run at once.
const AT_ONCE: usize = 6;
/// Maximum time for an agent to end.
const PATIENCE: Duration = Duration::from_secs(180);
/// Number of trials per subject.
const TRIALS: usize = 4;
/// Maximum of false confirmations in 40 and more trials. With an error rate of 1 %, one experiment of twelve
/// has more.
const CONFIRMED_MAX: usize = 1;
const CPUS: &str = "sum(cpu.time)";
const CALLS: &str = "sum(mpi.calls)";
const REGIONS: &str = "count(regions)";

/// Part of a case's name, and the guard's objective.
const SUBJECTS: [(&str, &str); 12] = [
    ("blocks", "sum(faults.minor)"),
    ("blocks", CPUS),
    ("LAMMPS", CALLS),
    ("LAMMPS", CPUS),
    ("GROMACS", CALLS),
    ("mpi4py", CALLS),
    ("MPICH", CALLS),
    ("NumPy", CPUS),
    ("MKL", CPUS),
    ("OpenMP", REGIONS),
    ("OpenMP", CPUS),
    ("LightGBM", REGIONS),
];

/// Texts of the report; the last one is not a verdict of the guard.
const VERDICTS: [&str; 5] = [
    "confirmed",
    "no effect",
    "worse",
    "inconclusive",
    "could not be judged",
];

struct Subject {
    case: &'static Case,
    objective: &'static str,
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let found = here(CASES.iter(), |case| (case.name, case.needs))?;
    let is_here = |case: &Case| found.iter().any(|(name, _)| name == case.name);
    let mut subjects = Vec::new();
    for (name, objective) in SUBJECTS.into_iter().take(settings.either(1, SUBJECTS.len())) {
        let case = repairs::case(name)?;
        if is_here(case) {
            subjects.push(Subject { case, objective });
        }
    }
    let trials = settings.either(1, TRIALS);
    let texts = all_tried(&subjects, trials)?;
    let mut table = Table::new(["programs", "objective", "trials"].into_iter().chain(VERDICTS));
    let mut totals = [0; VERDICTS.len()];
    for (number, subject) in subjects.iter().enumerate() {
        let of = texts.iter().filter(|(of, _)| *of == number);
        let verdicts: Vec<usize> = of.map(|(_, text)| verdict(text)).collect::<Result<_>>()?;
        let counts = counted(&verdicts);
        totals
            .iter_mut()
            .zip(counts)
            .for_each(|(total, count)| *total += count);
        table.row(row(subject.case.name, subject.objective, counts));
    }
    table.row(row("all", "", totals));
    let (confirmed, all) = (totals[0], totals.iter().sum::<usize>());
    let text =
        format!("{confirmed} of {all} changes that do nothing are confirmed, at most {CONFIRMED_MAX} may be");
    Ok(Outcome {
        sections: vec![Section::new(
            "Changes that do nothing",
            table,
            [
                "Every change is a write of a variable that nobody reads. Windows of 200 ms, `over: 5`, a margin of 5 %.",
                "Several programs run at once, each with an agent of its own.",
            ],
        )],
        claims: vec![Claim::of_times(text, confirmed <= CONFIRMED_MAX)],
        ..Outcome::default()
    })
}

fn row(programs: &str, objective: &str, counts: [usize; VERDICTS.len()]) -> Vec<Cell> {
    let all: usize = counts.iter().sum();
    let mut row = cells![programs, objective, all].to_vec();
    row.extend(counts.map(Cell::from));
    row
}

fn counted(verdicts: &[usize]) -> [usize; VERDICTS.len()] {
    std::array::from_fn(|verdict| verdicts.iter().filter(|of| **of == verdict).count())
}

/// Index in `VERDICTS` of the first verdict in the output.
fn verdict(text: &str) -> Result<usize> {
    let line = text.lines().find(|line| is_verdict(line));
    let line = line.ok_or_else(|| format!("no verdict:\n{text}"))?;
    let found = VERDICTS.iter().position(|verdict| line.contains(verdict));
    if found == Some(0) {
        println!("confirmed: {line}");
    }
    found.ok_or_else(|| format!("no known verdict: {line}"))
}

/// Output of each trial, with the index of its subject.
fn all_tried(subjects: &[Subject], trials: usize) -> Result<Vec<(usize, String)>> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let numbers = (0..subjects.len() * trials).rev().collect::<Vec<usize>>();
    let (left, done) = (Mutex::new(numbers), Mutex::new(Vec::new()));
    let next = || left.lock().ok().and_then(|mut left| left.pop());
    let worker = || -> Result<()> {
        while let Some(number) = next() {
            let place = number % subjects.len();
            let subject = &subjects[place];
            progress(&format!("trial {} of {}", number + 1, subjects.len() * trials));
            let rule = folder.path().join(format!("nothing-{number}.yaml"));
            std::fs::write(&rule, rule_about(subject.objective)).map_err(|error| error.to_string())?;
            let text = tried(subject, &rule.to_string_lossy())
                .map_err(|error| format!("{}: {error}", subject.case.name))?;
            done.lock()
                .map_err(|error| error.to_string())?
                .push((place, text));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            let ended = worker.join();
            ended.map_err(|_| "a trial panicked".to_owned())?
        })
    })?;
    progress("");
    done.into_inner().map_err(|error| error.to_string())
}

fn tried(subject: &Subject, rule: &str) -> tuneagent_e2e::Outcome<String> {
    let crowd = (subject.case.start)(Start::Wrong)?;
    crowd.pace(0.1)?;
    let mut agent = crowd.judged(&["--rules", "none", rule, "--apply"])?;
    agent.signal(Signal::INT)?;
    // The exit code is 1 if a guard has reverted a change.
    agent.wait(PATIENCE)?;
    crowd.finish()?;
    Ok(agent.lines.text())
}

fn rule_about(objective: &str) -> String {
    let probes = match objective {
        REGIONS => "probes:\n  regions: {role: process, entry: openmp.region}\n",
        _ => "",
    };
    format!(
        "rule: nothing\nabout: writes a variable that nobody reads\nroles:\n  process: has(opterr)\n{probes}windows:\n  pulse: {{every: 200ms}}\n\
         metrics:\n  pace: {objective} / pulse.duration\ntune:\n  - set: opterr\n    role: process\n    value: 0\n    \
         range: 0 <= value <= 1\n    when: pulse.duration > 0s\n    for: 3\n    \
         guard: {{maximize: pace, over: 5, undo_if_worse_by: 5%}}\n    finding: opterr is written\n"
    )
}
