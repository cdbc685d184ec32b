//! An event-driven simulation of the detailed model (§3, §4 of S3): whole items, bounded buffers, latency, links,
//! and what is not determined chosen by a seed. It shows what the steady state leaves out: the time to fill, the
//! effect of buffers and latency, and where a program stalls.

mod network;
mod stall;
mod state;

use std::collections::BTreeMap;

use serde::Serialize;

use self::network::Network;

pub use self::stall::Stall;
use syntax::diag::Diagnostic;

use self::state::{SimulationState, SimulationStep};
use super::assess::Assessment;
use super::error::ContractError;
use super::model::Contract;
use super::system::{Feature, System};

/// Maximum number of events of a run, unless the scenario states another.
const EVENTS_MAX: u64 = 20_000_000;
/// Maximum number of activations and items that are under way at a time.
const PENDING_MAX: usize = 1_000_000;
/// After this many events at one moment no time passes any more.
const EVENTS_AT_ONCE_MAX: u64 = 1_000_000;
/// Buffers up to this many times as large are tried if a program stalls.
const LARGER_BUFFERS_MAX: u64 = 64;

/// How long a simulation runs, and what its contract leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The run ends when modules that send nothing have had this many activations …
    pub items: u64,
    /// … or after this many seconds.
    pub duration_s: f64,
    /// Chooses what is not determined: the order of merged items, receivers on demand, and computations.
    pub seed: u64,
    /// Items that a receiver can have waiting, for streams that state no `buffer`.
    pub buffer: u64,
    /// Modules that take nothing keep to their assessed rates, instead of running as fast as they can.
    pub is_paced: bool,
    /// The run ends after this many events in any case.
    pub events_max: u64,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            items: 1000,
            duration_s: f64::INFINITY,
            seed: 1,
            buffer: 16,
            is_paced: false,
            events_max: EVENTS_MAX,
        }
    }
}

/// What a simulated program delivered.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    pub contract: String,
    pub seed: u64,
    /// Seconds until every module that sends nothing had its first item; `None` if one had none.
    pub fill_s: Option<f64>,
    /// Activations of modules that send nothing.
    pub items: u64,
    /// Rates and utilisations are those from here …
    pub measured_from_s: f64,
    /// … to the end of the run.
    pub end_s: f64,
    pub ended: SimulationEnd,
    /// Those of computations first, then those of streams.
    pub rates: Vec<SimulatedRate>,
    pub resources: Vec<SimulatedUse>,
    pub stall: Option<Stall>,
    /// Why there are no expected rates.
    pub not_expected: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SimulationEnd {
    Items,
    Duration,
    /// Nothing could happen any more.
    Stalled,
    /// The maximum number of events was reached.
    Events,
}

/// A rate per second.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedRate {
    pub feature: String,
    pub measured: f64,
    /// How often it happened while it was measured.
    pub count: u64,
    /// The rate of the steady state.
    pub expected: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SimulatedUse {
    pub resource: String,
    pub utilisation: f64,
    pub expected: Option<f64>,
}

impl Contract {
    /// Runs the program.
    ///
    /// # Errors
    /// If a service time is not known, no time passes, or a paced run lacks the rates to keep to.
    pub fn simulate(&self, scenario: &Scenario) -> Result<Simulation, Vec<Diagnostic>> {
        let network = Network::of(self, scenario)?;
        let expected = expected(self, scenario)?;
        let intervals = |unit: &network::Unit| {
            let rate = expected.rates.get(&unit.name).copied();
            rate.filter(|_| scenario.is_paced && unit.takes.is_empty())
                .map(|rate| 1.0 / rate)
        };
        let intervals: Vec<Option<f64>> = network.computations.iter().map(intervals).collect();
        let mut run = Run::new(&network, intervals.clone(), scenario);
        let ended = run.run(scenario).map_err(|why| {
            let wrong = Diagnostic::wrong("E0181", self.span, why.to_string());
            vec![wrong.help("state their `work`, or the `bandwidth` of a link")]
        })?;
        let stall = (ended == SimulationEnd::Stalled).then(|| Stall {
            enough_buffer: match expected.is_deadlock {
                true => None,
                false => enough_buffer(self, scenario, &intervals),
            },
            ..run.state.stall()
        });
        Ok(run.result(self.name(), scenario, ended, stall, expected))
    }
}

/// The smallest buffer of those tried with which the program does not stall.
fn enough_buffer(contract: &Contract, scenario: &Scenario, intervals: &[Option<f64>]) -> Option<u64> {
    let factors = std::iter::successors(Some(2), |factor| Some(factor * 2));
    let mut factors = factors.take_while(|factor| *factor <= LARGER_BUFFERS_MAX);
    let factor = factors.find(|factor| {
        let Ok(mut network) = Network::of(contract, scenario) else {
            return false;
        };
        for stream in &mut network.streams {
            stream.buffer = stream.buffer.saturating_mul(*factor);
        }
        let mut run = Run::new(&network, intervals.to_vec(), scenario);
        run.run(scenario)
            .is_ok_and(|ended| matches!(ended, SimulationEnd::Items | SimulationEnd::Duration))
    })?;
    Some(scenario.buffer * factor)
}

