//! Load balancing by factoring: MATE thesis (2007), section 5.2.6, Table 5.6, on `nbody`.
//!
//! Dedicated, every worker is equally fast. Under load every third worker takes three times as long, in turns from phase to phase.
//! The program hands out one equal chunk to each worker; the rule `factoring` makes it hand out batches of shrinking chunks.

use tuneagent_e2e::programs;

use super::chart::{Line, Panel, Picture};
use super::rounds::{self, Rounds};
use super::scenario::{self, Run, Scenario, With};
use super::stats::{Spread, less};
use super::table::Table;
use super::{Claim, Outcome, Section, Settings};
use crate::Result;

/// The rule's names in the library `mw`.
const NAMES: [(&str, &str); 13] = [
    ("begin_iteration", "mw_begin_iteration"),
    ("end_iteration", "mw_end_iteration"),
    ("send_task", "mw_send"),
    ("compute_task", "mw_compute"),
    ("TheNumTuples", "mw_tasks"),
    ("nw", "mw_nw"),
    ("globalSizeFirst", "mw_first_chunk"),
    ("globalSizeChunk", "mw_later_chunk"),
    ("numtuples", "mw_sent_tasks"),
    ("chunk_size", "mw_chunk_tasks"),
    ("iteration", "mw_iteration"),
    ("CurrentIteration", "mw_current_iteration"),
    ("NroTasks", "mw_chunk_tasks"),
];

type Theirs = (usize, f64, f64, Option<f64>);

/// Workers, and seconds of Table 5.6: dedicated, loaded, loaded and tuned; its min,sec read as such.
const THESIS: [Theirs; 6] = [
    (1, 614.0, 817.0, None),
    (2, 346.0, 462.0, Some(361.0)),
    (4, 218.0, 246.0, Some(221.0)),
    (8, 108.0, 138.0, Some(111.0)),
    (16, 151.0, 178.0, Some(168.0)),
    (25, 157.0, 214.0, Some(172.0)),
];

const DEDICATED: &str = "dedicated";
const LOADED: &str = "loaded";
const WATCHED: &str = "loaded, watched";
const TUNED: &str = "loaded, tuned";
const ORACLE: &str = "loaded, oracle";
/// Shares of the tasks left that a batch takes, tried as fixed values.
const SHARES: [&str; 3] = ["0.3", "0.5", "0.7"];

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    scenario::build_agent(&crate::root())?;
    let program = programs::master_worker("nbody", settings.mpi).map_err(|problem| problem.to_string())?;
    let workers: &[usize] = if settings.quick { &[4] } else { &[2, 4, 8, 16, 25] };
    let fixed = SHARES.map(|share| format!("loaded, share {share}"));
    let ways: Vec<&str> = [DEDICATED, LOADED, WATCHED, TUNED, ORACLE]
        .into_iter()
        .chain(fixed.iter().map(String::as_str))
        .collect();
    let names: Vec<String> = workers
        .iter()
        .flat_map(|count| ways.iter().map(move |way| format!("{count} {way}")))
        .collect();
    let (phase, iterations) = if settings.quick { (10, 30) } else { (20, 80) };
    let rounds = rounds::interleaved(&names, settings.repeats, |name| {
        let (count, way) = name.split_once(' ').ok_or("a scenario without a name")?;
        let count: usize = count.parse().map_err(|_| format!("no scenario {name}"))?;
        let mut arguments = vec![
            format!("iterations={iterations}"),
            format!("workers={count}"),
            "work_us=80000".to_owned(),
            "latency_us=100".to_owned(),
        ];
        if way != DEDICATED {
            arguments.extend([
                format!("phase={phase}"),
                "swing=1".into(),
                "slow_each=3".into(),
                "slow=3".into(),
            ]);
        }
        if way == ORACLE {
            arguments.push("knows=1".to_owned());
        }
        arguments.extend(
            way.rsplit_once("share ")
                .map(|(_, share)| format!("factor={share}")),
        );
        let scenario = Scenario {
            program: program.clone(),
            mpi: settings.mpi,
            ranks: count + 1,
            arguments,
            is_apart: false,
            with: match way {
                WATCHED => With::rule("factoring", &NAMES, &[]),
                TUNED => With::rule("factoring", &NAMES, &["--apply"]),
                _ => With::Nobody,
            },
        };
        scenario.run()
    })?;
    let sums: Vec<&str> = names
        .iter()
        .flat_map(|name| rounds.of(name))
        .map(|run| run.checksum.as_str())
        .collect();
    if sums.iter().any(|sum| *sum != sums[0]) {
        return Err(format!("the program computed different results: {sums:?}"));
    }
    let measured = Measured { workers, rounds };
    Ok(Outcome {
        sections: vec![measured.section()?],
        picture: measured.picture()?,
        claims: measured.claims()?,
    })
}

struct Measured<'a> {
    workers: &'a [usize],
    rounds: Rounds<Run>,
}

