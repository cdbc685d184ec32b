//! Estimates the cost of a message from round trips: MATE thesis (2007), section 5.1.1, and MATE for MPI
//! (2010), section 5.4.2.1, which need it and use constants.
//!
//! `quadrature` simulates a network of known latency and bandwidth: a receiver waits until the message would
//! have arrived. The rule `network` does not know these values. It fits a line to the round trips of 20
//! iterations, each without the worker's computation, so that no clocks of two processes are compared.

use std::path::Path;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::programs::{self, NETWORK_NAMES};

use super::rounds::{Rounds, interleaved};
use super::scenario::{Scenario, With, argument};
use crate::Result;
use crate::measure::stats::Spread;
use crate::measure::table::{Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

const LATENCIES_US: [f64; 3] = [50.0, 500.0, 5000.0];
const BANDWIDTHS_MBS: [f64; 3] = [1.0, 30.0, 1000.0];
/// Tasks of an iteration of `quadrature`; the first chunk has half of them.
const TASKS: f64 = 96.0;
/// Transmission time of the largest message, without latency.
const LARGEST_US: f64 = 1000.0;

/// A simulated network; `mbs` is in 1e6 bytes per second.
#[derive(Clone, Copy, Debug)]
struct Network {
    latency_us: f64,
    mbs: f64,
}

/// The estimate of the rule.
#[derive(Clone, Copy, Debug)]
struct Found {
    latency_us: f64,
    ns_per_byte: f64,
}

impl Network {
    fn ns_per_byte(&self) -> f64 {
        1e3 / self.mbs
    }

    fn name(&self) -> String {
        format!("{} us {} MB/s", self.latency_us, self.mbs)
    }

    fn arguments(&self, iterations: usize) -> Vec<String> {
        // Chunk sizes halve from half of the tasks, so that messages have many sizes.
        let payload = (LARGEST_US * self.mbs / (TASKS / 2.0)).ceil();
        vec![
            argument("iterations", iterations),
            argument("payload", payload),
            argument("network_us", self.latency_us),
            argument("network_mbs", self.mbs),
            argument("workers", 1),
            argument("factor", 0.5),
            argument("work_us", 5000),
            argument("latency_us", 0),
            argument("look_us", 0),
        ]
    }
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let program = programs::master_worker("quadrature", settings.mpi)?;
    let all = LATENCIES_US
        .iter()
        .flat_map(|latency_us| BANDWIDTHS_MBS.map(|mbs| (*latency_us, mbs)));
    let mut networks: Vec<Network> = all.map(|(latency_us, mbs)| Network { latency_us, mbs }).collect();
    if settings.quick {
        networks.retain(|network| (network.latency_us, network.mbs) == (500.0, 30.0));
    }
    let recording = settings.out.join("network.rec");
    let scenario = |network: &Network| {
        let arguments = network.arguments(settings.either(25, 40));
        let flags = ["--record", &recording.to_string_lossy()];
        let with = With::rule("network", &NETWORK_NAMES, &flags);
        Scenario::new(settings, &program, 2, arguments, with)
    };
    let scenarios: Vec<_> = networks
        .iter()
        .map(|network| (network.name(), scenario(network)))
        .collect();
    let rounds = interleaved(&scenarios, settings.repeats, |scenario| {
        scenario.run()?;
        found(&recording)
    })?;
    let measured = Measured { networks, rounds };
    Ok(Outcome {
        sections: vec![Section::new(
            "Latency and cost of a byte, injected and measured",
            measured.table()?,
            [
                "The works have no figures: the thesis takes a latency of 1000 ms, MATE for MPI constants that it does not print.",
                "What is measured has in it what the machine's own messages and the probes cost, some microseconds.",
            ],
        )],
        claims: measured.claims()?,
        ..Outcome::default()
    })
}

/// Estimate of the rule in the last window of a run, which uses 20 iterations.
fn found(recording: &Path) -> Result<Found> {
    let mut words = vec!["replay".to_owned(), recording.to_string_lossy().into_owned()];
    words.extend(["--rules", "none", "network", "--csv", "-"].map(str::to_owned));
    for (name, of_program) in NETWORK_NAMES {
        words.extend(["--bind".to_owned(), format!("{name}={of_program}")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let text = Agent::succeed(&words)?;
    Ok(Found {
        latency_us: 1e6 * last(&text, "latency")?,
        ns_per_byte: 1e9 * last(&text, "per_byte")?,
    })
}

/// The last value of a metric in a table of windows, in seconds.
fn last(csv: &str, metric: &str) -> Result<f64> {
    let rows = csv.lines().rev().map(|row| row.split(',').collect::<Vec<_>>());
    let mut values = rows
        .filter(|row| row.get(4) == Some(&metric))
        .filter_map(|row| row.get(6)?.parse::<f64>().ok());
    values
        .next()
        .ok_or_else(|| format!("{metric} never had a value:\n{csv}"))
}

struct Measured {
    networks: Vec<Network>,
    rounds: Rounds<Found>,
}

impl Measured {
    fn spreads(&self, network: &Network) -> Result<(Spread, Spread)> {
        let name = network.name();
        let latency = self.rounds.spread(&name, |found| found.latency_us)?;
        Ok((latency, self.rounds.spread(&name, |found| found.ns_per_byte)?))
    }

    fn table(&self) -> Result<Table> {
        let mut table = Table::new([
            "network",
            "latency, us",
            "measured",
            "latency / injected",
            "ns a byte",
            "measured",
            "cost / injected",
        ]);
        for network in &self.networks {
            let (latency, per_byte) = self.spreads(network)?;
            table.row(cells![
                network.name(),
                network.latency_us,
                latency,
                latency.over(network.latency_us),
                network.ns_per_byte(),
                per_byte,
                per_byte.over(network.ns_per_byte()),
            ]);
        }
        Ok(table)
    }

    fn claims(&self) -> Result<Vec<Claim>> {
        let claim = |network: &Network| {
            let (latency, per_byte) = self.spreads(network)?;
            let off = |measured: f64, real: f64| 100.0 * (measured / real - 1.0).abs();
            let (one, other) = (
                off(latency.median, network.latency_us),
                off(per_byte.median, network.ns_per_byte()),
            );
            Ok(Claim::of_times(
                format!(
                    "{}: latency {one:.1} %, cost of a byte {other:.1} % off; 10 % are allowed",
                    network.name()
                ),
                one <= 10.0 && other <= 10.0,
            ))
        };
        let mut claims: Vec<Claim> = self.networks.iter().map(claim).collect::<Result<_>>()?;
        let found = |network: &Network| self.rounds.of(&network.name()).iter();
        let mut all = self.networks.iter().flat_map(found);
        claims.push(Claim::of_logic(
            "every run has a latency and a cost of a byte above zero",
            all.all(|found| found.latency_us > 0.0 && found.ns_per_byte > 0.0),
        ));
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_a_note_is_none() {
        let csv = "time_s,rule,window,index,metric,unit,value,least,greatest,note\n1.0,network,iteration,1,latency,s,4.95e-5,0,1,\n\
                   2.0,network,iteration,2,latency,s,0.00102,0,1,\n2.0,network,iteration,2,per_byte,s/B,3.34e-8,0,1,\n\
                   3.0,network,iteration,3,latency,,,,,\"none: no trips, yet\"\n";
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-9;
        assert!(near(last(csv, "latency").unwrap(), 1020e-6));
        assert!(near(last(csv, "per_byte").unwrap(), 33.4e-9));
        assert!(last(csv, "lambda").unwrap_err().contains("never had a value"));
    }

    #[test]
    fn the_largest_message_takes_as_long_on_every_network() {
        for mbs in BANDWIDTHS_MBS {
            let network = Network {
                latency_us: 50.0,
                mbs,
            };
            let arguments = network.arguments(1);
            let payload: f64 = arguments[1].strip_prefix("payload=").unwrap().parse().unwrap();
            let on_its_way_us = payload * TASKS / 2.0 / mbs;
            assert!(
                (LARGEST_US..1.2 * LARGEST_US).contains(&on_its_way_us),
                "{arguments:?}"
            );
        }
    }
}