/// What the steady state predicts.
#[derive(Default)]
struct Expected {
    rates: BTreeMap<String, f64>,
    resources: BTreeMap<String, f64>,
    missing: Option<String>,
    /// No buffers are large enough.
    is_deadlock: bool,
}

fn expected(contract: &Contract, scenario: &Scenario) -> Result<Expected, Vec<Diagnostic>> {
    let (assessment, capacity) = match contract.capacity() {
        Ok(found) => found,
        Err(wrong) if scenario.is_paced || wrong.iter().any(|one| one.code == "E0179") => return Err(wrong),
        Err(wrong) => {
            return Ok(Expected {
                is_deadlock: wrong.iter().any(|one| one.code == "E0177"),
                missing: wrong.first().map(|first| first.message.clone()),
                ..Expected::default()
            });
        }
    };
    let mut out = Expected::default();
    if !scenario.is_paced && assessment.degrees_of_freedom > 1 {
        let freedom = assessment.degrees_of_freedom;
        out.missing = Some(format!(
            "{freedom} rates are free, and how fast modules run decides them"
        ));
        return Ok(out);
    }
    let factor = match (scenario.is_paced, capacity.greatest) {
        (true, _) => 1.0,
        (false, Some(greatest)) => greatest / capacity.rate,
        (false, None) => {
            let message = "nothing in the contract takes time, so that its rates have no limit";
            let wrong = Diagnostic::wrong("E0181", contract.span, message);
            return Err(vec![
                wrong.help("state the `work` of modules, or keep to the required rates"),
            ]);
        }
    };
    add_rates(contract, &assessment, "", factor, &mut out.rates);
    let uses = capacity.resources.into_iter();
    out.resources = uses.map(|one| (one.resource, one.utilisation * factor)).collect();
    Ok(out)
}

/// Rates of computations, and of the items that are sent on streams.
fn add_rates(
    contract: &Contract,
    assessment: &Assessment,
    prefix: &str,
    factor: f64,
    out: &mut BTreeMap<String, f64>,
) {
    let system = System::of(contract);
    for (feature, found) in system.features.iter().zip(&assessment.features) {
        let name = match *feature {
            Feature::Activation { module, computation } => {
                contract.modules[module].computation_name(computation)
            }
            Feature::Output { stream, .. } => contract.streams[stream].name.clone(),
            Feature::Input { .. } | Feature::Outside { .. } => continue,
        };
        *out.entry(format!("{prefix}{name}")).or_default() += found.rate * factor;
    }
    for module in &contract.modules {
        if let (Some(part), Some(inner)) = (&module.part, assessment.parts.get(&module.name)) {
            let prefix = format!("{prefix}{}.", module.name);
            add_rates(&contract.parts[part.contract], inner, &prefix, factor, out);
        }
    }
}

/// Counts and times at a moment.
struct Counts {
    at_s: f64,
    finished: Vec<u64>,
    sent: Vec<u64>,
    busy_s: Vec<f64>,
    machines_s: Vec<f64>,
    links_s: Vec<f64>,
}

struct Run<'a> {
    network: &'a Network,
    state: SimulationState<'a>,
    /// For each module, whether it is a sink that had no item yet.
    is_empty_sink: Vec<bool>,
    sinks: Vec<usize>,
    items: u64,
    fill_s: Option<f64>,
    first: Counts,
}

