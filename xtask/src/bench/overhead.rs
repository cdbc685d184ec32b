//! `cargo xtask bench overhead`: what being watched costs LAMMPS, GROMACS, and a program that does nothing but send one byte to and fro,
//! beside what a preloaded profiler costs them and beside what the agent says that it costs.
//!
//! Two jobs of the same program take turns, whoever has none is stopped: one as it comes, with and without `tuneagent attach` (the profile
//! alone, and all of it: without a budget), and one under a small PMPI library that counts calls and their time. A round goes through the three states,
//! the next one backwards, so that what disturbs the machine disturbs all of them; a ratio is always of two turns of one round. Measures no
//! start: a job is attached to before its turn begins.

use std::time::Duration;

use serde_json::{Value, json};
use tuneagent_e2e::crowd::{Crowd, leave};
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::{self, Need};
use tuneagent_e2e::{Outcome, gromacs, lammps, programs, repairs};

/// A program of ours waits so long for its other ranks at most.
const SOON: Duration = Duration::from_secs(60);

use super::options::Options;
use crate::Result;
use crate::experiment::{stats, table::Table};

/// Steps that nobody reaches: the job is ended when it is not needed any more.
const ENDLESS: u64 = 100_000_000;

/// A real program that is measured.
struct Subject {
    name: &'static str,
    needs: &'static [Need],
    /// With more in its environment, on so many ranks.
    start: fn(&[String], usize) -> Outcome<Crowd>,
}

const SUBJECTS: [Subject; 3] = [
    Subject {
        name: "LAMMPS, LJ, 32 000 atoms",
        needs: &[Need::Root, Need::OpenMpi, Need::Lammps],
        start: |environment, ranks| {
            let job = lammps::start_large(environment, Waiting::Yielding, ranks, ENDLESS)?;
            Ok(Crowd::of_others(job, repairs::LAMMPS))
        },
    },
    Subject {
        name: "GROMACS water",
        needs: &[Need::Root, Need::OpenMpi, Need::Gromacs],
        start: |environment, ranks| {
            let job = gromacs::start_under(environment, Waiting::Yielding, ranks)?;
            Ok(Crowd::of_others(job, repairs::GROMACS))
        },
    },
    Subject {
        // Two ranks, however many are asked for: it is what calls can be made that matters.
        name: "1 byte to and fro",
        needs: &[Need::Root, Need::OpenMpi],
        start: |environment, _| {
            let program = programs::mpi("bounce", Mpi::OpenMpi)?;
            let how = (Mpi::OpenMpi, Waiting::Spinning);
            let job = Job::mpi_under(environment, how, 2, &program, |folder| {
                vec![folder.to_string_lossy().into_owned()]
            })?;
            job.events("ready", 2, SOON)?;
            job.open("go")?;
            Ok(Crowd::of(job))
        },
    },
];

/// How it is measured.
struct Settings {
    rounds: usize,
    seconds: f64,
    ranks: usize,
}

/// What a job is like in a turn.
#[derive(Clone, Copy)]
enum State {
    Alone,
    Watched,
    Preloaded,
}

/// The paces of one round, in steps a second.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    alone: f64,
    watched: f64,
    preloaded: f64,
}

pub(super) fn main(words: &[&str]) -> Result<()> {
    let settings = understood(words)?;
    super::as_root("the overhead")?;
    super::release()?;
    let mut table = Table::new([
        "program",
        "alone, steps/s",
        "attached / alone",
        "bound, 95 %",
        "preloaded / alone",
        "MPI calls/s a rank",
        "told",
    ]);
    let mut figures = Vec::new();
    for subject in &SUBJECTS {
        if needs::lacks(subject.name, subject.needs).map_err(|problem| problem.to_string())? {
            continue;
        }
        let (rounds, said) =
            measured(subject, &settings).map_err(|problem| format!("{}: {problem}", subject.name))?;
        figures.push(told(subject.name, &rounds, said, &mut table)?);
    }
    println!(
        "\n{} rounds of turns of {} s, {} ranks; a ratio is the time of a step beside its time alone, its median and its range;\n\
         told is what the agent says that its probes cost, as share of the program's CPU time while it is watched\n\n{table}",
        settings.rounds, settings.seconds, settings.ranks
    );
    let file = super::keep("overhead", &Value::Array(figures))?;
    println!("all figures: {}", file.display());
    Ok(())
}

fn understood(words: &[&str]) -> Result<Settings> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from).max(2) as f64;
    let options = Options::parse("overhead", words, &["--rounds", "--seconds", "--ranks"])?;
    Ok(Settings {
        rounds: options.number("--rounds", (2.0, 12.0)) as usize,
        seconds: options.number("--seconds", (2.0, 8.0)),
        ranks: options.number("--ranks", (cores, cores)) as usize,
    })
}

/// What the agent says of a turn.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// MPI calls of a rank in a second.
    calls_per_s: f64,
    /// What its probes cost, as share of the job's CPU time.
    cost: f64,
}

