//! An event-driven simulator of the detailed model (§3, §4 of S3): modules with one worker and a constant
//! service time, bounded buffers at the receivers, whole items. The oracle of the steady state.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A module: the streams that an activation takes one item of, and what it sends.
#[derive(Clone, Debug)]
pub(super) struct Module {
    pub(super) service_time: u64,
    pub(super) takes: Vec<usize>,
    /// Streams, each with items per activation as a fraction.
    pub(super) gives: Vec<(usize, (u64, u64))>,
}

/// A stream: its receivers, each of which gets every item.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) to: Vec<usize>,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Run {
    /// Activations of each module in the second half.
    pub(super) counts: Vec<u64>,
    /// Nothing could happen any more before the end.
    pub(super) stalled: bool,
}

/// A program in execution.
struct State<'a> {
    modules: &'a [Module],
    streams: &'a [Stream],
    /// Items in the buffer of each receiver of each stream.
    buffers: Vec<Vec<u64>>,
    /// Fractions of items that were not sent yet, in parts of the denominator.
    credit: Vec<Vec<u64>>,
    /// Items that a finished activation has to send before the next can begin.
    unsent: Vec<Vec<u64>>,
    busy: Vec<bool>,
    capacity: u64,
}

/// Runs a program for `end` units of time, with buffers of this capacity.
pub(super) fn run(modules: &[Module], streams: &[Stream], capacity: u64, end: u64) -> Run {
    let mut state = State {
        modules,
        streams,
        buffers: streams.iter().map(|stream| vec![0; stream.to.len()]).collect(),
        credit: modules.iter().map(|module| vec![0; module.gives.len()]).collect(),
        unsent: modules.iter().map(|module| vec![0; module.gives.len()]).collect(),
        busy: vec![false; modules.len()],
        capacity,
    };
    let mut events: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut counts = vec![0; modules.len()];
    let mut now = 0;
    loop {
        state.advance(|module, time| events.push(Reverse((now + time, module))));
        let Some(Reverse((time, module))) = events.pop() else {
            return Run {
                counts,
                stalled: true,
            };
        };
        if time > end {
            return Run {
                counts,
                stalled: false,
            };
        }
        now = time;
        state.finish(module);
        if now > end / 2 {
            counts[module] += 1;
        }
    }
}

impl State<'_> {
    /// An activation ends: whole items are to be sent.
    fn finish(&mut self, module: usize) {
        self.busy[module] = false;
        for (output, (_, (over, under))) in self.modules[module].gives.iter().enumerate() {
            let credit = &mut self.credit[module][output];
            *credit += over;
            self.unsent[module][output] += *credit / under;
            *credit %= under;
        }
    }

    /// Sends and begins whatever is possible, until nothing is.
    fn advance(&mut self, mut begin: impl FnMut(usize, u64)) {
        let mut changed = true;
        while changed {
            changed = false;
            for module in 0..self.modules.len() {
                changed |= self.send(module);
                if self.can_begin(module) {
                    self.take(module);
                    self.busy[module] = true;
                    begin(module, self.modules[module].service_time);
                    changed = true;
                }
            }
        }
    }

    fn send(&mut self, module: usize) -> bool {
        let mut sent = false;
        for (output, (stream, _)) in self.modules[module].gives.iter().enumerate() {
            let buffers = &mut self.buffers[*stream];
            while self.unsent[module][output] > 0 && buffers.iter().all(|items| *items < self.capacity) {
                self.unsent[module][output] -= 1;
                buffers.iter_mut().for_each(|items| *items += 1);
                sent = true;
            }
        }
        sent
    }

    fn can_begin(&self, module: usize) -> bool {
        let has = |stream: &usize| {
            let receiver = self.streams[*stream].to.iter().position(|to| *to == module);
            receiver.is_some_and(|receiver| self.buffers[*stream][receiver] > 0)
        };
        let is_free = !self.busy[module] && self.unsent[module].iter().all(|items| *items == 0);
        is_free && self.modules[module].takes.iter().all(has)
    }

    fn take(&mut self, module: usize) {
        for stream in &self.modules[module].takes {
            let receivers = self.streams[*stream].to.iter();
            for (receiver, _) in receivers.enumerate().filter(|(_, to)| **to == module) {
                self.buffers[*stream][receiver] -= 1;
            }
        }
    }
}