impl Measured<'_> {
    fn spread(&self, workers: usize, way: &str) -> Result<Spread> {
        self.rounds.spread(&format!("{workers} {way}"), Run::seconds)
    }

    /// The best of the fixed shares.
    fn best_fixed(&self, workers: usize) -> Result<(&'static str, Spread)> {
        let mut best: Option<(&'static str, Spread)> = None;
        for share in SHARES {
            let spread = self.spread(workers, &format!("loaded, share {share}"))?;
            if best.is_none_or(|(_, best)| spread.median < best.median) {
                best = Some((share, spread));
            }
        }
        best.ok_or_else(|| "no fixed share was tried".to_owned())
    }

    /// How much of what the load costs the tuning wins back, in percent.
    fn won_back(&self, workers: usize) -> Result<f64> {
        let of = |way| self.spread(workers, way).map(|spread| spread.median);
        let (dedicated, loaded, tuned) = (of(DEDICATED)?, of(LOADED)?, of(TUNED)?);
        Ok(100.0 * (loaded - tuned) / (loaded - dedicated))
    }

    fn section(&self) -> Result<Section> {
        let mut table = Table::new([
            "workers",
            "dedicated, s",
            "loaded",
            "watched",
            "tuned",
            "best fixed share",
            "oracle",
            "tuned to loaded",
            "thesis: dedicated / loaded / tuned, s",
            "thesis: tuned to loaded",
        ]);
        for count in self.workers {
            let of = |way| self.spread(*count, way).map(|spread| spread.to_string());
            let (share, best) = self.best_fixed(*count)?;
            let gain = less(
                self.spread(*count, TUNED)?.median,
                self.spread(*count, LOADED)?.median,
            );
            let thesis = THESIS.iter().find(|(workers, ..)| workers == count);
            let (theirs, their_gain) = match thesis {
                Some((_, dedicated, loaded, Some(tuned))) => (
                    format!("{dedicated:.0} / {loaded:.0} / {tuned:.0}"),
                    format!("{:+.1} %", -less(*tuned, *loaded)),
                ),
                _ => (String::new(), String::new()),
            };
            table.row([
                count.to_string(),
                of(DEDICATED)?,
                of(LOADED)?,
                of(WATCHED)?,
                of(TUNED)?,
                format!("{best} ({share})"),
                of(ORACLE)?,
                format!("{:+.1} %", -gain),
                theirs,
                their_gain,
            ]);
        }
        Ok(Section {
            title: "Dedicated, loaded, loaded and tuned".to_owned(),
            table,
            notes: vec![
                "Loaded: every third worker takes three times as long, others in each phase. The thesis tells neither its load nor how \
                 often it measured."
                    .to_owned(),
                "Oracle: the master knows who is slow, and gives each worker one chunk in proportion to its speed.".to_owned(),
            ],
        })
    }

    fn claims(&self) -> Result<Vec<Claim>> {
        let claim = |count: &usize| {
            let gain = less(
                self.spread(*count, TUNED)?.median,
                self.spread(*count, LOADED)?.median,
            );
            let theirs = THESIS.iter().find(|(workers, ..)| workers == count);
            let theirs = theirs.and_then(|(_, _, loaded, tuned)| Some(less((*tuned)?, *loaded)));
            let theirs = theirs.unwrap_or_default();
            Ok(Claim::of_times(
                format!(
                    "{count} workers: tuned is {gain:.1} % faster than loaded and wins {:.0} % of the loss back; the thesis has {theirs:.1} %",
                    self.won_back(*count)?
                ),
                gain >= theirs,
            ))
        };
        let claims: Result<Vec<Claim>> = self.workers.iter().map(claim).collect();
        let batches = |way: &str, holds: fn(f64) -> bool| {
            let runs = self
                .workers
                .iter()
                .flat_map(|count| self.rounds.of(&format!("{count} {way}")));
            let mut last = runs.map(|run| run.each("batches").last().copied().unwrap_or_default());
            last.all(holds)
        };
        let mut claims = claims?;
        claims.push(Claim::of_logic(
            "at the end of every tuned run the tasks go out in several batches, in every other in one",
            batches(TUNED, |batches| batches > 1.0) && batches(WATCHED, |batches| batches == 1.0),
        ));
        Ok(claims)
    }

    fn picture(&self) -> Result<Picture> {
        let mut lines = Vec::new();
        for way in [DEDICATED, LOADED, TUNED, ORACLE] {
            let mut points = Vec::new();
            for count in self.workers {
                points.push((*count as f64, self.spread(*count, way)?));
            }
            lines.push(Line {
                name: way.to_owned(),
                points,
            });
        }
        let thesis = |name: &str, of: fn(&Theirs) -> Option<f64>| Line {
            name: name.to_owned(),
            points: THESIS
                .iter()
                .filter_map(|row| Some((row.0 as f64, Spread::exactly(of(row)?))))
                .collect(),
        };
        let panel = |title: &str, lines| Panel {
            title: title.to_owned(),
            across: "workers".to_owned(),
            up: "s".to_owned(),
            lines,
            levels: Vec::new(),
        };
        Ok(Picture {
            title: "Load balancing by factoring".to_owned(),
            panels: vec![
                panel("here", lines),
                panel(
                    "MATE thesis, Table 5.6",
                    vec![
                        thesis(DEDICATED, |row| Some(row.1)),
                        thesis(LOADED, |row| Some(row.2)),
                        thesis(TUNED, |row| row.3),
                    ],
                ),
            ],
        })
    }
}
