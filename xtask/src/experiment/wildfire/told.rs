//! What was measured, as tables, claims and pictures. Measures nothing.

use super::{BEST, HALF, MOST, Measured, ORACLE, ORIGINAL, THESIS, TUNED, WATCHED};
use crate::experiment::chart::{Line, Panel};
use crate::experiment::fire::seen;
use crate::experiment::rounds::Rounds;
use crate::experiment::scenario::Run;
use crate::experiment::stats::{Spread, less, median_below};
use crate::experiment::table::Table;
use crate::experiment::{Claim, Section};

impl Measured {
    fn of(&self, workers: usize, name: &str) -> Option<Spread> {
        let (_, rounds) = self.rounds.iter().find(|(of, _)| *of == workers)?;
        rounds.spread(name, Run::seconds).ok()
    }

    /// With all workers every scenario was run.
    fn all(&self, name: &str) -> Spread {
        self.of(MOST, name).unwrap_or(Spread::exactly(f64::NAN))
    }

    /// An agent that gets no CPU before a run is over does nothing.
    pub(super) fn wrote(&self) -> Claim {
        let moved = |run: &&Run| run.each("f0").iter().any(|factor| (factor - 0.5).abs() > 1e-3);
        let (all, moved) = (self.runs(TUNED).count(), self.runs(TUNED).filter(moved).count());
        let text = format!("the rule wrote its factors in {moved} of {all} tuned runs");
        Claim::of_times(text, moved == all)
    }

    pub(super) fn scenarios(&self, title: &str) -> Section {
        let mut table = Table::new([
            "",
            "s, median (least to greatest)",
            "to the original",
            "to the best fixed factor",
        ]);
        let (original, best) = (self.all(ORIGINAL).median, self.all(BEST).median);
        for name in [ORIGINAL, HALF, BEST, WATCHED, TUNED, ORACLE] {
            let spread = self.all(name);
            let told = if name == BEST {
                format!("{name}, {}", self.best)
            } else {
                name.to_owned()
            };
            let against = |of: f64| format!("{:+.1} %", 0.0 - less(spread.median, of));
            table.row([told, spread.to_string(), against(original), against(best)]);
        }
        let gain = |now: &str, before: &str| less(self.all(now).median, self.all(before).median);
        Section {
            title: title.to_owned(),
            table,
            notes: vec![
                format!(
                    "Factoring itself, with 0.5, saves {:.1} % of the original's time. Adapting its factors saves {:.1} % of the time \
                     with 0.5, and {:.1} % of that with the best fixed factor; who knew the best of each iteration beforehand would \
                     save {:.1} % of it.",
                    gain(HALF, ORIGINAL),
                    gain(TUNED, HALF),
                    gain(TUNED, BEST),
                    gain(ORACLE, BEST),
                ),
                format!(
                    "The first factor was {} in the tuned runs, in the median.{}",
                    self.settled(),
                    self.seen()
                ),
            ],
        }
    }

    /// What the agent saw and did in the last tuned run.
    fn seen(&self) -> String {
        let last = self.rounds.last().and_then(|(_, rounds)| rounds.of(TUNED).last());
        let told = last.and_then(seen);
        told.map_or(String::new(), |told| format!(" In the last of them {told}."))
    }

    /// The first factor behind the first iteration.
    fn settled(&self) -> Spread {
        let all = |run: &Run| run.each("f0").into_iter().skip(1);
        let rounds = self.rounds.last();
        let late: Vec<f64> = rounds
            .iter()
            .flat_map(|(_, rounds)| rounds.of(TUNED))
            .flat_map(all)
            .collect();
        Spread::of(&late).unwrap_or(Spread::exactly(f64::NAN))
    }

    pub(super) fn by_workers(&self, title: &str) -> Section {
        let mut table = Table::new([
            "workers",
            "original, s",
            "factor 0.5, s",
            "watched, s",
            "tuned, s",
            "tuned to original",
            "thesis: original, s",
            "tuned, s",
            "tuned to original",
        ]);
        let (before, after) = if self.heavy { (3, 4) } else { (0, 2) };
        for (workers, theirs) in THESIS {
            // Of seven workers there are more iterations: the other numbers of them are compared with each other.
            let told = |name: &str| {
                self.of(workers, name)
                    .map_or("-".to_owned(), |spread| spread.to_string())
            };
            let gain = |now: f64, before: f64| format!("{:+.1} %", 0.0 - less(now, before));
            let (Some(original), Some(tuned)) = (self.of(workers, ORIGINAL), self.of(workers, TUNED)) else {
                continue;
            };
            table.row([
                workers.to_string(),
                told(ORIGINAL),
                told(HALF),
                told(WATCHED),
                told(TUNED),
                gain(tuned.median, original.median),
                theirs[before].to_string(),
                theirs[after].to_string(),
                gain(theirs[after], theirs[before]),
            ]);
        }
        let note = "Two to six workers do 6 iterations, seven do 12. The thesis's times are whole runs of its own, and its tuned ones \
                    hold what its monitoring cost.";
        Section {
            title: title.to_owned(),
            table,
            notes: vec![note.to_owned()],
        }
    }

