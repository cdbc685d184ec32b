//! What it costs programs that need no rule while every rule looks at them and may act. Of programs that need one: `runtime`.
//!
//! Two of the same program run in turns, one of them attached; then they change their parts. Attaching and leaving are in no turn.

use tuneagent_e2e::crowd::Crowd;
use tuneagent_e2e::repairs::{HEALTHY, Healthy};

use super::chart::{Line, Panel, Picture};
use super::rounds::{self, Rounds};
use super::runtime::here;
use super::scenario;
use super::stats::{Spread, figure, less, median_between, quantile};
use super::table::Table;
use super::{Claim, Outcome, Section, Settings};
use crate::Result;

/// Pairs of turns of each program, over all rounds, and in the quick form.
const PAIRS: usize = 90;
const PAIRS_QUICK: usize = 8;
/// Seconds of a turn in the quick form.
const TURN_QUICK: f64 = 0.5;
/// Percent of its pace that a program may lose to rules that do not fit it.
const COST_MAX: f64 = 1.0;

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    scenario::build_agent(&crate::root())?;
    // One of them is enough to see that it works.
    let (most, pairs, repeats) = match settings.quick {
        true => (1, PAIRS_QUICK, 1),
        false => {
            let repeats = settings.repeats.div_ceil(3);
            (usize::MAX, PAIRS.div_ceil(repeats), repeats)
        }
    };
    let some = HEALTHY.iter().rev().take(most);
    let healthy = here(some, |program: &Healthy| (program.name, program.needs))?;
    let names: Vec<String> = healthy.iter().map(|program| program.name.to_owned()).collect();
    let costs = rounds::interleaved(&names, repeats, |name| {
        let found = healthy.iter().find(|program| program.name == name);
        let program = found.ok_or_else(|| format!("no program {name}"))?;
        let turn_s = if settings.quick {
            TURN_QUICK
        } else {
            program.turn_s
        };
        cost(program, (pairs, turn_s))
    })?;
    let measured = Measured { healthy, costs };
    Ok(Outcome {
        sections: vec![measured.price()?],
        picture: measured.picture()?,
        claims: measured.claims()?,
    })
}

/// Percent of its pace that a program loses, pair by pair. What one of the two has of its own, as where its memory lies, goes out of the
/// product of both.
fn cost(program: &Healthy, (pairs, turn_s): (usize, f64)) -> Result<Vec<f64>> {
    let measured = || -> tuneagent_e2e::Outcome<Vec<f64>> {
        let (one, other) = ((program.start)()?, (program.start)()?);
        let shares_of = |ours: &Crowd, theirs: &Crowd| -> tuneagent_e2e::Outcome<Vec<f64>> {
            let (shares, text) = ours.attached_beside(theirs, &["--apply"], (pairs.div_ceil(2), turn_s))?;
            match text.contains("nothing was changed") {
                true => Ok(shares),
                false => Err(format!("a rule acted on a program that needs none:\n{text}").into()),
            }
        };
        let (first, second) = (shares_of(&one, &other)?, shares_of(&other, &one)?);
        for crowd in [one, other] {
            crowd.resume()?;
            crowd.finish()?;
        }
        let both = first.iter().zip(&second);
        Ok(both
            .map(|(first, second)| less((first * second).sqrt(), 1.0))
            .collect())
    };
    measured().map_err(|problem| problem.to_string())
}

struct Measured {
    healthy: Vec<&'static Healthy>,
    costs: Rounds<Vec<f64>>,
}

impl Measured {
    /// Of all pairs of all rounds.
    fn costs_of(&self, program: &Healthy) -> Vec<f64> {
        self.costs.of(program.name).iter().flatten().copied().collect()
    }

    fn median(&self, program: &Healthy) -> Result<f64> {
        Ok(quantile(&self.costs_of(program), 0.5).ok_or("no pair was measured")?)
    }

    fn price(&self) -> Result<Section> {
        let mut table = Table::new([
            "program",
            "pairs",
            "turns of, s",
            "% slower, median",
            "median between (95 %)",
            "half of the pairs between",
        ]);
        for program in &self.healthy {
            let costs = self.costs_of(program);
            let quarter = |share| quantile(&costs, share).map(figure).unwrap_or_default();
            table.row([
                program.name.to_owned(),
                costs.len().to_string(),
                figure(program.turn_s),
                figure(self.median(program)?),
                between(&costs),
                format!("{} and {}", quarter(0.25), quarter(0.75)),
            ]);
        }
        Ok(Section {
            title: "What rules cost that have nothing to do".to_owned(),
            table,
            notes: vec![
                "All built-in rules look, and may write. Of the LAMMPS every call of MPI is watched besides."
                    .to_owned(),
                "A pair is four turns: of two of the program, each once with the agent and once without it, the other one and the agent \
                 stopped meanwhile. When it goes on the agent does what has fallen due: it does it more often in its turns than it would \
                 all along."
                    .to_owned(),
            ],
        })
    }

    fn picture(&self) -> Result<Picture> {
        let point = |(number, program): (usize, &&Healthy)| {
            let costs = self.costs_of(program);
            let median = self.median(program)?;
            let (least, greatest) = median_between(&costs).unwrap_or((median, median));
            let spread = Spread {
                least,
                median,
                greatest,
                count: costs.len(),
            };
            Ok((number as f64 + 1.0, spread))
        };
        let points: Vec<(f64, Spread)> = self
            .healthy
            .iter()
            .enumerate()
            .map(point)
            .collect::<Result<_>>()?;
        Ok(Picture {
            title: "Programs that need nothing, attached to".to_owned(),
            panels: vec![Panel {
                title: "slower than alone: the median, and where it lies in 95 % of all samples".to_owned(),
                across: "programs, in the order of the table".to_owned(),
                up: "%".to_owned(),
                lines: vec![Line {
                    name: "slower".to_owned(),
                    points,
                }],
                levels: vec![("asked for".to_owned(), COST_MAX)],
            }],
        })
    }

    fn claims(&self) -> Result<Vec<Claim>> {
        let claim = |program: &&Healthy| {
            let costs = self.costs_of(program);
            let median = self.median(program)?;
            // Who cannot tell 1 % from none says nothing about it.
            let is_told = median_between(&costs).is_some_and(|(low, high)| high - low <= 2.0 * COST_MAX);
            let text = format!(
                "{}: {} % slower ({}), at most {COST_MAX} asked for",
                program.name,
                figure(median),
                between(&costs)
            );
            Ok(Claim::of_times(text, median <= COST_MAX && is_told))
        };
        self.healthy.iter().map(claim).collect()
    }
}

/// Where the true median lies.
fn between(costs: &[f64]) -> String {
    median_between(costs).map_or("too few pairs".to_owned(), |(low, high)| {
        format!("{} to {}", figure(low), figure(high))
    })
}
