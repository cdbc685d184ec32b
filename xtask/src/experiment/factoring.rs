//! Load balancing by factoring: MATE thesis (2007), section 5.2.6, Table 5.6, on `nbody`.
//!
//! Dedicated: all workers are equally fast. Loaded: every third worker takes three times as long, a different
//! third in each phase. The program gives each worker one equal chunk; the rule `factoring` makes it hand out
//! batches of shrinking chunks.

use tuneagent_e2e::programs::{self, FACTORING_NAMES};

use super::rounds::{Rounds, interleaved, same_results};
use super::scenario::{Run, Scenario, With, argument};
use crate::Result;
use crate::measure::stats::{Spread, change, less};
use crate::measure::table::{Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

/// Workers, and seconds of Table 5.6: dedicated, loaded, loaded and tuned; converted from its `min,sec`.
const THESIS: [(usize, f64, f64, Option<f64>); 6] = [
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
/// Fixed values of the share of the remaining tasks that a batch takes.
const SHARES: [&str; 3] = ["0.3", "0.5", "0.7"];

fn named(workers: usize, way: &str) -> String {
    format!("{workers} {way}")
}

fn fixed(share: &str) -> String {
    format!("{LOADED}, share {share}")
}

/// All scenarios for one number of workers.
fn scenarios(settings: &Settings, workers: usize) -> Result<Vec<(String, Scenario)>> {
    let program = programs::master_worker("nbody", settings.mpi)?;
    let (phase, iterations) = settings.either((10, 30), (20, 80));
    let base = [
        argument("iterations", iterations),
        argument("workers", workers),
        argument("work_us", 80_000),
        argument("latency_us", 100),
    ];
    let load = [
        argument("phase", phase),
        argument("swing", 1),
        argument("slow_each", 3),
        argument("slow", 3),
    ];
    let scenario = |way: &str, arguments: &[&[String]], with: With| {
        let arguments = [&[&base[..]], arguments].concat().concat();
        let scenario = Scenario::new(settings, &program, workers + 1, arguments, with);
        (named(workers, way), scenario)
    };
    let rule = |flags: &[&str]| With::rule("factoring", &FACTORING_NAMES, flags);
    let mut all = vec![
        scenario(DEDICATED, &[], With::NoRule),
        scenario(LOADED, &[&load], With::NoRule),
        scenario(WATCHED, &[&load], rule(&[])),
        scenario(TUNED, &[&load], rule(&["--apply"])),
        scenario(ORACLE, &[&load, &[argument("knows", 1)]], With::NoRule),
    ];
    let of_share = |share| {
        scenario(
            &fixed(share),
            &[&load, &[argument("factor", share)]],
            With::NoRule,
        )
    };
    all.extend(SHARES.map(of_share));
    Ok(all)
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let workers: &[usize] = settings.either(&[4], &[2, 4, 8, 16, 25]);
    let mut all = Vec::new();
    for count in workers {
        all.extend(scenarios(settings, *count)?);
    }
    let rounds = interleaved(&all, settings.repeats, Scenario::run)?;
    same_results(rounds.all())?;
    let measured = Measured { workers, rounds };
    let notes = [
        "Loaded: every third worker takes three times as long, others in each phase. The thesis tells neither its load nor how \
         often it measured.",
        "Oracle: the master knows who is slow, and gives each worker one chunk in proportion to its speed.",
    ];
    Ok(Outcome {
        sections: vec![Section::new(
            "Dedicated, loaded, loaded and tuned",
            measured.table()?,
            notes,
        )],
        claims: measured.claims()?,
        figures: Some(measured.rounds.figures()),
    })
}

struct Measured<'a> {
    workers: &'a [usize],
    rounds: Rounds<Run>,
}

impl Measured<'_> {
    fn spread(&self, workers: usize, way: &str) -> Result<Spread> {
        self.rounds.seconds(&named(workers, way))
    }

    fn table(&self) -> Result<Table> {
        let mut table = Table::new([
            "workers",
            "dedicated, s",
            LOADED,
            "watched",
            "tuned",
            "best fixed share",
            "of it",
            "oracle",
            "tuned to loaded",
            "thesis: dedicated, s",
            "thesis: loaded",
            "thesis: tuned",
            "thesis: tuned to loaded",
        ]);
        for count in self.workers {
            let of = |way: &str| self.spread(*count, way);
            let shares = SHARES.map(|share| Ok((share, of(&fixed(share))?)));
            let shares: Vec<(&str, Spread)> = shares.into_iter().collect::<Result<_>>()?;
            let best = shares
                .into_iter()
                .min_by(|a, b| a.1.median.total_cmp(&b.1.median));
            let (loaded, tuned) = (of(LOADED)?, of(TUNED)?);
            let thesis = THESIS.iter().find(|(workers, ..)| workers == count);
            let their_tuned = thesis.and_then(|of| of.3);
            let theirs = thesis.zip(their_tuned);
            table.row(cells![
                *count,
                of(DEDICATED)?,
                loaded,
                of(WATCHED)?,
                tuned,
                best.map(|(share, _)| share),
                best.map(|(_, spread)| spread),
                of(ORACLE)?,
                change(tuned.median, loaded.median),
                thesis.map(|of| of.1),
                thesis.map(|of| of.2),
                their_tuned,
                theirs.map(|(of, tuned)| change(tuned, of.2)),
            ]);
        }
        Ok(table)
    }

    fn claims(&self) -> Result<Vec<Claim>> {
        let claim = |count: &usize| {
            let of = |way: &str| Ok::<_, String>(self.spread(*count, way)?.median);
            let (dedicated, loaded, tuned) = (of(DEDICATED)?, of(LOADED)?, of(TUNED)?);
            let gain = less(tuned, loaded);
            // Percentage of the load's cost that tuning removes.
            let won_back = 100.0 * (loaded - tuned) / (loaded - dedicated);
            let theirs = THESIS.iter().find(|(workers, ..)| workers == count);
            let theirs = theirs.and_then(|(_, _, loaded, tuned)| Some(less((*tuned)?, *loaded)));
            let theirs = theirs.unwrap_or_default();
            let text = format!(
                "{count} workers: tuned is {gain:.1} % faster than loaded and wins {won_back:.0} % of the loss back; the thesis has \
                 {theirs:.1} %"
            );
            Ok(Claim::of_times(text, gain >= theirs))
        };
        let mut claims: Vec<Claim> = self.workers.iter().map(claim).collect::<Result<_>>()?;
        let last_batches = |way: &str, holds: fn(f64) -> bool| {
            let runs = self
                .workers
                .iter()
                .flat_map(|count| self.rounds.of(&named(*count, way)));
            runs.map(|run| run.last("batches")).all(holds)
        };
        claims.push(Claim::of_logic(
            "at the end of every tuned run the tasks go out in several batches, in every other in one",
            last_batches(TUNED, |batches| batches > 1.0) && last_batches(WATCHED, |batches| batches == 1.0),
        ));
        Ok(claims)
    }
}
