//! Time in MPI by call site, in a table of bounded size.

use std::collections::{HashMap, hash_map::Entry};

use abi::Call;

/// Call sites that are counted separately in a process; calls from others are counted together.
const SITES_MAX: usize = 512;

/// The location and the function of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSite {
    /// The return address of the call.
    pub address: u64,
    /// The probe of the called function.
    pub probe: u32,
}

/// The calls made from a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteTotals {
    pub calls: u64,
    pub time_ns: u64,
}

impl CallSite {
    pub fn of(call: &Call) -> CallSite {
        CallSite {
            address: call.site,
            probe: call.probe,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct CallSites {
    known: HashMap<CallSite, SiteTotals>,
    /// Sites that became known since the last call of `take_new`.
    new: Vec<CallSite>,
    pub others: SiteTotals,
}

impl CallSites {
    pub fn add(&mut self, call: &Call) {
        let site = CallSite::of(call);
        let is_full = self.known.len() >= SITES_MAX;
        let totals = match self.known.entry(site) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => &mut self.others,
            Entry::Vacant(place) => {
                self.new.push(site);
                place.insert(SiteTotals::default())
            }
        };
        totals.calls += 1;
        totals.time_ns += call.duration_ns;
    }

    /// The sites that are counted separately.
    pub fn iter(&self) -> impl Iterator<Item = (CallSite, SiteTotals)> + '_ {
        self.known.iter().map(|(site, totals)| (*site, *totals))
    }

    /// Sites that were not returned before.
    pub(crate) fn take_new(&mut self) -> Vec<CallSite> {
        std::mem::take(&mut self.new)
    }
}
