//! Why nothing happens any more: who waits for whom.

use serde::Serialize;

use super::super::system::cycle_through;
use super::network::Port;
use super::state::SimulationState;

/// A simulated program that stopped for good.
#[derive(Clone, Debug, Serialize)]
pub struct Stall {
    /// Seconds since the start.
    pub at_s: f64,
    /// Modules of which each waits for the next, and the last for the first.
    pub waits: Vec<String>,
    /// The module that has items of one input and waits in vain for those of another.
    pub join: Option<String>,
    /// The items that a receiver must be able to have waiting, so that the program does not stall.
    pub enough_buffer: Option<u64>,
}

/// What holds a module up, and the modules that could end it.
struct Wait {
    text: String,
    on: Vec<usize>,
    /// The inputs that have items, if it waits for others.
    waiting_items: Vec<String>,
}

impl SimulationState<'_> {
    pub(super) fn stall(&self) -> Stall {
        let waits: Vec<Vec<Wait>> = (0..self.network.modules.len())
            .map(|module| self.waits(module))
            .collect();
        let next = |module: usize| waits[module].iter().flat_map(|wait| wait.on.clone()).collect();
        let cycles = (0..waits.len()).filter_map(|module| cycle_through(waits.len(), module, next));
        let cycle = cycles.min_by_key(Vec::len).unwrap_or_default();
        let on_cycle = |module: usize, next: usize| waits[module].iter().find(|wait| wait.on.contains(&next));
        let held_up: Vec<&Wait> = cycle
            .iter()
            .zip(cycle.iter().cycle().skip(1))
            .filter_map(|(module, next)| on_cycle(*module, *next))
            .collect();
        let mut joins = cycle.iter().zip(&held_up);
        let join = joins.find(|(_, wait)| !wait.waiting_items.is_empty());
        Stall {
            at_s: self.now_s,
            join: join.map(|(module, wait)| {
                let name = &self.network.modules[*module].name;
                format!(
                    "{name} has items of {}, and {}",
                    wait.waiting_items.join(" and "),
                    wait.text
                )
            }),
            waits: cycle
                .iter()
                .zip(&held_up)
                .map(|(module, wait)| format!("{} {}", self.network.modules[*module].name, wait.text))
                .collect(),
            enough_buffer: None,
        }
    }

    /// A module waits for room if it has items to send, otherwise for the inputs of its computations.
    fn waits(&self, module: usize) -> Vec<Wait> {
        let mut full = Vec::new();
        let mut empty = Vec::new();
        for &unit in &self.network.modules[module].computations {
            let of = &self.network.computations[unit];
            for ((stream, _, _), unsent) in of.gives.iter().zip(&self.units[unit].unsent) {
                let channel = &self.network.streams[*stream];
                let ports =
                    (0..channel.ports.len()).filter(|port| *unsent > 0 && !self.has_room(*stream, *port));
                full.extend(ports.map(|port| Wait {
                    text: format!(
                        "cannot send on `{}`, which has {} items for {}",
                        channel.name,
                        self.buffers[*stream][port].held,
                        self.names(&channel.ports[port])
                    ),
                    on: channel.ports[port].clone(),
                    waiting_items: Vec::new(),
                }));
            }
            let has = |port: &&Port| self.buffers[port.stream][port.port].present > 0;
            let stream = |port: &Port| &self.network.streams[port.stream];
            let present: Vec<String> = of
                .takes
                .iter()
                .filter(has)
                .map(|port| format!("`{}`", stream(port).name))
                .collect();
            empty.extend(of.takes.iter().filter(|port| !has(port)).map(|port| Wait {
                text: format!(
                    "waits for `{}` from {}",
                    stream(port).name,
                    self.names(&stream(port).from)
                ),
                on: stream(port).from.clone(),
                waiting_items: present.clone(),
            }));
        }
        if full.is_empty() { empty } else { full }
    }

    fn names(&self, modules: &[usize]) -> String {
        let names: Vec<&str> = modules
            .iter()
            .map(|module| self.network.modules[*module].name.as_str())
            .collect();
        names.join(" and ")
    }
}
