//! What a simulation runs: the graph of a contract with those of its parts, times, buffers and links.

use syntax::diag::Diagnostic;

use super::super::capacity::own_machine;
use super::super::error::{ContractError, unknown};
use super::super::exact::Exact;
use super::super::model::{Contract, Module, ModuleKind};
use super::super::service::{efficiency, time_with, times_of, workers};
use super::Scenario;

/// Greatest numerator and denominator of items per activation, so that sums of them cannot overflow.
const FRACTION_MAX: i128 = 1 << 62;

#[derive(Default)]
pub(super) struct Network {
    pub(super) modules: Vec<SimulatedModule>,
    pub(super) computations: Vec<Unit>,
    pub(super) streams: Vec<Channel>,
    pub(super) machines: Vec<SharedMachine>,
    pub(super) links: Vec<Wire>,
}

/// A module, or the boundary between a module and a contract of its own.
pub(super) struct SimulatedModule {
    pub(super) name: String,
    pub(super) is_boundary: bool,
    pub(super) computations: Vec<usize>,
    /// Activations that may run side by side, for each kind of machine.
    pub(super) slots: Vec<u32>,
    pub(super) machine: Option<usize>,
    pub(super) has_work: bool,
}

/// A machine, which runs one activation at a time, of any of its modules.
pub(super) struct SharedMachine {
    pub(super) name: String,
    pub(super) modules: Vec<usize>,
}

/// A computation of a module.
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) module: usize,
    pub(super) takes: Vec<Port>,
    /// Streams, each with the items of an activation as a fraction.
    pub(super) gives: Vec<(usize, u64, u64)>,
    /// Service time in seconds, for each kind of machine of the module.
    pub(super) times_s: Vec<f64>,
}

/// A buffer of a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) stream: usize,
    pub(super) port: usize,
}

pub(super) struct Channel {
    pub(super) name: String,
    pub(super) is_boundary: bool,
    pub(super) from: Vec<usize>,
    /// The receivers of each buffer: one has a buffer of its own, but receivers on demand share one.
    pub(super) ports: Vec<Vec<usize>>,
    pub(super) buffer: u64,
    pub(super) initial: u64,
    pub(super) latency_s: f64,
    pub(super) item_bytes: f64,
    pub(super) links: Vec<usize>,
}

pub(super) struct Wire {
    pub(super) name: String,
    pub(super) bytes_per_s: f64,
}

impl Network {
    pub(super) fn of(contract: &Contract, scenario: &Scenario) -> Result<Network, Vec<Diagnostic>> {
        let mut network = Network::default();
        network.level(contract, "", scenario)?;
        Ok(network)
    }

    /// Modules that send nothing; all if each sends something.
    pub(super) fn sinks(&self) -> Vec<usize> {
        let sends = |unit: &usize| !self.computations[*unit].gives.is_empty();
        let modules = (0..self.modules.len()).filter(|at| !self.modules[*at].is_boundary);
        let (sinks, others): (Vec<usize>, Vec<usize>) =
            modules.partition(|at| !self.modules[*at].computations.iter().any(sends));
        if sinks.is_empty() { others } else { sinks }
    }

    /// Adds a contract and its parts, whose names begin with `prefix`. Returns the index of its first stream.
    fn level(
        &mut self,
        contract: &Contract,
        prefix: &str,
        scenario: &Scenario,
    ) -> Result<usize, Vec<Diagnostic>> {
        let (modules, streams) = (self.modules.len(), self.streams.len());
        let (machines, links) = (self.machines.len(), self.links.len());
        let named = |name: &str| format!("{prefix}{name}");
        self.machines
            .extend(contract.machines.iter().map(|one| SharedMachine {
                name: format!("{prefix}machine {}", one.name),
                modules: Vec::new(),
            }));
        self.links.extend(contract.links.iter().map(|one| Wire {
            name: format!("{prefix}link {}", one.name),
            bytes_per_s: one.bytes_per_s,
        }));
        for (at, one) in contract.streams.iter().enumerate() {
            let to = |module: &usize| modules + module;
            let receivers: Vec<usize> = one.to.iter().map(to).collect();
            let carries = contract.links.iter().enumerate();
            let carries = carries.filter(|(_, link)| link.streams.contains(&at));
            self.streams.push(Channel {
                name: named(&one.name),
                is_boundary: one.from.is_empty() || one.to.is_empty(),
                from: one.from.iter().map(to).collect(),
                ports: match one.on_demand {
                    true => vec![receivers],
                    false => receivers.into_iter().map(|receiver| vec![receiver]).collect(),
                },
                buffer: one.buffer.map_or(scenario.buffer, u64::from),
                initial: one.initial.map_or(0, u64::from),
                latency_s: one.latency_s.unwrap_or_default(),
                item_bytes: one.item_bytes.unwrap_or_default(),
                links: carries.map(|(link, _)| links + link).collect(),
            });
        }
        for (index, module) in contract.modules.iter().enumerate() {
            let place = SubNetwork {
                contract,
                prefix,
                streams,
                machines,
            };
            self.module(&place, index, module)
                .map_err(|why| vec![unknown(module, &why)])?;
        }
        for (index, module) in contract.modules.iter().enumerate() {
            if let Some(part) = &module.part {
                let inner = &contract.parts[part.contract];
                let first = self.level(inner, &named(&format!("{}.", module.name)), scenario)?;
                for (outer, stream) in &part.map {
                    self.boundary(modules + index, streams + outer, first + stream);
                }
            }
        }
        Ok(streams)
    }