/// The rounds, and what the agent said, the median.
fn measured(subject: &Subject, settings: &Settings) -> Outcome<(Vec<Round>, Said)> {
    let library = programs::mpi_library("preload", Mpi::OpenMpi, 1)?;
    let plain = (subject.start)(&[], settings.ranks)?;
    // It had its first steps before the other one starts.
    plain.pace(0.1)?;
    plain.pause()?;
    let under = (subject.start)(&[format!("LD_PRELOAD={}", library.display())], settings.ranks)?;
    under.pace(0.1)?;
    under.pause()?;
    let (mut rounds, mut said) = (Vec::new(), Vec::new());
    for number in 0..settings.rounds {
        let mut order = [State::Alone, State::Watched, State::Preloaded];
        if number % 2 == 1 {
            order.reverse();
        }
        let mut round = Round::default();
        for state in order {
            let (crowd, pace) = match state {
                State::Alone => (&plain, &mut round.alone),
                State::Watched => (&plain, &mut round.watched),
                State::Preloaded => (&under, &mut round.preloaded),
            };
            crowd.resume()?;
            *pace = match state {
                State::Watched => {
                    let (pace, of_agent) = watched(crowd, settings)?;
                    said.push(of_agent);
                    pace
                }
                State::Alone | State::Preloaded => crowd.pace(settings.seconds)?,
            };
            crowd.pause()?;
        }
        println!(
            "{} {}: alone {:.1}, attached {:.1}, preloaded {:.1} steps/s",
            subject.name, number, round.alone, round.watched, round.preloaded
        );
        rounds.push(round);
    }
    let median = |of: fn(&Said) -> f64| {
        let values: Vec<f64> = said.iter().map(of).collect();
        stats::quantile(&values, 0.5).unwrap_or_default()
    };
    let said = Said {
        calls_per_s: median(|said| said.calls_per_s),
        cost: median(|said| said.cost),
    };
    Ok((rounds, said))
}

/// The pace while it is watched, and what is said of it.
fn watched(crowd: &Crowd, settings: &Settings) -> Outcome<(f64, Said)> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let report_name = report.to_string_lossy().into_owned();
    let agent = crowd.attach(&["--rules", "none", "--budget", "none", "--json", &report_name])?;
    agent.armed()?;
    let pace = crowd.pace(settings.seconds)?;
    leave(agent)?;
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&report)?)?;
    let processes = report["processes"]
        .as_array()
        .ok_or("the report has no processes")?;
    let functions = processes
        .iter()
        .flat_map(|process| process["functions"].as_array().into_iter().flatten());
    let calls: f64 = functions.filter_map(|function| function["calls"].as_f64()).sum();
    let elapsed = report["elapsed_s"].as_f64().ok_or("the report has no time")?;
    let said = Said {
        calls_per_s: calls / elapsed / processes.len() as f64,
        cost: report["cost"]["probes_share"]
            .as_f64()
            .ok_or("the report does not tell its cost")?,
    };
    Ok((pace, said))
}

/// A line of the table, and all figures.
fn told(name: &str, rounds: &[Round], said: Said, table: &mut Table) -> Result<Value> {
    let of = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
    let attached = of(|round| round.alone / round.watched);
    let preloaded = of(|round| round.alone / round.preloaded);
    let spread = |values: &[f64]| stats::Spread::of(values).ok_or(format!("{name} was never run"));
    let ratio = |values: &[f64]| -> Result<String> {
        let spread = spread(values)?;
        Ok(format!(
            "{:.4} ({:.4} to {:.4})",
            spread.median, spread.least, spread.greatest
        ))
    };
    let bound = stats::median_below(&attached);
    table.row([
        name.to_owned(),
        spread(&of(|round| round.alone))?.to_string(),
        ratio(&attached)?,
        bound.map_or_else(|| "too few rounds".to_owned(), |bound| format!("{bound:.4}")),
        ratio(&preloaded)?,
        stats::figure(said.calls_per_s),
        format!("{:.2} %", 100.0 * said.cost),
    ]);
    Ok(json!({
        "program": name,
        "steps_per_s_alone": of(|round| round.alone),
        "time_attached_over_alone": attached,
        "time_preloaded_over_alone": preloaded,
        "median_attached_below": bound,
        "mpi_calls_per_s_and_rank": said.calls_per_s,
        "told_cost_share": said.cost,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_longer_when_it_is_watched_has_a_ratio_above_one() {
        let round = Round {
            alone: 100.0,
            watched: 80.0,
            preloaded: 100.0,
        };
        let mut table = Table::new(["program"]);
        let figures = told("p", &[round], Said::default(), &mut table).unwrap();
        assert_eq!(figures["time_attached_over_alone"], json!([1.25]));
        assert_eq!(figures["time_preloaded_over_alone"], json!([1.0]));
        assert!(table.to_string().contains("too few rounds"));
    }
}
