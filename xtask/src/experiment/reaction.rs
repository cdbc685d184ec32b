//! Measures how soon a change follows the iteration that caused it: MATE thesis (2007), section 3.1.3, Table
//! 3.1, on `nbody`.
//!
//! In every iteration a rule evaluates the model of the number of workers and writes a number without effect.
//! For each change, the agent reports the times for gathering, evaluation, order and write, counted from the
//! timestamp of the hit at the iteration's end. The program reports the number that it finds at the top of
//! each iteration, and the duration of each iteration by its own clock.

use serde_json::Value;
use tuneagent_e2e::programs;

use super::rounds::{Rounds, interleaved};
use super::scenario::{self, Run, Scenario, With, argument};
use crate::Result;
use crate::measure::stats::{figure, quantile};
use crate::measure::table::{Cell, Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

const RULE: &str = include_str!("../../../tests/programs/reaction.yaml");

/// Work of each worker in an iteration. Every send takes another 0.5 ms.
const WORK_US: usize = 25_000;

/// Part of the reaction in our report, its name in the thesis, and its milliseconds there: central analyser /
/// with collectors.
const PARTS: [(&str, &str, &str); 6] = [
    ("window_ns", "T_Iter", "2199.1 / 680.1"),
    ("update_ns", "T_Upd", "19.7286 / 0.2535"),
    ("evaluate_ns", "T_Eval", "3.27 / 2.6"),
    ("order_ns", "T_Tun", "0.2187 / 0.2212"),
    ("write_ns", "write", "1.1858"),
    ("lag_ns", "all but T_Iter", "24.40 / 4.26"),
];

const THEIRS: &str = "us. MATE: a central analyser / one with collectors, 25 workers, means; its iteration took 672.5 ms. Its write is the \
                     mean of SetVariableValue.";

const ALONE: &str = "alone";
const WATCHED: &str = "watched";
const WRITING: &str = "writing";
/// As `WRITING`, with idle CPUs kept from sleeping.
const AWAKE: &str = "awake";
/// As `AWAKE`, with a CPU for the agent alone.
const APART: &str = "apart";
/// Fields of the program about an iteration: its duration up to its end, and up to the point where the
/// program continues after the last probe.
const AT_ITS_END: &str = "until_end";
const GOING_ON: &str = "seconds";
/// Maximum number of workers with `APART`, where the program has one CPU less.
const APART_WORKERS_MAX: usize = 8;

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let program = programs::master_worker("nbody", settings.mpi)?;
    settings.write("reaction.yaml", RULE)?;
    let rule = settings.out.join("reaction.yaml").to_string_lossy().into_owned();
    let workers: &[usize] = settings.either(&[1, 4], &[1, 2, 4, 8, 16, 25]);
    let last = scenario::last_cpu()
        .map_err(|error| error.to_string())?
        .to_string();
    let ways: [(&str, Option<&[&str]>); 5] = [
        (ALONE, None),
        (WATCHED, Some(&[])),
        (WRITING, Some(&["--apply"])),
        (AWAKE, Some(&["--apply", "--keep-awake"])),
        (
            APART,
            Some(&["--apply", "--keep-awake", "--busy-poll", "--agent-cpus", &last]),
        ),
    ];
    let mut scenarios = Vec::new();
    for count in workers {
        for (how, flags) in ways {
            if how == APART && *count > APART_WORKERS_MAX {
                continue;
            }
            let arguments = vec![
                argument("iterations", settings.either(30, 100)),
                argument("work_us", WORK_US * count),
                argument("workers", count),
            ];
            let with = flags.map_or(With::NoRule, |flags| With::rule(&rule, &[], flags));
            let scenario = Scenario {
                is_apart: how == APART,
                ..Scenario::new(settings, &program, count + 1, arguments, with)
            };
            scenarios.push((name(*count, how), scenario));
        }
    }
    let rounds = interleaved(&scenarios, settings.repeats, Scenario::run)?;
    let measured = Measured { workers, rounds };
    let costs = measured.by_workers()?;
    let section = |how, title| Section::new(title, measured.parts(how), [THEIRS]);
    Ok(Outcome {
        sections: vec![
            section(WRITING, "From the end of an iteration to the write"),
            section(AWAKE, "The same while CPUs are kept awake (--keep-awake)"),
            section(
                APART,
                "The same with a CPU that the agent has to itself too (--agent-cpus, --busy-poll)",
            ),
            costs,
        ],
        claims: measured.claims(),
        figures: Some(measured.rounds.figures()),
    })
}

