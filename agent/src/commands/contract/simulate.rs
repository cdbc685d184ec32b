//! `tuneagent contract simulate`: runs the program of a contract, and shows its rates beside those of the steady
//! state.

use contract::{Contract, Scenario, Simulation, SimulationEnd, Stall};
use profile::format::plural;
use rules::quantity::{duration, percent, significant};

use super::{ShowResult, rate};
use crate::{cli::ScenarioArgs, commands::print_json, exit::Code};

impl ScenarioArgs {
    fn scenario(&self) -> Scenario {
        Scenario {
            items: if self.duration.is_some() {
                u64::MAX
            } else {
                self.items
            },
            duration_s: self
                .duration
                .map_or(f64::INFINITY, |duration| duration.as_secs_f64()),
            seed: self.seed,
            buffer: self.buffer,
            is_paced: self.paced,
            ..Scenario::default()
        }
    }
}

pub(super) fn simulate(contract: &Contract, scenario: &ScenarioArgs, json: bool) -> ShowResult {
    let simulation = contract.simulate(&scenario.scenario())?;
    if json {
        print_json(&simulation)?;
    } else {
        show(&simulation);
    }
    Ok(match simulation.stall {
        Some(_) => Code::Failed,
        None => Code::Done,
    })
}

fn show(simulation: &Simulation) {
    let time = |seconds: f64| duration(seconds * 1e9);
    let ended = match simulation.ended {
        SimulationEnd::Stalled => "; then nothing could happen any more",
        SimulationEnd::Events => "; ended at the greatest number of events",
        SimulationEnd::Items | SimulationEnd::Duration => "",
    };
    say!(
        "{}: {} at the end of the graph in {}{ended}",
        simulation.contract,
        plural(usize::try_from(simulation.items).unwrap_or(usize::MAX), "item"),
        time(simulation.end_s)
    );
    match simulation.fill_s {
        Some(fill_s) => say!("first item after {}", time(fill_s)),
        None => say!("it ended before the first item arrived everywhere: what follows is no steady state"),
    }
    simulation.stall.iter().for_each(show_stall);
    if let Some(why) = &simulation.not_expected {
        say!("not compared with the steady state: {why}");
    }
    say!("measured from {}", time(simulation.measured_from_s));
    let names = simulation.rates.iter().map(|one| one.feature.len());
    let names = names.chain(simulation.resources.iter().map(|one| one.resource.len()));
    let width = names.max().unwrap_or_default().max("resource".len());
    say!(
        "{:<width$}  {:>12}  {:>12}",
        "rate of",
        "simulated",
        "steady state"
    );
    for one in &simulation.rates {
        let found = simulated(one.measured, one.expected, rate);
        row(&one.feature, width, &found, one.expected.map(rate));
    }
    say!("{:<width$}  {:>12}  {:>12}", "resource", "used", "steady state");
    for one in &simulation.resources {
        let found = simulated(one.utilisation, one.expected, percent);
        row(&one.resource, width, &found, one.expected.map(percent));
    }
}

/// The measured span may be shorter than an activation: what did not happen in it was not measured.
fn simulated(measured: f64, expected: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    match expected {
        Some(expected) if measured == 0.0 && expected > 0.0 => "not seen".to_owned(),
        _ => shown(measured),
    }
}

fn row(name: &str, width: usize, found: &str, expected: Option<String>) {
    let line = format!(
        "{name:<width$}  {found:>12}  {:>12}",
        expected.unwrap_or_default()
    );
    say!("{}", line.trim_end());
}

fn show_stall(stall: &Stall) {
    say!(
        "stalled after {}; each waits for the next:",
        duration(stall.at_s * 1e9)
    );
    stall.waits.iter().for_each(|wait| say!("  {wait}"));
    if let Some(join) = &stall.join {
        say!("  the join: {join}");
    }
    if let Some(buffer) = stall.enough_buffer {
        let buffer = significant(buffer as f64, 12);
        say!("  with --buffer {buffer} it does not stall");
    }
}
