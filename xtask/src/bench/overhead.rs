//! `cargo xtask bench overhead`: measures how much watching slows down LAMMPS, GROMACS, and programs that do
//! little but exchange a few bytes or reduce over all ranks. Compares this with a preloaded profiler and with
//! the cost that the agent itself reports.
//!
//! One job is watched by one session of `tuneagent attach` after another, and alone before and after each. The
//! sessions are in turns of two kinds: profile only without a budget, and what a user gets without a flag. A pair
//! is the pace in a session beside the mean of the paces before and after it, so that differences between two jobs
//! (memory, placement) do not count, and slow changes of the machine affect both sides. A second job runs under a small PMPI library that counts calls and their time, in turns
//! with the first one. Start-up is not measured.

use std::time::Duration;

use serde_json::{Value, json};
use tuneagent_e2e::crowd::{Crowd, leave};
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::{self, Need};
use tuneagent_e2e::{Outcome, each, gromacs, lammps, programs, repairs};

use crate::Result;
use crate::measure::stats::{self, Spread};
use crate::measure::table::{Table, cells};
use crate::measure::{self, Claim, Section, Settings};

/// Maximum time for a rank of our own programs to wait for the others.
const SOON: Duration = Duration::from_secs(60);

/// More steps than any measurement needs; the job is ended afterwards.
const ENDLESS: u64 = 100_000_000;

/// Target P6 for the time of a step, watched / alone, and the bound for failure.
const SLOWDOWN: (f64, f64) = (1.01, 2.0);

/// A program that is measured.
struct Subject {
    name: &'static str,
    /// Target P6 applies to this program.
    is_real: bool,
    needs: &'static [Need],
    /// Starts the program with more environment variables, on this number of ranks.
    start: fn(&[String], usize) -> Outcome<Crowd>,
}

const SUBJECTS: [Subject; 5] = [
    Subject {
        name: "LAMMPS, LJ, 32 000 atoms",
        is_real: true,
        needs: &[Need::Root, Need::OpenMpi, Need::Lammps],
        start: |environment, ranks| {
            let job = lammps::start_large(environment, Waiting::Yielding, ranks, ENDLESS)?;
            Ok(Crowd::of_others(job, repairs::LAMMPS))
        },
    },
    Subject {
        name: "GROMACS, water, 17 000 atoms",
        is_real: true,
        needs: &[Need::Root, Need::OpenMpi, Need::Gromacs],
        start: |environment, ranks| {
            let job = gromacs::start_large(environment, Waiting::Yielding, ranks)?;
            Ok(Crowd::of_others(job, repairs::GROMACS))
        },
    },
    Subject {
        // Always two ranks: the subject is the rate of calls.
        name: "1 byte to and fro",
        is_real: false,
        needs: &[Need::Root, Need::OpenMpi],
        start: |environment, _| bounce(environment, 1),
    },
    Subject {
        name: "8 bytes to and fro",
        is_real: false,
        needs: &[Need::Root, Need::OpenMpi],
        start: |environment, _| bounce(environment, 8),
    },
    Subject {
        name: "allreduce of 16 bytes",
        is_real: false,
        needs: &[Need::Root, Need::OpenMpi],
        start: |environment, ranks| {
            let program = programs::mpi("allreduce", Mpi::OpenMpi)?;
            let how = (Mpi::OpenMpi, Waiting::Spinning);
            let job = Job::mpi_under(environment, how, ranks, &program, |folder| {
                vec![folder.to_string_lossy().into_owned()]
            })?;
            Ok(Crowd::of(job))
        },
    },
];

/// Starts two ranks that exchange messages of `bytes` bytes.
fn bounce(environment: &[String], bytes: usize) -> Outcome<Crowd> {
    let program = programs::mpi("bounce", Mpi::OpenMpi)?;
    let how = (Mpi::OpenMpi, Waiting::Spinning);
    let job = Job::mpi_under(environment, how, 2, &program, |folder| {
        vec![folder.to_string_lossy().into_owned(), bytes.to_string()]
    })?;
    job.events("ready", 2, SOON)?;
    job.open("go")?;
    Ok(Crowd::of(job))
}

