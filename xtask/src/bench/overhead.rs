//! `cargo xtask bench overhead`: what being watched costs LAMMPS and GROMACS, beside what a preloaded profiler costs them.
//!
//! Two jobs of the same program take turns, whoever has none is stopped: one as it comes, with and without `tuneagent attach` (the profile
//! alone), and one under a small PMPI library that counts calls and their time. A round goes through the three states, the next one
//! backwards, so that what disturbs the machine disturbs all of them; a ratio is always of two turns of one round. Measures no
//! start: a job is attached to before its turn begins.

use serde_json::{Value, json};
use tuneagent_e2e::crowd::{Crowd, leave};
use tuneagent_e2e::job::{Mpi, Waiting};
use tuneagent_e2e::needs::{self, Need};
use tuneagent_e2e::{Outcome, gromacs, lammps, programs, repairs};

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

const SUBJECTS: [Subject; 2] = [
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
    ]);
    let mut figures = Vec::new();
    for subject in &SUBJECTS {
        if needs::lacks(subject.name, subject.needs).map_err(|problem| problem.to_string())? {
            continue;
        }
        let (rounds, calls_per_s) =
            measured(subject, &settings).map_err(|problem| format!("{}: {problem}", subject.name))?;
        figures.push(told(subject.name, &rounds, calls_per_s, &mut table)?);
    }
    println!(
        "\n{} rounds of turns of {} s, {} ranks; a ratio is the time of a step beside its time alone, its median and its range\n\n{table}",
        settings.rounds, settings.seconds, settings.ranks
    );
    let file = super::keep("overhead", &Value::Array(figures))?;
    println!("all figures: {}", file.display());
    Ok(())
}

fn understood(words: &[&str]) -> Result<Settings> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let mut settings = Settings {
        rounds: 12,
        seconds: 8.0,
        ranks: cores.max(2),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<f64> {
            let given = words.next().and_then(|value| value.parse().ok());
            given
                .filter(|value| *value > 0.0)
                .ok_or(format!("{word} wants a number above 0"))
        };
        match *word {
            "--quick" => (settings.rounds, settings.seconds) = (2, 2.0),
            "--rounds" => settings.rounds = number()? as usize,
            "--seconds" => settings.seconds = number()?,
            "--ranks" => settings.ranks = number()? as usize,
            other => {
                return Err(format!(
                    "bench overhead does not know {other}; it knows --quick, --rounds N, --seconds N, --ranks N"
                ));
            }
        }
    }
    Ok(settings)
}

/// The rounds, and how many MPI calls a rank made in a second while it was watched.
fn measured(subject: &Subject, settings: &Settings) -> Outcome<(Vec<Round>, f64)> {
    let library = programs::mpi_library("preload", Mpi::OpenMpi, 1)?;
    let plain = (subject.start)(&[], settings.ranks)?;
    // It had its first steps before the other one starts.
    plain.pace(0.1)?;
    plain.pause()?;
    let under = (subject.start)(&[format!("LD_PRELOAD={}", library.display())], settings.ranks)?;
    under.pace(0.1)?;
    under.pause()?;
    let (mut rounds, mut calls) = (Vec::new(), Vec::new());
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
                    let (pace, per_s) = watched(crowd, settings)?;
                    calls.push(per_s);
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
    Ok((rounds, stats::quantile(&calls, 0.5).unwrap_or_default()))
}

/// The pace while it is watched, and the MPI calls of a rank in a second.
fn watched(crowd: &Crowd, settings: &Settings) -> Outcome<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let report_name = report.to_string_lossy().into_owned();
    let agent = crowd.attach(&["--rules", "none", "--json", &report_name])?;
    agent.armed()?;
    let pace = crowd.pace(settings.seconds)?;
    leave(agent)?;
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&report)?)?;
    let functions = report["processes"].as_array().into_iter().flatten();
    let functions = functions.flat_map(|process| process["functions"].as_array().into_iter().flatten());
    let calls: f64 = functions.filter_map(|function| function["calls"].as_f64()).sum();
    let elapsed = report["elapsed_s"].as_f64().ok_or("the report has no time")?;
    Ok((pace, calls / elapsed / settings.ranks as f64))
}

/// A line of the table, and all figures.
fn told(name: &str, rounds: &[Round], calls_per_s: f64, table: &mut Table) -> Result<Value> {
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
        stats::figure(calls_per_s),
    ]);
    Ok(json!({
        "program": name,
        "steps_per_s_alone": of(|round| round.alone),
        "time_attached_over_alone": attached,
        "time_preloaded_over_alone": preloaded,
        "median_attached_below": bound,
        "mpi_calls_per_s_and_rank": calls_per_s,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mistyped_is_told_with_what_there_is() {
        let told = |words: &[&str]| understood(words).map(|_| ()).unwrap_err();
        assert!(told(&["--round", "2"]).contains("it knows --quick, --rounds N"));
        assert!(told(&["--rounds", "0"]).contains("a number above 0"));
        assert_eq!(understood(&["--quick", "--ranks", "3"]).unwrap().ranks, 3);
    }

    #[test]
    fn a_program_that_takes_longer_when_it_is_watched_has_a_ratio_above_one() {
        let round = Round {
            alone: 100.0,
            watched: 80.0,
            preloaded: 100.0,
        };
        let mut table = Table::new(["program"]);
        let figures = told("p", &[round], 5.0, &mut table).unwrap();
        assert_eq!(figures["time_attached_over_alone"], json!([1.25]));
        assert_eq!(figures["time_preloaded_over_alone"], json!([1.0]));
        assert!(table.to_string().contains("too few rounds"));
    }
}
