//! What the kernel side has added up of hits, handed on to the rules: read where a hit has parted it, or as the kernel side hands it over.
//! What has come since the last time is found out by [`Tallies`].

use super::Session;
use crate::{
    clock::monotonic_ns,
    kernel::{Kernel, KernelError, Tallies},
    snapshot::EventsView,
};

/// How often it is tried at the end of a session to read what is being written.
const LAST_LOOKS: usize = 100;

/// What is kept of it.
#[derive(Default)]
pub(super) struct Added {
    tallies: Tallies,
    /// How much came of it, and by itself.
    pub(super) events: EventsView,
}

impl Session {
    /// Reads what was added up until now, if a hit has parted it that was not covered by a watermark. False while something of it is
    /// being written.
    pub(super) fn read_parted(&mut self) -> Result<bool, KernelError> {
        if !self.rules.has_parted() {
            return Ok(true);
        }
        // Those of whom nothing but this is known yet.
        self.take_comings();
        Ok(self.read_added())
    }

    /// Reads what was added up until now; the rules may have it at any time. False while something of it is being written.
    pub(super) fn read_added(&mut self) -> bool {
        let Some(kernel) = self.probes.kernel() else {
            return true;
        };
        let numbers: Vec<u16> = self.probes.tallies().collect();
        let (probes, rules, events) = (self.probes.list(), &mut self.rules, &mut self.added.events);
        let hear = |tally: abi::Tally| {
            events.added_up += tally.count;
            if let Some(probe) = probes.get(tally.probe as usize) {
                rules.observe_tally(&tally, probe);
            }
        };
        let cells = self
            .profile
            .processes
            .iter()
            .flat_map(|process| numbers.iter().map(|number| (process.slot, *number)));
        self.added.tallies.read(kernel, monotonic_ns(), cells, hear)
    }

    /// At the end of a session: who writes then is waited for a moment, and missing from then on.
    pub(super) fn read_last(&mut self) -> Result<(), KernelError> {
        for _ in 0..LAST_LOOKS {
            if self.read_parted()? {
                return Ok(());
            }
            std::thread::yield_now();
        }
        self.lose_hits();
        Ok(())
    }

    /// The kernel side needed the place of what it had added up.
    pub(super) fn take_handed_over(&mut self, tally: abi::Tally) {
        self.meet(tally.process);
        let Some(more) = self.added.tallies.hand_over(tally) else {
            return;
        };
        self.added.events.added_up += more.count;
        if let Some(probe) = self.probes.list().get(tally.probe as usize) {
            self.rules.observe_tally(&more, probe);
        }
    }

    /// How hits came to the rules, so far.
    pub(super) fn events_told(&self) -> EventsView {
        let sent_alone = self.probes.kernel().map(Kernel::sent_alone);
        EventsView {
            sent_alone: sent_alone.unwrap_or_default(),
            ..self.added.events
        }
    }
}
