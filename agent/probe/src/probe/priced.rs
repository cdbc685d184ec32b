//! How each function is probed, as far as it determines the cost of a call. Prices are not known here.

use std::collections::BTreeMap;

use abi::{CaptureKind, SpecFlags};
use profile::cost::{Prices, Probed, ReturnKind};
use tuner::{Cost, FileId};

use super::{Probe, Probes, places::PricedSite};
use crate::kernel::CallMoment;

/// Values that are read for a message: its count, its datatype's size, its communicator's rank; each may take
/// more than one memory read.
const VALUES_OF_A_MESSAGE: u32 = 4;

#[derive(Debug, Default)]
struct Sites {
    entry: Option<Cost>,
    returns: ReturnKind,
    links: BTreeMap<FileId, u32>,
}

impl Sites {
    fn add(&mut self, place: &PricedSite, file: FileId) {
        match place.at {
            CallMoment::Entry => {
                // The most expensive one: which of several files is called is unknown.
                self.entry = self.entry.max(Some(place.cost));
                *self.links.entry(file).or_default() += 1;
            }
            // If there are both, failing calls end at the others.
            CallMoment::Exit { .. } if place.cost == Cost::Emulated => self.returns = ReturnKind::Jump,
            CallMoment::Exit { .. } if self.returns == ReturnKind::Unseen => {
                self.returns = ReturnKind::Instruction
            }
            CallMoment::Exit { .. } => {}
        }
    }
}

impl Probes {
    /// The prices of hits on this machine; `None` if nothing is probed.
    pub fn prices(&self) -> Option<Prices> {
        self.kernel.as_ref()?;
        let later = || Prices::table("nothing was probed when the session began".to_owned());
        Some(
            self.calibration
                .as_ref()
                .map_or_else(later, |calibration| calibration.prices.clone()),
        )
    }

    /// How each probed function is probed, by its number.
    pub fn probed(&self) -> BTreeMap<u32, Probed> {
        let mut sites: BTreeMap<u32, Sites> = BTreeMap::new();
        for (to, places) in &self.attached {
            for place in places {
                let of_probe = sites.entry(place.site.probe).or_default();
                of_probe.add(place, to.file);
            }
        }
        let probed = |(number, sites): (u32, Sites)| {
            let probe = self.numbers.probes.get(number as usize)?;
            Some((number, probed(probe, &sites)?))
        };
        sites.into_iter().filter_map(probed).collect()
    }
}

fn probed(probe: &Probe, sites: &Sites) -> Option<Probed> {
    // What the profile reads occasionally, in addition to a rule's counts, has a budget of its own.
    let flags = match probe.is_only_counted {
        true => probe.spec.flags & !SpecFlags::SEQUENCE,
        false => probe.spec.flags,
    };
    let has = |flag: u32| u32::from(flags & flag != 0);
    let captures = probe.spec.captures.iter();
    let values = captures
        .filter(|capture| capture.kind != CaptureKind::None as u8)
        .count();
    let both = |sent: u32, added: u32| u32::from(flags & (sent | added) == sent | added);
    let summed = both(SpecFlags::SEND_ENTRY, SpecFlags::SUM_ENTRY)
        + both(SpecFlags::SEND_RETURN, SpecFlags::SUM_RETURN);
    Some(Probed {
        entry: sites.entry?,
        returns: match probe.is_only_counted {
            true => ReturnKind::Unseen,
            false => sites.returns,
        },
        is_in_sequence: flags & SpecFlags::SEQUENCE != 0,
        values: values as u32 + has(SpecFlags::MESSAGE) * VALUES_OF_A_MESSAGE,
        events: has(SpecFlags::SEND_ENTRY) + has(SpecFlags::SEND_RETURN) - summed,
        // Counting a call by its duration costs no more than aggregating it.
        added: summed + has(SpecFlags::DURATIONS),
        links: sites.links.values().copied().max().unwrap_or(1),
    })
}
