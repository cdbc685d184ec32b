//! A network in execution: items in buffers, activations, and the events that change them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use fastrand::Rng;

use super::network::{Network, Port};

pub(super) struct SimulationState<'a> {
    pub(super) network: &'a Network,
    pub(super) now_s: f64,
    pub(super) buffers: Vec<Vec<Buffer>>,
    pub(super) units: Vec<UnitState>,
    pub(super) modules: Vec<ModuleState>,
    /// Whether a shared machine runs an activation.
    machines: Vec<Busy>,
    /// When each link will have sent all that it was given, and how long it takes in total.
    links: Vec<(f64, f64)>,
    /// Items sent on each stream.
    pub(super) sent: Vec<u64>,
    /// Seconds between two activations of a computation that starts by itself.
    intervals_s: Vec<Option<f64>>,
    events: BinaryHeap<Reverse<ScheduledEvent>>,
    /// Events scheduled since the start.
    pub(super) scheduled: u64,
    /// Modules that may be able to do something.
    ready: Vec<usize>,
    is_ready: Vec<bool>,
    random: Rng,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Buffer {
    /// Items that are there.
    pub(super) present: u64,
    /// Items that are there or on the way.
    pub(super) held: u64,
}

pub(super) struct UnitState {
    /// For each stream, the part of an item that was produced and not sent, in parts of its denominator.
    credit: Vec<u64>,
    /// For each stream, items that a finished activation has to send before its module can begin another.
    pub(super) unsent: Vec<u64>,
    pub(super) finished: u64,
    /// When it may begin again, if it is paced.
    next_s: f64,
    is_waiting_for_time: bool,
}

pub(super) struct ModuleState {
    free: Vec<u32>,
    busy: Busy,
}

/// How many workers are busy, and the total time that they were.
#[derive(Clone, Copy, Default)]
struct Busy {
    workers: u32,
    since_s: f64,
    total_s: f64,
}

impl Busy {
    fn change(&mut self, now_s: f64, by: i32) {
        self.total_s = self.total(now_s);
        self.since_s = now_s;
        self.workers = self.workers.saturating_add_signed(by);
    }

    fn total(&self, now_s: f64) -> f64 {
        self.total_s + f64::from(self.workers) * (now_s - self.since_s)
    }
}

struct ScheduledEvent {
    time_s: f64,
    /// Events at the same time happen in the order in which they were scheduled.
    number: u64,
    happening: Happening,
}

impl Ord for ScheduledEvent {
    fn cmp(&self, other: &ScheduledEvent) -> Ordering {
        let by_time = self.time_s.total_cmp(&other.time_s);
        by_time.then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &ScheduledEvent) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &ScheduledEvent) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ScheduledEvent {}

enum Happening {
    Finish {
        unit: usize,
        slot: usize,
    },
    /// An item of a stream has crossed this many of its links, or has arrived.
    Crossed {
        port: Port,
        links: usize,
    },
    Arrive(Port),
    MayBegin {
        unit: usize,
    },
}

