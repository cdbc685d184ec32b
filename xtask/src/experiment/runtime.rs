//! Measures what the run-time rules gain for unprepared programs. `untouched` measures their cost for
//! programs that need none.
//!
//! All paces are by the program's own clock: first as it was started; then, after the rule has acted and the
//! agent has left, in turns with another program that was started with the right settings.

use tuneagent_e2e::needs::lacks;
use tuneagent_e2e::repairs::{CASES, Case, Tried};

use super::rounds::{Rounds, interleaved};
use crate::Result;
use crate::measure::stats::{Spread, figure};
use crate::measure::table::{Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

/// Seconds over which the pace is measured.
const OVER: f64 = 2.0;
const OVER_QUICK: f64 = 0.5;
/// Required pace, in percent of a program started with the right settings.
const OF_RIGHT: f64 = 80.0;
/// Trials of the two programs with thread teams, whose loss differs from run to run.
const TEAMS: usize = 10;

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let over = settings.either(OVER_QUICK, OVER);
    let repeats = settings.repeats.div_ceil(3);
    // The quick form needs one case only. Missing requirements are reported only for cases that are to run.
    let number = settings.number("--case", 0.0, 0.0) as usize;
    let only = CASES.get(number.wrapping_sub(1));
    let fits = |case: &&Case| match only {
        Some(only) => std::ptr::eq(*case, only),
        None => !settings.quick || case.rule == "memory-given-back",
    };
    let cases = here(CASES.iter().filter(fits), |case| (case.name, case.needs))?;
    let tried = interleaved(&cases, repeats, |case| {
        let tries = match case.rule {
            "openmp-team-size" | "openmp-stated-team-size" | "xgboost-threads" | "ggml-threads" => {
                TEAMS.div_ceil(repeats)
            }
            _ => 1,
        };
        let tried = (0..tries).map(|_| case.tried(over));
        Ok(tried.collect::<tuneagent_e2e::Outcome<Vec<Tried>>>()?)
    })?;
    let measured = Measured { cases, tried };
    Ok(Outcome {
        sections: vec![Section::new(
            "Started wrong, repaired while they run, started right",
            measured.table()?,
            [
                "`after` is without the agent: it has left, and what its guard kept stays. MPICH has no setting that would be right: \
                 a library is preloaded that does what the rule does.",
            ],
        )],
        claims: measured.claims()?,
        ..Outcome::default()
    })
}

/// The cases that can run on this machine. Prints the others with the reason.
pub(super) fn here<'a, T>(
    all: impl Iterator<Item = &'a T>,
    of: impl Fn(&'a T) -> (&'a str, &'a [tuneagent_e2e::needs::Need]),
) -> Result<Vec<(String, &'a T)>> {
    let mut found = Vec::new();
    for one in all {
        let (name, needs) = of(one);
        if !lacks(name, needs)? {
            found.push((name.to_owned(), one));
        }
    }
    Ok(found)
}

struct Measured<'a> {
    cases: Vec<(String, &'a Case)>,
    tried: Rounds<Vec<Tried>>,
}

impl Measured<'_> {
    fn spread(&self, case: &Case, of: impl Fn(&Tried) -> f64) -> Result<Spread> {
        let values: Vec<f64> = self.tried_of(case).map(of).collect();
        Spread::of(&values).ok_or_else(|| format!("{} was never tried", case.name))
    }

    fn tried_of(&self, case: &Case) -> impl Iterator<Item = &Tried> {
        self.tried.of(case.name).iter().flatten()
    }

    fn gain(&self, case: &Case) -> Result<Spread> {
        self.spread(case, |tried| tried.paces.after / tried.paces.before)
    }

    /// Pace in percent of a program started with the right settings.
    fn of_right(&self, case: &Case) -> Result<Spread> {
        self.spread(case, |tried| 100.0 * tried.paces.after / tried.paces.right)
    }

    fn table(&self) -> Result<Table> {
        let mut table = Table::new([
            "programs",
            "rule",
            "counted",
            "before",
            "after",
            "started right",
            "times",
            "% of right, before",
            "% of right",
            "results",
        ]);
        for (_, case) in &self.cases {
            table.row(cells![
                case.name,
                case.rule,
                case.unit,
                self.spread(case, |tried| tried.paces.before)?,
                self.spread(case, |tried| tried.paces.after)?,
                self.spread(case, |tried| tried.paces.right)?,
                self.gain(case)?,
                self.spread(case, |tried| 100.0 * tried.paces.before / tried.paces.right)?,
                self.of_right(case)?,
                self.results(case),
            ]);
        }
        Ok(table)
    }

    /// Text on the number of compared results, and whether they are equal.
    fn results(&self, case: &Case) -> String {
        let compared: Vec<_> = self.tried_of(case).map(Tried::compared).collect();
        match compared.iter().find_map(|(_, different)| *different) {
            None => format!(
                "{} the same",
                compared.iter().map(|(count, _)| count).sum::<usize>()
            ),
            Some(of) => format!("different from {of} on"),
        }
    }

    fn claims(&self) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        for (_, case) in &self.cases {
            let Case { name, rule, .. } = case;
            let done = |tried: &Tried| case.done.iter().all(|part| tried.text.contains(part));
            claims.push(Claim::of_logic(
                format!("{name}: {rule} acted"),
                self.tried_of(case).all(done),
            ));
            let same = |tried: &Tried| matches!(tried.compared(), (1.., None));
            claims.push(Claim::of_logic(
                format!("{name}: the results are those without us"),
                self.tried_of(case).all(same),
            ));
            let (gain, wanted) = (self.gain(case)?.median, (case.gain)());
            claims.push(Claim::of_times(
                format!("{name}: {} times as fast, {wanted} asked for", figure(gain)),
                gain >= wanted,
            ));
            let share = self.of_right(case)?.median;
            claims.push(Claim::of_times(
                format!("{name}: {} % of right, {OF_RIGHT} asked for", figure(share)),
                share >= OF_RIGHT,
            ));
        }
        Ok(claims)
    }
}
