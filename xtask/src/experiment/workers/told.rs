//! What was measured, as tables, claims and pictures. Measures nothing.

use super::{Measured, ORACLE, THESIS, THESIS_TUNED, TUNED, WATCHED};
use crate::experiment::chart::{Line, Panel};
use crate::experiment::scenario::Run;
use crate::experiment::stats::{Spread, less};
use crate::experiment::table::Table;
use crate::experiment::{Claim, Section};

pub(super) fn thesis() -> Panel {
    let points = THESIS.map(|(workers, seconds)| (workers as f64, Spread::exactly(seconds)));
    Panel {
        title: "MATE thesis, Table 5.3".to_owned(),
        across: "workers".to_owned(),
        up: "s".to_owned(),
        lines: vec![Line {
            name: "fixed".to_owned(),
            points: points.to_vec(),
        }],
        levels: vec![(TUNED.to_owned(), THESIS_TUNED)],
    }
}

impl Measured {
    fn spread(&self, name: &str) -> Spread {
        // Every scenario was run at least once.
        self.rounds
            .spread(name, Run::seconds)
            .unwrap_or(Spread::exactly(f64::NAN))
    }

    /// Of a fixed number; of one that was far from the best the one run that it had.
    fn of_fixed(&self, workers: usize) -> Spread {
        let rounds = self.rounds.spread(&workers.to_string(), Run::seconds);
        let first = self.fixed.iter().find(|(of, _)| *of == workers);
        rounds.unwrap_or(Spread::exactly(first.map_or(f64::NAN, |(_, seconds)| *seconds)))
    }

    fn best(&self) -> Spread {
        self.spread(&self.best.to_string())
    }

    pub(super) fn section(&self, title: &str, beside_thesis: bool) -> Section {
        let best = self.best().median;
        let mut table = Table::new([
            "workers",
            "s, median (least to greatest)",
            "to the best fixed",
            "thesis, s",
            "thesis, to its best",
        ]);
        let mut row = |name: String, spread: Spread, thesis: Option<f64>| {
            let against = format!("{:+.1} %", 0.0 - less(spread.median, best));
            let thesis = thesis.filter(|_| beside_thesis);
            let theirs = thesis.map_or(String::new(), |of| format!("{of:.0}"));
            let against_theirs =
                thesis.map_or(String::new(), |of| format!("{:+.1} %", 0.0 - less(of, 138.0)));
            table.row([name, spread.to_string(), against, theirs, against_theirs]);
        };
        for (workers, _) in &self.fixed {
            let thesis = THESIS.iter().find(|(of, _)| of == workers);
            let mark = if *workers == self.best {
                ", the best fixed"
            } else {
                ""
            };
            row(
                format!("{workers}{mark}"),
                self.of_fixed(*workers),
                thesis.map(|(_, seconds)| *seconds),
            );
        }
        row(format!("{WATCHED}, advising only"), self.spread(WATCHED), None);
        row(TUNED.to_owned(), self.spread(TUNED), Some(THESIS_TUNED));
        row(ORACLE.to_owned(), self.spread(ORACLE), None);
        let load = self.load;
        let mut notes = vec![format!(
            "{} iterations of {} ms of work and {} ms for each send; {}. {} runs of each.",
            load.iterations,
            load.work_us as f64 / 1e3,
            load.latency_us as f64 / 1e3,
            match load.phase {
                0 => "nothing varies".to_owned(),
                phase => format!(
                    "in phases of {phase} iterations {}work and latency are in turns {} times as long",
                    if load.has_plain {
                        "with plain ones between "
                    } else {
                        ""
                    },
                    load.swing
                ),
            },
            self.rounds.of(TUNED).len()
        )];
        if load.phase > 0 {
            let s = (load.swing as f64).sqrt();
            notes.push(format!(
                "With the work alone varying by {}, no more than {:.0} % could be gained over one fixed number.",
                load.swing,
                100.0 * (1.0 - 2.0 * s.sqrt() / (s + 1.0))
            ));
        }
        Section {
            title: title.to_owned(),
            table,
            notes,
        }
    }

    pub(super) fn varying_claims(&self) -> Vec<Claim> {
        let gain = less(self.spread(TUNED).median, self.best().median);
        vec![Claim::of_times(
            format!(
                "tuned is {gain:.1} % faster than the best fixed number, {}; at least 25 % are wanted, the thesis has 26 %",
                self.best
            ),
            gain >= 25.0,
        )]
    }

    pub(super) fn constant_claims(&self) -> Vec<Claim> {
        let loss = -less(self.spread(TUNED).median, self.best().median);
        let wide = self.settled();
        vec![
            Claim::of_times(
                format!(
                    "tuned from 1 takes {loss:+.1} % of the best fixed number, {}; 5 % are allowed, the start included",
                    self.best
                ),
                loss <= 5.0,
            ),
            Claim::of_times(
                format!("settled, the workers stay within {wide:.1} of the model's optimum; 2 are allowed"),
                wide <= 2.0,
            ),
        ]
    }

    pub(super) fn logic(&self, load: &str) -> Claim {
        let moved = |run: &Run| {
            let workers = run.each("workers");
            workers.first() == Some(&1.0) && workers.last().is_some_and(|last| *last > 1.0)
        };
        let all = self.rounds.of(TUNED).iter().all(moved);
        Claim::of_logic(
            format!("{load} every tuned run begins with one worker and ends with more"),
            all,
        )
    }

    /// How far from the optimum the number of workers is at most in the second half of the tuned runs.
    fn settled(&self) -> f64 {
        let optimum = self.load.optimum(0);
        let runs = self.rounds.of(TUNED).iter().map(|run| run.each("workers"));
        let late = runs.flat_map(|workers| workers.split_at(workers.len() / 2).1.to_vec());
        late.map(|workers| (workers - optimum).abs()).fold(0.0, f64::max)
    }

    pub(super) fn panel(&self, title: &str) -> Panel {
        let points = self
            .fixed
            .iter()
            .map(|(workers, _)| (*workers as f64, self.of_fixed(*workers)));
        Panel {
            title: title.to_owned(),
            across: "workers".to_owned(),
            up: "s".to_owned(),
            lines: vec![Line {
                name: "fixed".to_owned(),
                points: points.collect(),
            }],
            levels: [TUNED, ORACLE]
                .map(|name| (name.to_owned(), self.spread(name).median))
                .to_vec(),
        }
    }

    /// The number of workers of the last tuned run, and the model's optimum.
    pub(super) fn course(&self, title: &str) -> Panel {
        let workers = self
            .rounds
            .of(TUNED)
            .last()
            .map(|run| run.each("workers"))
            .unwrap_or_default();
        let line = |name: &str, value: &dyn Fn(usize) -> f64| Line {
            name: name.to_owned(),
            points: (0..workers.len())
                .map(|iteration| (iteration as f64, Spread::exactly(value(iteration))))
                .collect(),
        };
        Panel {
            title: title.to_owned(),
            across: "iteration".to_owned(),
            up: "workers".to_owned(),
            lines: vec![
                line("in use", &|iteration| workers[iteration]),
                line("the model's optimum", &|iteration| {
                    self.load.optimum(iteration).round()
                }),
            ],
            levels: Vec::new(),
        }
    }
}
