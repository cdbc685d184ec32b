//! Halves and restores a quota of two CPUs while a rule follows it, as if a container were resized in place.

use tuneagent_e2e::resized::{CPUS, Phase, RESIZED, Resized};

use super::rounds::interleaved;
use super::runtime::here;
use crate::Result;
use crate::measure::stats::figure;
use crate::measure::table::{Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

/// Seconds over which the pace is measured.
const OVER: f64 = 4.0;
const OVER_QUICK: f64 = 0.5;
/// Required pace in both phases, in percent of a program started with the right settings.
const OF_RIGHT: f64 = 90.0;

/// Result of a round: the phases, the output, and the paces of programs started with the right settings,
/// before and after.
type Round = ([Phase; 2], String, [[f64; 2]; 2]);

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let over = settings.either(OVER_QUICK, OVER);
    let some = RESIZED.iter().take(settings.either(1, usize::MAX));
    let programs = here(some, |program: &Resized| (program.name, program.needs))?;
    let rounds = interleaved(&programs, settings.repeats.div_ceil(3), |program| {
        let before = program.right(over)?;
        let (phases, text) = program.followed(over)?;
        Ok((phases, text, [before, program.right(over)?]))
    })?;
    let mut table = Table::new(["program", "rule", "CPUs", "pace", "started right", "% of right"]);
    let mut claims = Vec::new();
    for (name, program) in &programs {
        for (phase, cpus) in CPUS.iter().enumerate() {
            let right = |(_, _, [before, after]): &Round| (before[phase] + after[phase]) / 2.0;
            let share = rounds.spread(name, |round| 100.0 * round.0[phase].pace / right(round))?;
            table.row(cells![
                name.as_str(),
                program.rule,
                *cpus,
                rounds.spread(name, |round| round.0[phase].pace)?,
                rounds.spread(name, right)?,
                share
            ]);
            claims.push(Claim::of_times(
                format!(
                    "{name}, {cpus} CPUs: {} % of right, at least {OF_RIGHT} wanted",
                    figure(share.median)
                ),
                share.median >= OF_RIGHT,
            ));
        }
        claims.push(Claim::of_logic(
            format!("{name}: one change, made and reverted"),
            rounds
                .of(name)
                .iter()
                .all(|(_, text, _)| text.contains("1 decision")),
        ));
    }
    Ok(Outcome {
        sections: vec![Section::new(
            "A quota of two CPUs, halved and restored",
            table,
            ["Started with two threads. `started right` has one thread at one CPU, and two at two."],
        )],
        claims,
        ..Outcome::default()
    })
}
