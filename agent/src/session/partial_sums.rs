//! Passes partial sums of the kernel side to the rules: read after a separating hit, or as the kernel side
//! sends them. [`SumReadings`] determines what is new.

use probe::Probes;
use probe::kernel::{Kernel, SumReadings};
use profile::EventsView;

use crate::rulebook::RuleBook;

/// The state of reading partial sums.
#[derive(Default)]
pub(super) struct PartialSums {
    partial_sums: SumReadings,
    /// Number of hits, by how they reached the rules.
    pub(super) events: EventsView,
}

impl PartialSums {
    /// Reads the partial sums of the processes in these slots. Returns false while one of them is being
    /// written.
    pub(super) fn read(
        &mut self,
        probes: &Probes,
        rules: &mut RuleBook,
        slots: impl Iterator<Item = u32>,
        now_ns: u64,
    ) -> bool {
        let Some(kernel) = probes.kernel() else {
            return true;
        };
        let numbers: Vec<u16> = probes.partial_sums().collect();
        let (list, events) = (probes.list(), &mut self.events);
        let hear = |partial_sum: abi::SumCell| {
            events.aggregated += partial_sum.count;
            if let Some(probe) = list.get(partial_sum.probe as usize) {
                rules.observe_partial_sum(&partial_sum, probe);
            }
        };
        let cells = slots.flat_map(|slot| numbers.iter().map(move |number| (slot, *number)));
        self.partial_sums.read(kernel, now_ns, cells, hear)
    }

    /// Handles a partial sum that the kernel side sent because it needed the room.
    pub(super) fn hand_over(&mut self, partial_sum: abi::SumCell, probes: &Probes, rules: &mut RuleBook) {
        let Some(more) = self.partial_sums.hand_over(partial_sum) else {
            return;
        };
        self.events.aggregated += more.count;
        if let Some(probe) = probes.list().get(partial_sum.probe as usize) {
            rules.observe_partial_sum(&more, probe);
        }
    }

    /// How hits have reached the rules so far.
    pub(super) fn view(&self, kernel: Option<&Kernel>) -> EventsView {
        EventsView {
            sent_alone: kernel.map(Kernel::sent_alone).unwrap_or_default(),
            ..self.events
        }
    }
}