/// Settings of the measurement.
struct Turns {
    /// Sessions that watch the job.
    pairs: usize,
    /// Length of what is measured of each session, and between them.
    seconds: f64,
    ranks: usize,
}

/// Results of one subject.
#[derive(Clone, Debug, Default)]
struct Measured {
    /// Steps per second without a profiler, for each round under the preloaded one.
    alone: Vec<f64>,
    /// Time of a step, watched / alone.
    attached: Vec<f64>,
    /// The same for a session with all rules and a budget.
    with_rules: Vec<f64>,
    preloaded: Vec<f64>,
    /// MPI calls per second of one rank.
    calls_per_s: Vec<f64>,
    /// Slowdown that the agent reports of the measured time, as a share of the program's time.
    reported: Vec<f64>,
}

pub(super) fn run(settings: &Settings) -> Result<measure::Outcome> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from).max(2) as f64;
    let turns = Turns {
        pairs: settings.number("--pairs", 4.0, 24.0) as usize,
        seconds: settings.number("--seconds", 1.0, 3.0),
        ranks: settings.number("--ranks", cores, cores) as usize,
    };
    let mut table = Table::new([
        "program",
        "alone, steps/s",
        "attached / alone",
        "median between (95 %)",
        "with rules / alone",
        "preloaded / alone",
        "MPI calls/s a rank",
        "reported, %",
    ]);
    let (mut figures, mut claims) = (Vec::new(), Vec::new());
    for subject in &SUBJECTS {
        let name = subject.name;
        if needs::lacks(name, subject.needs)? {
            continue;
        }
        let measured = measured(subject, &turns).map_err(|problem| format!("{name}: {problem}"))?;
        let ratios = row(name, &measured, &mut table)?;
        figures.push(measured.figures(name));
        let (target, bound) = SLOWDOWN;
        let kinds = ["attached", "attached with rules"];
        for (kind, ratio) in kinds.iter().zip(ratios) {
            let claim = || Claim::at_most(&format!("P6, {name}: {kind} / alone"), ratio, target, bound);
            claims.extend(subject.is_real.then(claim));
        }
    }
    let Turns {
        pairs,
        seconds,
        ranks,
    } = turns;
    let note = format!(
        "{pairs} sessions of each kind, {seconds} s measured of each and between them, {ranks} ranks; a ratio is the time of a step beside its time alone, \
         its median and where half of the pairs lie; reported is what the agent says that watching cost in this time, as share of the program's time."
    );
    Ok(measure::Outcome {
        sections: vec![Section::new("The time of a step", table, [note])],
        claims,
        figures: Some(Value::Array(figures)),
    })
}

fn measured(subject: &Subject, turns: &Turns) -> Outcome<Measured> {
    let library = programs::mpi_library("preload", Mpi::OpenMpi, 1)?;
    let started = |environment: &[String]| -> Outcome<Crowd> {
        let crowd = (subject.start)(environment, turns.ranks)?;
        // The job has completed its first steps before the next one starts.
        crowd.pace(0.1)?;
        crowd.pause()?;
        Ok(crowd)
    };
    let (one, under) = (
        started(&[])?,
        started(&[format!("LD_PRELOAD={}", library.display())])?,
    );
    let mut measured = Measured::default();
    one.resume()?;
    let mut before = one.pace(turns.seconds)?;
    for _ in 0..turns.pairs {
        for has_rules in [false, true] {
            let (pace, report) = watched(&one, turns.seconds, has_rules)?;
            let after = one.pace(turns.seconds)?;
            let ratio = (before + after) / 2.0 / pace;
            before = after;
            if has_rules {
                measured.with_rules.push(ratio);
            } else {
                measured.attached.push(ratio);
                measured.add_report(&report)?;
            }
        }
    }
    for _ in 0..turns.pairs.div_ceil(4) {
        let (ours, alone) = under.paces_beside(&one, turns.seconds)?;
        measured.preloaded.push(alone / ours);
        measured.alone.push(alone);
        one.pause()?;
    }
    println!(
        "{}: attached / alone {:.3?}, with rules {:.3?}, preloaded / alone {:.3?}; reported {:.4?} of the time",
        subject.name, measured.attached, measured.with_rules, measured.preloaded, measured.reported
    );
    Ok(measured)
}

