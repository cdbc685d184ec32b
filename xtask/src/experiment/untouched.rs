//! Measures the cost for programs that need no rule while all rules watch them and may act. `runtime` has the
//! programs that need a rule.
//!
//! Two copies of the same program run in turns; one of them is attached to, and then they change roles.
//! Attaching and detaching are not part of any turn.

use tuneagent_e2e::crowd::paired;
use tuneagent_e2e::repairs::{HEALTHY, Healthy};

use super::rounds::{Rounds, interleaved};
use super::runtime::here;
use crate::Result;
use crate::measure::stats::{Spread, figure, less, median_between, quantile};
use crate::measure::table::{Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

/// Pairs of turns of each program over all rounds, in the full and in the quick form.
const PAIRS: usize = 90;
const PAIRS_QUICK: usize = 8;
/// Seconds per turn in the quick form.
const TURN_QUICK: f64 = 0.5;
/// Maximum loss of pace in percent, caused by rules that do not apply to the program.
const COST_MAX: f64 = 1.0;

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let repeats = settings.either(1, settings.repeats.div_ceil(3));
    let pairs = settings.either(PAIRS_QUICK, PAIRS.div_ceil(repeats));
    // The quick form needs one program only.
    let some = HEALTHY.iter().rev().take(settings.either(1, usize::MAX));
    let healthy = here(some, |program: &Healthy| (program.name, program.needs))?;
    let costs = interleaved(&healthy, repeats, |program| {
        Ok(cost(
            program,
            (pairs, settings.either(TURN_QUICK, program.turn_s)),
        )?)
    })?;
    let measured = Measured { healthy, costs };
    Ok(Outcome {
        sections: vec![Section::new(
            "What rules cost that have nothing to do",
            measured.table()?,
            [
                "All built-in rules look, and may write. Of the LAMMPS every call of MPI is watched besides.",
                "A pair is four turns: of two of the program, each once with the agent and once without it, the other one and the agent \
                 stopped meanwhile. When it goes on the agent does what has fallen due: it does it more often in its turns than it would \
                 all along.",
            ],
        )],
        claims: measured.claims()?,
        ..Outcome::default()
    })
}

/// Loss of pace in percent, one value per pair.
fn cost(program: &Healthy, turns: (usize, f64)) -> tuneagent_e2e::Outcome<Vec<f64>> {
    let (one, other) = ((program.start)()?, (program.start)()?);
    let shares = paired(&one, &other, &["--apply"], turns, |text| {
        match text.contains("nothing was changed") {
            true => Ok(()),
            false => Err(format!("a rule acted on a program that needs none:\n{text}").into()),
        }
    })?;
    for crowd in [one, other] {
        crowd.resume()?;
        crowd.finish()?;
    }
    Ok(shares.into_iter().map(|share| less(share, 1.0)).collect())
}

struct Measured {
    healthy: Vec<(String, &'static Healthy)>,
    costs: Rounds<Vec<f64>>,
}

impl Measured {
    /// Values of all pairs of all rounds.
    fn costs_of(&self, program: &Healthy) -> Vec<f64> {
        self.costs.of(program.name).iter().flatten().copied().collect()
    }

    /// The median with its 95 % confidence interval.
    fn median(costs: &[f64]) -> Result<Spread> {
        let median = quantile(costs, 0.5).ok_or("no pair was measured")?;
        let spread = |(least, greatest)| Spread {
            least,
            median,
            greatest,
            count: costs.len(),
        };
        // Too few pairs give a median without a confidence interval.
        Ok(median_between(costs).map_or(Spread::exactly(median), spread))
    }

    fn table(&self) -> Result<Table> {
        let mut table = Table::new([
            "program",
            "pairs",
            "turns of, s",
            "% slower, median (where it lies in 95 %)",
            "half of the pairs between",
        ]);
        for (_, program) in &self.healthy {
            let costs = self.costs_of(program);
            let quarter = |share| quantile(&costs, share).map(figure).unwrap_or_default();
            table.row(cells![
                program.name,
                costs.len(),
                program.turn_s,
                Measured::median(&costs)?,
                format!("{} and {}", quarter(0.25), quarter(0.75)),
            ]);
        }
        Ok(table)
    }

    fn claims(&self) -> Result<Vec<Claim>> {
        let claim = |(_, program): &(String, &Healthy)| {
            let costs = self.costs_of(program);
            let median = Measured::median(&costs)?;
            // A confidence interval wider than 2 % does not separate 1 % from 0, so the claim does not hold.
            let is_settled = median_between(&costs).is_some_and(|(low, high)| high - low <= 2.0 * COST_MAX);
            let text = format!(
                "{}: {median} % slower, at most {COST_MAX} asked for",
                program.name
            );
            Ok(Claim::of_times(text, median.median <= COST_MAX && is_settled))
        };
        self.healthy.iter().map(claim).collect()
    }
}
