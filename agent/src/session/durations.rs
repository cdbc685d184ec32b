//! How long calls of the functions take that the user named: histograms, as the kernel side counts. Number and mean are the meter's.

use std::collections::BTreeMap;

use crate::probe::Probes;
use crate::snapshot::{Histogram, ProcessView};

/// The histograms of a session, as they were read last.
#[derive(Debug, Default)]
pub(super) struct Durations {
    /// By process's slot and probe.
    known: BTreeMap<(u32, u32), Histogram>,
}

impl Durations {
    /// Reads those of the processes in these slots.
    pub(super) fn read(&mut self, probes: &Probes, slots: impl Iterator<Item = u32>) {
        let Some(kernel) = probes.kernel() else { return };
        let asked = probes.list().iter().zip(0..);
        let asked = asked.filter_map(|(probe, number)| Some((number, probe.rows_of_durations()?)));
        let asked: Vec<_> = asked.collect();
        for slot in slots {
            for (number, rows) in &asked {
                if let Some(counts) = kernel.histogram(slot, rows.clone()) {
                    self.known.insert((slot, *number), Histogram::of(counts));
                }
            }
        }
    }

    /// Enters them into what is shown of the process in this slot.
    pub(super) fn enter(&self, slot: u32, probes: &Probes, view: &mut ProcessView) {
        for ((_, probe), histogram) in self.known.range((slot, 0)..=(slot, u32::MAX)) {
            let name = probes.list().get(*probe as usize).map(|probe| &probe.name);
            let mut functions = view.functions.iter_mut();
            if let Some(function) = functions.find(|function| Some(&function.name) == name) {
                function.durations = Some(histogram.clone());
            }
        }
    }
}