/// Pace of a job in a session, once it has settled, and the report of the session.
fn watched(job: &Crowd, seconds: f64, has_rules: bool) -> Outcome<(f64, Value)> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let name = report.to_string_lossy();
    let words = ["--json", &name, "--rules", "none", "--budget", "none"];
    let agent = job.attach(&words[..if has_rules { 2 } else { words.len() }])?;
    agent.armed()?;
    job.pace(1.0)?;
    let pace = job.pace(seconds)?;
    leave(agent)?;
    Ok((pace, serde_json::from_str(&std::fs::read_to_string(&report)?)?))
}

impl Measured {
    /// Adds the figures of a session's report.
    fn add_report(&mut self, report: &Value) -> Outcome<()> {
        let processes = report["processes"]
            .as_array()
            .ok_or("the report has no processes")?;
        let functions = processes.iter().flat_map(|process| each(&process["functions"]));
        let calls: f64 = functions.filter_map(|function| function["calls"].as_f64()).sum();
        let cost = &report["cost"];
        let figures = cost["recent"]["slowdown"]
            .as_f64()
            .zip(cost["job_cpu_time_s"].as_f64());
        let (slowdown, cpu_s) = figures.ok_or("the report does not have its cost")?;
        self.reported.push(slowdown);
        // Each rank has a CPU of its own.
        self.calls_per_s.push(calls / cpu_s);
        Ok(())
    }

    fn figures(&self, program: &str) -> Value {
        let between = stats::median_between(&self.attached);
        json!({
            "program": program,
            "steps_per_s_alone": self.alone,
            "time_attached_over_alone": self.attached,
            "time_attached_with_rules_over_alone": self.with_rules,
            "time_preloaded_over_alone": self.preloaded,
            "median_attached_between": between.map(|(low, high)| [low, high]),
            "mpi_calls_per_cpu_s": stats::quantile(&self.calls_per_s, 0.5),
            "reported_cost_share": stats::quantile(&self.reported, 0.5),
        })
    }
}

/// A row of the table. Returns the medians of attached / alone, without and with rules.
fn row(name: &str, measured: &Measured, table: &mut Table) -> Result<[f64; 2]> {
    let at =
        |values: &[f64], share| stats::quantile(values, share).ok_or_else(|| format!("{name} was never run"));
    let ratio = |values: &[f64]| -> Result<String> {
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| at(values, share));
        Ok(format!("{:.4} ({:.4} to {:.4})", median?, low?, high?))
    };
    let between = stats::median_between(&measured.attached).map_or_else(
        || "too few pairs".to_owned(),
        |(low, high)| format!("{low:.4} to {high:.4}"),
    );
    table.row(cells![
        name,
        Spread::of(&measured.alone),
        ratio(&measured.attached)?,
        between,
        ratio(&measured.with_rules)?,
        ratio(&measured.preloaded)?,
        at(&measured.calls_per_s, 0.5)?,
        100.0 * at(&measured.reported, 0.5)?,
    ]);
    Ok([at(&measured.attached, 0.5)?, at(&measured.with_rules, 0.5)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_longer_when_it_is_watched_has_a_ratio_above_one() {
        let measured = Measured {
            alone: vec![100.0],
            attached: vec![1.25],
            with_rules: vec![1.5],
            preloaded: vec![1.0],
            calls_per_s: vec![10.0],
            reported: vec![0.01],
        };
        let mut table = Table::new(["program"]);
        assert_eq!(row("p", &measured, &mut table), Ok([1.25, 1.5]));
        assert_eq!(measured.figures("p")["time_attached_over_alone"], json!([1.25]));
        assert!(table.to_string().contains("1.2500 (1.2500 to 1.2500)"));
        assert!(table.to_string().contains("too few pairs"));
    }
}