impl<'a> SimulationState<'a> {
    /// `intervals_s` has the seconds between two activations of computations that are paced.
    pub(super) fn new(network: &'a Network, intervals_s: Vec<Option<f64>>, seed: u64) -> SimulationState<'a> {
        let buffers = network.streams.iter().map(|stream| {
            let initial = Buffer {
                present: stream.initial,
                held: stream.initial,
            };
            vec![initial; stream.ports.len()]
        });
        let units = network.computations.iter().map(|unit| UnitState {
            credit: vec![0; unit.gives.len()],
            unsent: vec![0; unit.gives.len()],
            finished: 0,
            next_s: 0.0,
            is_waiting_for_time: false,
        });
        let modules = network.modules.iter().map(|node| ModuleState {
            free: node.slots.clone(),
            busy: Busy::default(),
        });
        SimulationState {
            now_s: 0.0,
            buffers: buffers.collect(),
            units: units.collect(),
            modules: modules.collect(),
            machines: vec![Busy::default(); network.machines.len()],
            links: vec![(0.0, 0.0); network.links.len()],
            sent: vec![0; network.streams.len()],
            intervals_s,
            events: BinaryHeap::new(),
            scheduled: 0,
            ready: (0..network.modules.len()).collect(),
            is_ready: vec![true; network.modules.len()],
            random: Rng::with_seed(seed),
            network,
        }
    }

    /// Does whatever is possible now. Modules take turns in random order: which of several senders is merged
    /// first, which receiver gets an item on demand, and which computation begins, is not determined.
    pub(super) fn settle(&mut self) {
        while !self.ready.is_empty() {
            let chosen = self.below(self.ready.len());
            let module = self.ready.swap_remove(chosen);
            self.is_ready[module] = false;
            if self.send(module) {
                while self.begin(module) {}
            }
        }
    }

    /// Lets the next event happen, unless it is later than `end_s`. `None` if there is none any more.
    pub(super) fn step(&mut self, end_s: f64) -> Option<SimulationStep> {
        let Reverse(next) = self.events.peek()?;
        if next.time_s > end_s {
            self.now_s = end_s;
            return Some(SimulationStep::End);
        }
        let Reverse(event) = self.events.pop()?;
        self.now_s = event.time_s;
        let finished = match event.happening {
            Happening::Finish { unit, slot } => {
                self.finish(unit, slot);
                Some(self.network.computations[unit].module)
            }
            Happening::Crossed { port, links } => {
                self.cross(port, links);
                None
            }
            Happening::Arrive(port) => {
                self.arrive(port);
                None
            }
            Happening::MayBegin { unit } => {
                self.units[unit].is_waiting_for_time = false;
                self.wake(self.network.computations[unit].module);
                None
            }
        };
        Some(SimulationStep::Happened(finished))
    }

    /// Seconds that workers of a module were busy.
    pub(super) fn busy_s(&self, module: usize) -> f64 {
        self.modules[module].busy.total(self.now_s)
    }

    pub(super) fn machine_busy_s(&self, machine: usize) -> f64 {
        self.machines[machine].total(self.now_s)
    }

    pub(super) fn link_busy_s(&self, link: usize) -> f64 {
        let (free_s, total_s) = self.links[link];
        total_s - (free_s - self.now_s).max(0.0)
    }

    pub(super) fn pending(&self) -> usize {
        self.events.len()
    }

    pub(super) fn has_room(&self, stream: usize, port: usize) -> bool {
        self.buffers[stream][port].held < self.network.streams[stream].buffer
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.usize(..limit.max(1))
    }

    fn wake(&mut self, module: usize) {
        if !std::mem::replace(&mut self.is_ready[module], true) {
            self.ready.push(module);
        }
    }

    fn schedule(&mut self, time_s: f64, happening: Happening) {
        let number = self.scheduled;
        self.scheduled += 1;
        self.events.push(Reverse(ScheduledEvent {
            time_s,
            number,
            happening,
        }));
    }

    /// Sends what finished activations have produced. Returns whether all of it could be sent.
    fn send(&mut self, module: usize) -> bool {
        let network = self.network;
        let mut is_all = true;
        for &unit in &network.modules[module].computations {
            for (output, (stream, _, _)) in network.computations[unit].gives.iter().enumerate() {
                let ports = network.streams[*stream].ports.len();
                while self.units[unit].unsent[output] > 0 {
                    if !(0..ports).all(|port| self.has_room(*stream, port)) {
                        is_all = false;
                        break;
                    }
                    self.units[unit].unsent[output] -= 1;
                    self.sent[*stream] += 1;
                    (0..ports).for_each(|port| {
                        self.transmit(Port {
                            stream: *stream,
                            port,
                        })
                    });
                }
            }
        }
        is_all
    }

    fn transmit(&mut self, port: Port) {
        self.buffers[port.stream][port.port].held += 1;
        self.cross(port, 0);
    }

    /// An item that has crossed some links of its stream goes on to the next, which carries one item at a time.
    fn cross(&mut self, port: Port, links: usize) {
        let stream = &self.network.streams[port.stream];
        if let Some(&link) = stream.links.get(links) {
            let time_s = stream.item_bytes / self.network.links[link].bytes_per_s;
            let (free_s, total_s) = &mut self.links[link];
            *free_s = free_s.max(self.now_s) + time_s;
            *total_s += time_s;
            let at_s = *free_s;
            let links = links + 1;
            self.schedule(at_s, Happening::Crossed { port, links });
        } else if stream.latency_s > 0.0 {
            self.schedule(self.now_s + stream.latency_s, Happening::Arrive(port));
        } else {
            self.arrive(port);
        }
    }

    fn arrive(&mut self, port: Port) {
        self.buffers[port.stream][port.port].present += 1;
        let network = self.network;
        for &receiver in &network.streams[port.stream].ports[port.port] {
            self.wake(receiver);
        }
    }

    /// Begins one activation of a module, if it can.
    fn begin(&mut self, module: usize) -> bool {
        let network = self.network;
        let node = &network.modules[module];
        if node
            .machine
            .is_some_and(|machine| self.machines[machine].workers > 0)
        {
            return false;
        }
        let able = |state: &mut Self, unit: &usize| state.has_inputs(*unit) && state.is_time(*unit);
        let able: Vec<usize> = match node.computations.as_slice() {
            [unit] => able(self, unit).then_some(*unit).into_iter().collect(),
            several => several.iter().copied().filter(|unit| able(self, unit)).collect(),
        };
        if able.is_empty() {
            return false;
        }
        let unit = able[self.below(able.len())];
        let times = &network.computations[unit].times_s;
        let free = self.modules[module].free.iter().zip(times).enumerate();
        let free = free.filter(|(_, (free, _))| **free > 0);
        let Some((slot, (_, time_s))) = free.min_by(|(_, a), (_, b)| a.1.total_cmp(b.1)) else {
            return false;
        };
        let end_s = self.now_s + time_s;
        self.modules[module].free[slot] -= 1;
        self.modules[module].busy.change(self.now_s, 1);
        if let Some(machine) = node.machine {
            self.machines[machine].change(self.now_s, 1);
        }
        if let Some(interval_s) = self.intervals_s[unit] {
            self.units[unit].next_s += interval_s;
        }
        for port in &network.computations[unit].takes {
            self.take(*port);
        }
        self.schedule(end_s, Happening::Finish { unit, slot });
        true
    }

    fn has_inputs(&self, unit: usize) -> bool {
        let mut takes = self.network.computations[unit].takes.iter();
        takes.all(|port| self.buffers[port.stream][port.port].present > 0)
    }

    /// Whether a paced computation may begin; otherwise it is woken when it may.
    fn is_time(&mut self, unit: usize) -> bool {
        let next_s = self.units[unit].next_s;
        if next_s <= self.now_s {
            return true;
        }
        let is_known = std::mem::replace(&mut self.units[unit].is_waiting_for_time, true);
        if !is_known && next_s.is_finite() {
            self.schedule(next_s, Happening::MayBegin { unit });
        }
        false
    }

    /// A worker takes an item out of a buffer. Senders have room then.
    fn take(&mut self, port: Port) {
        let buffer = &mut self.buffers[port.stream][port.port];
        buffer.present -= 1;
        buffer.held -= 1;
        let network = self.network;
        for &sender in &network.streams[port.stream].from {
            self.wake(sender);
        }
    }

    /// An activation ends; whole items are to be sent.
    fn finish(&mut self, unit: usize, slot: usize) {
        let network = self.network;
        let of = &network.computations[unit];
        let state = &mut self.units[unit];
        state.finished += 1;
        for (output, (_, over, under)) in of.gives.iter().enumerate() {
            let credit = state.credit[output] + over;
            state.unsent[output] = state.unsent[output].saturating_add(credit / under);
            state.credit[output] = credit % under;
        }
        self.modules[of.module].free[slot] += 1;
        self.modules[of.module].busy.change(self.now_s, -1);
        self.wake(of.module);
        if let Some(machine) = network.modules[of.module].machine {
            self.machines[machine].change(self.now_s, -1);
            for &sharing in &network.machines[machine].modules {
                self.wake(sharing);
            }
        }
    }
}

/// What a step did.
pub(super) enum SimulationStep {
    /// An event; if an activation finished, that of this module.
    Happened(Option<usize>),
    /// Nothing more happens before the end.
    End,
}