    fn module(&mut self, place: &SubNetwork<'_>, index: usize, module: &Module) -> Result<(), ContractError> {
        let at = self.modules.len();
        let contract = place.contract;
        let (machines, count) = match module.has_work() {
            true => workers(module)?,
            false => (Vec::new(), 1),
        };
        let shares_activations = module.kind == ModuleKind::DataParallel;
        let mut computations = Vec::new();
        for (number, computation) in module.computations.iter().enumerate() {
            let times_s = match computation.work {
                None if shares_activations => vec![0.0],
                None => vec![0.0; machines.len().max(1)],
                // All workers have a share of each activation.
                Some(work) if shares_activations => {
                    vec![time_with(contract, module, work, &machines, count)?]
                }
                Some(work) => times_of(contract, module, work, &machines)?
                    .into_iter()
                    .map(|time| Ok(time / efficiency(module, count)?))
                    .collect::<Result<Vec<f64>, ContractError>>()?,
            };
            let mut gives = Vec::new();
            for (stream, items) in &computation.gives {
                let (over, under) = fraction(*items, module)?;
                gives.push((place.streams + stream, over, under));
            }
            computations.push(self.computations.len());
            self.computations.push(Unit {
                name: format!("{}{}", place.prefix, module.computation_name(number)),
                module: at,
                takes: computation
                    .takes
                    .iter()
                    .map(|stream| place.port(*stream, index))
                    .collect(),
                gives,
                times_s,
            });
        }
        let slots = match (shares_activations, machines.as_slice()) {
            (true, _) => vec![1],
            (false, []) => vec![count],
            (false, machines) => machines.iter().map(|(_, count)| *count).collect(),
        };
        let machine = own_machine(contract, module).filter(|_| module.has_work());
        let machine = machine.map(|machine| place.machines + machine);
        if let Some(machine) = machine {
            self.machines[machine].modules.push(at);
        }
        self.modules.push(SimulatedModule {
            name: format!("{}{}", place.prefix, module.name),
            is_boundary: module.part.is_some(),
            computations,
            slots,
            machine,
            has_work: module.has_work(),
        });
        Ok(())
    }

    /// Items cross the boundary between a stream of a module and the stream of its own contract that it is. Each
    /// crossing is a module that takes no time, so that a full stream does not hold up the others.
    fn boundary(&mut self, module: usize, outer: usize, inner: usize) {
        let goes_in = self.streams[inner].from.is_empty();
        let (node, unit) = (self.modules.len(), self.computations.len());
        let outer_port = self.streams[outer].port_of(module);
        let port = match goes_in {
            true => {
                self.streams[inner].from = vec![node];
                let receivers = &mut self.streams[outer].ports[outer_port];
                receivers
                    .iter_mut()
                    .filter(|to| **to == module)
                    .for_each(|to| *to = node);
                outer_port
            }
            false => {
                self.streams[inner].ports = vec![vec![node]];
                let senders = &mut self.streams[outer].from;
                senders
                    .iter_mut()
                    .filter(|from| **from == module)
                    .for_each(|from| *from = node);
                0
            }
        };
        let (stream, given) = if goes_in { (outer, inner) } else { (inner, outer) };
        let name = self.modules[module].name.clone();
        self.modules.push(SimulatedModule {
            name: name.clone(),
            is_boundary: true,
            computations: vec![unit],
            slots: vec![1],
            machine: None,
            has_work: false,
        });
        self.computations.push(Unit {
            name,
            module: node,
            takes: vec![Port { stream, port }],
            gives: vec![(given, 1, 1)],
            times_s: vec![0.0],
        });
    }
}

/// Where the streams and machines of a contract begin in the network.
struct SubNetwork<'a> {
    contract: &'a Contract,
    prefix: &'a str,
    streams: usize,
    machines: usize,
}

impl SubNetwork<'_> {
    fn port(&self, stream: usize, module: usize) -> Port {
        let one = &self.contract.streams[stream];
        let port = match one.on_demand {
            true => 0,
            false => one.to.iter().position(|to| *to == module).unwrap_or_default(),
        };
        Port {
            stream: self.streams + stream,
            port,
        }
    }
}

impl Channel {
    fn port_of(&self, module: usize) -> usize {
        let found = self.ports.iter().position(|to| to.contains(&module));
        found.unwrap_or_default()
    }
}

fn fraction(items: Exact, module: &Module) -> Result<(u64, u64), ContractError> {
    let small = |value: i128| {
        (value <= FRACTION_MAX)
            .then(|| u64::try_from(value).ok())
            .flatten()
    };
    small(*items.numer())
        .zip(small(*items.denom()))
        .ok_or_else(|| ContractError::TooManyDigits {
            module: module.name.clone(),
        })
}