fn name(workers: usize, how: &str) -> String {
    format!("{workers} {how}")
}

struct Measured<'a> {
    workers: &'a [usize],
    rounds: Rounds<Run>,
}

impl Measured<'_> {
    /// Numbers of workers that are measured in this way.
    fn workers(&self, how: &str) -> impl Iterator<Item = usize> {
        let most = if how == APART {
            APART_WORKERS_MAX
        } else {
            usize::MAX
        };
        let all = self.workers.iter().copied();
        all.filter(move |count| *count <= most)
    }

    /// The changes with times from the iteration's end to the write, of all runs with this number of workers.
    fn reactions(&self, workers: usize, how: &str) -> Vec<&Value> {
        let runs = self.rounds.of(&name(workers, how)).iter();
        runs.flat_map(reactions).collect()
    }

    /// Microseconds of a part of the reaction, for all changes with this number of workers.
    fn part(&self, (workers, how): (usize, &str), part: &str) -> Vec<f64> {
        let of = |change: &&Value| change["reaction"][part].as_f64().map(|ns| ns / 1e3);
        self.reactions(workers, how).iter().filter_map(of).collect()
    }

    /// One row per number of workers, and one for the thesis.
    fn parts(&self, how: &str) -> Table {
        let heads = PARTS.map(|(part, ..)| [format!("{part}, p50"), format!("{part}, p99")]);
        let mut table = Table::new(std::iter::once("workers".to_owned()).chain(heads.into_iter().flatten()));
        for count in self.workers(how) {
            let at = |part| {
                let values = self.part((count, how), part);
                [0.5, 0.99].map(|share| Cell::from(quantile(&values, share)))
            };
            let cells = PARTS.iter().flat_map(|(part, ..)| at(part));
            table.row(std::iter::once(Cell::from(count)).chain(cells));
        }
        let theirs = PARTS.iter().flat_map(|(_, name, ms)| [*name, *ms]);
        table.row(std::iter::once("thesis, ms").chain(theirs));
        table
    }

    fn by_workers(&self) -> Result<Section> {
        let mut table = Table::new([
            "workers",
            "ms an iteration, alone",
            "watched",
            "writing",
            "writing, awake",
            "changes in time",
            "seen - real, median",
            "p99",
            "seen - until it goes on, median",
        ]);
        for count in self.workers {
            let ms = |how| {
                let mean = |run: &Run| 1e3 * run.seconds() / run.iterations.len().max(1) as f64;
                self.rounds.spread(&name(*count, how), mean)
            };
            let [at_its_end, going_on] = [AT_ITS_END, GOING_ON].map(|up_to| self.errors(*count, up_to));
            let at = |errors: &[f64], share| {
                quantile(errors, share).map_or("none".to_owned(), |of| format!("{of:.4} %"))
            };
            table.row(cells![
                *count,
                ms(ALONE)?,
                ms(WATCHED)?,
                ms(WRITING)?,
                ms(AWAKE)?,
                format!("{:.0} %", 100.0 * self.in_time(*count)),
                at(&at_its_end, 0.5),
                at(&at_its_end, 0.99),
                at(&going_on, 0.5),
            ]);
        }
        Ok(Section::new(
            "What it costs, and what it sees",
            table,
            [
                "In time: the number of an iteration was written before the next one began, which is some microseconds later.",
                "Seen: by the agent, of an iteration that it wrote after. Real: until the program read its clock at the end of it. Until it \
                 goes on: until it read its clock again behind the last probe, when the agent may have had a turn on the same CPU.",
            ],
        ))
    }

    /// Difference in percent between the length of an iteration in the agent's report and by the program's
    /// clock.
    fn errors(&self, workers: usize, up_to: &str) -> Vec<f64> {
        let runs = self.rounds.of(&name(workers, WRITING)).iter();
        runs.flat_map(|run| {
            let seconds = run.each(up_to);
            reactions(run).filter_map(move |change| {
                let real = seconds.get(iteration(change)?)?;
                let seen = change["reaction"]["window_ns"].as_f64()? / 1e9;
                Some(100.0 * (seen - real).abs() / real)
            })
        })
        .collect()
    }

    /// Share of iterations that begin with the number of the previous iteration already written.
    fn in_time(&self, workers: usize) -> f64 {
        let runs = self.rounds.of(&name(workers, WRITING)).iter();
        let each: Vec<bool> = runs
            .flat_map(|run| {
                let numbers = run.each("number").into_iter().zip(run.each("echo"));
                numbers.skip(1).map(|(number, echo)| number == echo)
            })
            .collect();
        each.iter().filter(|in_time| **in_time).count() as f64 / each.len().max(1) as f64
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        let ways = [WRITING, AWAKE, APART].into_iter();
        let all = ways.flat_map(|how| self.workers(how).map(move |count| (count, how)));
        for (count, how) in all {
            let lag = self.part((count, how), "lag_ns");
            let at = |share| quantile(&lag, share).unwrap_or(f64::INFINITY);
            let (half, most) = (at(0.5), at(0.99));
            let with = match how {
                AWAKE => ", CPUs kept awake",
                APART => ", CPUs kept awake, the agent apart",
                _ => "",
            };
            claims.push(Claim::of_times(
                format!(
                    "{count} workers{with}: from the end of an iteration to the write {} us (p50) and {} us (p99); 100 and 1000 are allowed",
                    figure(half),
                    figure(most)
                ),
                half < 100.0 && most < 1000.0,
            ));
            let runs = self.rounds.of(&name(count, how));
            let iterations: usize = runs.iter().map(|run| run.iterations.len()).sum();
            let windows: u64 = runs.iter().map(windows).sum();
            claims.push(Claim::of_logic(
                format!("{count} workers{with}: {windows} windows closed, of {iterations} iterations; one for each"),
                windows == iterations as u64,
            ));
            let followed = self.reactions(count, how).len();
            claims.push(Claim::of_logic(
                format!("{count} workers{with}: each of {followed} writes follows an iteration of its own"),
                followed > 0 && runs.iter().all(each_has_its_own_iteration),
            ));
            // An iteration that ends while the agent has no CPU is over before its predecessor is written.
            claims.push(Claim::of_times(
                format!("{count} workers{with}: {followed} of {iterations} iterations were followed to a write; nine of ten must be"),
                10 * followed >= 9 * iterations,
            ));
        }
        for (up_to, with) in [(AT_ITS_END, ""), (GOING_ON, ", until the program goes on,")] {
            let errors = self.workers.iter().flat_map(|count| self.errors(*count, up_to));
            let errors: Vec<f64> = errors.collect();
            let error = quantile(&errors, 0.5).unwrap_or(f64::INFINITY);
            let text = format!(
                "the iteration seen is {error:.4} % from the real one{with} (median); 0.1 % is allowed, MATE had 1.1 %"
            );
            claims.push(Claim::of_times(text, error < 0.1));
        }
        claims
    }
}