impl<'a> Run<'a> {
    fn new(network: &'a Network, intervals: Vec<Option<f64>>, scenario: &Scenario) -> Run<'a> {
        let state = SimulationState::new(network, intervals, scenario.seed);
        let sinks = network.sinks();
        let mut is_empty_sink = vec![false; network.modules.len()];
        sinks.iter().for_each(|sink| is_empty_sink[*sink] = true);
        Run {
            first: Counts::of(&state),
            network,
            state,
            is_empty_sink,
            items: 0,
            fill_s: sinks.is_empty().then_some(0.0),
            sinks,
        }
    }

    /// Runs until the scenario ends. What is measured begins behind the first half and the transient.
    ///
    /// Fails if modules run without end in no time.
    fn run(&mut self, scenario: &Scenario) -> Result<SimulationEnd, ContractError> {
        let (mut is_measuring, mut moment) = (false, (0.0, 0));
        loop {
            self.state.settle();
            let Some(step) = self.state.step(scenario.duration_s) else {
                return Ok(SimulationEnd::Stalled);
            };
            let SimulationStep::Happened(finished) = step else {
                return Ok(SimulationEnd::Duration);
            };
            let now_s = self.state.now_s;
            if now_s > moment.0 {
                moment = (now_s, self.state.scheduled);
            } else if self.state.scheduled - moment.1 > EVENTS_AT_ONCE_MAX {
                return Err(self.endless());
            }
            if let Some(module) = finished {
                self.count(module);
            }
            if self.items >= scenario.items {
                return Ok(SimulationEnd::Items);
            }
            if self.state.scheduled > scenario.events_max || self.state.pending() > PENDING_MAX {
                return Ok(SimulationEnd::Events);
            }
            let is_half = self.items >= scenario.items / 2 || now_s >= scenario.duration_s / 2.0;
            if !is_measuring && self.fill_s.is_some() && is_half {
                is_measuring = true;
                self.first = Counts::of(&self.state);
            }
        }
    }

    /// Counts an activation, and the first of each sink.
    fn count(&mut self, module: usize) {
        let node = &self.network.modules[module];
        if !self.sinks.contains(&module) || node.is_boundary {
            return;
        }
        self.items += 1;
        if std::mem::replace(&mut self.is_empty_sink[module], false) && !self.is_empty_sink.contains(&true) {
            self.fill_s = Some(self.state.now_s);
        }
    }

    fn endless(&self) -> ContractError {
        let units = self.network.computations.iter().zip(&self.state.units);
        let running =
            units.filter(|(unit, state)| state.finished > 0 && !self.network.modules[unit.module].has_work);
        let names: Vec<String> = running.map(|(unit, _)| format!("`{}`", unit.name)).collect();
        ContractError::Endless {
            modules: super::system::listed(&names, 4),
        }
    }

    fn result(
        self,
        contract: &str,
        scenario: &Scenario,
        ended: SimulationEnd,
        stall: Option<Stall>,
        expected: Expected,
    ) -> Simulation {
        let last = Counts::of(&self.state);
        let span_s = last.at_s - self.first.at_s;
        let rate = |name: &str, first: u64, last: u64| SimulatedRate {
            feature: name.to_owned(),
            measured: share((last - first) as f64, span_s),
            count: last - first,
            expected: expected.rates.get(name).copied(),
        };
        let network = self.network;
        let units = network.computations.iter().enumerate();
        let units = units.filter(|(_, unit)| !network.modules[unit.module].is_boundary);
        let units = units.map(|(at, unit)| rate(&unit.name, self.first.finished[at], last.finished[at]));
        let streams = network
            .streams
            .iter()
            .enumerate()
            .filter(|(_, stream)| !stream.is_boundary);
        let streams = streams.map(|(at, stream)| rate(&stream.name, self.first.sent[at], last.sent[at]));
        let used = |name: &str, first: f64, last: f64, workers: f64| SimulatedUse {
            resource: name.to_owned(),
            utilisation: share(last - first, span_s * workers),
            expected: expected.resources.get(name).copied(),
        };
        let modules = network.modules.iter().enumerate();
        let modules = modules.filter(|(_, node)| node.has_work && node.machine.is_none());
        let modules = modules.map(|(at, node)| {
            let workers = node.slots.iter().map(|slots| f64::from(*slots)).sum();
            used(&node.name, self.first.busy_s[at], last.busy_s[at], workers)
        });
        let machines = network.machines.iter().enumerate();
        let machines = machines.filter(|(_, machine)| !machine.modules.is_empty());
        let machines =
            machines.map(|(at, one)| used(&one.name, self.first.machines_s[at], last.machines_s[at], 1.0));
        let links = network.links.iter().enumerate();
        let links = links.map(|(at, one)| used(&one.name, self.first.links_s[at], last.links_s[at], 1.0));
        Simulation {
            contract: contract.to_owned(),
            seed: scenario.seed,
            fill_s: self.fill_s,
            items: self.items,
            measured_from_s: self.first.at_s,
            end_s: last.at_s,
            ended,
            rates: units.chain(streams).collect(),
            resources: modules.chain(machines).chain(links).collect(),
            stall,
            not_expected: expected.missing,
        }
    }
}

impl Counts {
    fn of(state: &SimulationState<'_>) -> Counts {
        let network = state.network;
        Counts {
            at_s: state.now_s,
            finished: state.units.iter().map(|unit| unit.finished).collect(),
            sent: state.sent.clone(),
            busy_s: (0..network.modules.len())
                .map(|module| state.busy_s(module))
                .collect(),
            machines_s: (0..network.machines.len())
                .map(|machine| state.machine_busy_s(machine))
                .collect(),
            links_s: (0..network.links.len())
                .map(|link| state.link_busy_s(link))
                .collect(),
        }
    }
}

fn share(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of } else { 0.0 }
}
