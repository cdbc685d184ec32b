//! How long single calls of the functions take that the user named: histograms, from hits. Number and mean are the kernel side's and are
//! of all calls; of hits only so many are taken, so that a function that is called a million times a second costs no more than any
//! other. When that is reached, the kernel side sends none until the next tick.

use std::collections::{BTreeMap, BTreeSet};

use abi::{Hit, HitKind};

use super::probes::Probes;
use crate::{
    kernel::KernelError,
    snapshot::{Histogram, ProcessView},
};

/// Hits that are taken between two ticks: 10 000 a second, over all functions and processes.
const HITS_PER_TICK: u32 = 5_000;

/// The histograms of a session.
#[derive(Debug, Default)]
pub(super) struct Durations {
    /// The probes of the functions that were named and can be timed.
    asked: BTreeSet<u32>,
    taken: u32,
    is_silent: bool,
    /// By process's slot and probe.
    known: BTreeMap<(u32, u32), Histogram>,
}

impl Durations {
    /// Of the functions that these of the wanted ask for.
    pub(super) fn of(probes: &Probes, plain: &std::ops::Range<usize>) -> Durations {
        let asked = probes.list().iter().zip(0..).filter(|(probe, _)| {
            let is_named = probe.wanted.iter().any(|want| plain.contains(want));
            is_named && probe.is_timed()
        });
        Durations {
            asked: asked.map(|(_, probe)| probe).collect(),
            ..Durations::default()
        }
    }

    /// One hit; true when no more are wanted before the next tick.
    pub(super) fn add(&mut self, hit: &Hit) -> bool {
        if !self.asked.contains(&hit.probe)
            || hit.kind != HitKind::Return as u16
            || hit.duration_ns == abi::NO_DURATION
        {
            return false;
        }
        let histogram = self.known.entry((hit.process, hit.probe)).or_default();
        histogram.add(hit.duration_ns);
        self.taken += 1;
        self.taken >= HITS_PER_TICK && !self.is_silent
    }

    /// Enough for now.
    pub(super) fn silence(
        &mut self,
        probes: &mut Probes,
        plain: &std::ops::Range<usize>,
    ) -> Result<(), KernelError> {
        self.is_silent = true;
        self.asked
            .iter()
            .try_for_each(|probe| probes.send_returns(*probe, false, plain))
    }

    /// A new tick.
    pub(super) fn go_on(
        &mut self,
        probes: &mut Probes,
        plain: &std::ops::Range<usize>,
    ) -> Result<(), KernelError> {
        self.taken = 0;
        if !std::mem::take(&mut self.is_silent) {
            return Ok(());
        }
        self.asked
            .iter()
            .try_for_each(|probe| probes.send_returns(*probe, true, plain))
    }

    /// Enters them into what is shown of the process in this slot.
    pub(super) fn enter(&self, slot: u32, probes: &Probes, view: &mut ProcessView) {
        for probe in &self.asked {
            let name = probes.list().get(*probe as usize).map(|probe| &probe.name);
            let function = view
                .functions
                .iter_mut()
                .find(|function| Some(&function.name) == name);
            if let Some(function) = function {
                function.durations = Some(self.known.get(&(slot, *probe)).cloned().unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_counted_up_to_what_a_tick_may_bring() {
        let mut durations = Durations {
            asked: [3].into(),
            ..Durations::default()
        };
        let hit = |probe, kind: HitKind, duration_ns| Hit {
            probe,
            kind: kind as u16,
            duration_ns,
            ..Hit::default()
        };
        assert!(!durations.add(&hit(4, HitKind::Return, 5)), "another function");
        assert!(!durations.add(&hit(3, HitKind::Entry, abi::NO_DURATION)));
        for _ in 1..HITS_PER_TICK {
            assert!(!durations.add(&hit(3, HitKind::Return, 5)));
        }
        assert!(durations.add(&hit(3, HitKind::Return, 5)));
        assert_eq!(durations.known[&(0, 3)].calls(), u64::from(HITS_PER_TICK));
    }
}