/// Changes of a run with times from the iteration's end to the write.
fn reactions(run: &Run) -> impl Iterator<Item = &Value> {
    let changes = run
        .report
        .iter()
        .filter_map(|report| report["changes"].as_array());
    changes.flatten().filter(|change| change["reaction"].is_object())
}

/// Index of the iteration that caused a change. The written number is the index of the next iteration.
fn iteration(change: &Value) -> Option<usize> {
    let next: usize = change["new"].as_str()?.parse().ok()?;
    next.checked_sub(1)
}

/// Windows of the rule that were closed, whether they were evaluated or left out.
fn windows(run: &Run) -> u64 {
    let rule = run.report.as_ref().map(|report| &report["rules"][0]);
    let left_out = rule.and_then(|rule| rule["windows_left_out"].as_object());
    let left_out = left_out.into_iter().flat_map(|by_reason| by_reason.values());
    let evaluated = rule.map(|rule| &rule["windows"]);
    evaluated
        .into_iter()
        .chain(left_out)
        .filter_map(Value::as_u64)
        .sum()
}

fn each_has_its_own_iteration(run: &Run) -> bool {
    let iterations: Vec<_> = reactions(run).map(iteration).collect();
    iterations.is_sorted_by(|one, next| one < next)
        && iterations
            .iter()
            .all(|index| index.is_some_and(|index| index < run.iterations.len()))
}
