//! Distributions of the call durations of functions that the user named: histograms counted by the kernel
//! side.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    probe::Probe,
    snapshot::{Histogram, ProcessView},
};

/// The histograms of a session, as read last.
#[derive(Debug, Default)]
pub struct DurationHistograms {
    /// By slot of the process and probe.
    known: BTreeMap<(u32, u32), Histogram>,
}

impl DurationHistograms {
    /// Reads the counts of the kernel side for these slots; `counts` reads rows of a histogram of one slot.
    pub fn read(
        &mut self,
        probes: &[Probe],
        slots: impl Iterator<Item = u32>,
        counts: impl Fn(u32, Range<u32>) -> Option<Vec<u64>>,
    ) {
        let timed = probes.iter().zip(0..);
        let timed = timed.filter_map(|(probe, number)| Some((number, probe.rows_of_durations()?)));
        let timed: Vec<_> = timed.collect();
        for slot in slots {
            for (number, rows) in &timed {
                if let Some(counts) = counts(slot, rows.clone()) {
                    self.known.insert((slot, *number), Histogram::of(counts));
                }
            }
        }
    }

    /// Adds the histograms to the view of the process in this slot.
    pub fn enter(&self, slot: u32, probes: &[Probe], view: &mut ProcessView) {
        for ((_, probe), histogram) in self.known.range((slot, 0)..=(slot, u32::MAX)) {
            let name = probes.get(*probe as usize).map(|probe| &probe.name);
            let mut functions = view.functions.iter_mut();
            if let Some(function) = functions.find(|function| Some(&function.name) == name) {
                function.durations = Some(histogram.clone());
            }
        }
    }
}