    pub(super) fn gains(&self) -> Vec<Claim> {
        let (original, best, tuned) = (self.all(ORIGINAL), self.all(BEST), self.all(TUNED));
        let gain = less(tuned.median, original.median);
        let loss = 0.0 - less(tuned.median, best.median);
        vec![
            Claim::of_times(
                format!(
                    "under imbalance with 7 workers tuned is {gain:.1} % faster than the original; 12 % are wanted, the thesis has 12.6 %"
                ),
                gain >= 12.0,
            ),
            Claim::of_times(
                format!(
                    "there it takes {loss:+.1} % of the best fixed factor, {}; 5 % are allowed",
                    self.best
                ),
                loss <= 5.0,
            ),
        ]
    }

    pub(super) fn panel(&self, title: &str) -> Panel {
        // An iteration, for runs of seven workers have more of them.
        let of = |name: &'static str| {
            let at = move |(workers, rounds): &(usize, Rounds<Run>)| {
                let spread = rounds
                    .spread(name, |run| run.seconds() / run.iterations.len() as f64)
                    .ok()?;
                Some((*workers as f64, spread))
            };
            self.rounds.iter().filter_map(at).collect()
        };
        Panel {
            title: title.to_owned(),
            across: "workers".to_owned(),
            up: "s an iteration".to_owned(),
            lines: [ORIGINAL, HALF, TUNED]
                .map(|name| Line {
                    name: name.to_owned(),
                    points: of(name),
                })
                .to_vec(),
            levels: Vec::new(),
        }
    }

    pub(super) fn by_factor(&self) -> Panel {
        let points = self
            .sweep
            .iter()
            .map(|(factor, run)| (*factor, Spread::exactly(run.seconds())));
        Panel {
            title: "7 workers, 30 % twice as long".to_owned(),
            across: "fixed factor".to_owned(),
            up: "s".to_owned(),
            lines: vec![Line {
                name: "fixed, one run each".to_owned(),
                points: points.collect(),
            }],
            levels: [ORIGINAL, TUNED, ORACLE]
                .map(|name| (name.to_owned(), self.all(name).median))
                .to_vec(),
        }
    }

    /// The factors of the last tuned run.
    pub(super) fn course(&self) -> Panel {
        let run = self.rounds.last().and_then(|(_, rounds)| rounds.of(TUNED).last());
        let line = |name: &str| {
            let values = run.map(|run| run.each(name)).unwrap_or_default();
            let points = values.into_iter().enumerate();
            Line {
                name: name.to_uppercase(),
                points: points
                    .map(|(number, value)| (number as f64, Spread::exactly(value)))
                    .collect(),
            }
        };
        Panel {
            title: "a tuned run, 30 % twice as long".to_owned(),
            across: "iteration".to_owned(),
            up: "factor".to_owned(),
            lines: ["f0", "f1", "f2"].map(line).to_vec(),
            levels: Vec::new(),
        }
    }
}

/// What it costs to be watched, from pairs of runs of one round.
pub(super) fn watching(all: &[&Measured]) -> Option<Claim> {
    let pairs = |rounds: &Rounds<Run>| -> Vec<f64> {
        let (watched, alone) = (rounds.of(WATCHED).iter(), rounds.of(HALF).iter());
        watched
            .zip(alone)
            .map(|(watched, alone)| watched.seconds() / alone.seconds())
            .collect()
    };
    let last = all.iter().filter_map(|measured| measured.rounds.last());
    let ratios: Vec<f64> = last.flat_map(|(_, rounds)| pairs(rounds)).collect();
    let median = Spread::of(&ratios)?.median;
    let bound = median_below(&ratios);
    let told = bound.map_or("too few pairs for a bound".to_owned(), |bound| {
        format!("with a probability of 95 % below {:.2} %", 100.0 * bound - 100.0)
    });
    Some(Claim::of_times(
        format!(
            "to be watched costs {:.2} % with 7 workers in the median of {} pairs of runs, {told}; below 1 % is wanted, the thesis has 15.4 %",
            100.0 * median - 100.0,
            ratios.len(),
        ),
        bound.is_some_and(|bound| bound < 1.01),
    ))
}

/// Balanced work is dealt nearly at once, unbalanced work in parts.
pub(super) fn following(uneven: &Measured, even: &Measured) -> Claim {
    let (uneven, even) = (uneven.settled(), even.settled());
    Claim::of_times(
        format!("the first factor follows the balance: {uneven} under imbalance, {even} without"),
        even.median > 0.9 && uneven.median < 0.8,
    )
}

pub(super) fn thesis(title: &str, columns: &[(&str, usize)]) -> Panel {
    let line = |(name, column): &(&str, usize)| Line {
        name: (*name).to_owned(),
        points: THESIS
            .iter()
            .map(|(workers, seconds)| (*workers as f64, Spread::exactly(seconds[*column])))
            .collect(),
    };
    Panel {
        title: title.to_owned(),
        across: "workers".to_owned(),
        up: "s".to_owned(),
        lines: columns.iter().map(line).collect(),
        levels: Vec::new(),
    }
}
