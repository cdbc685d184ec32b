//! Time in MPI by call site, in a table of bounded size.

use std::collections::HashMap;

use abi::Call;

/// Call sites that are told from each other in a process; calls from others are counted together.
const SITES_MAX: usize = 512;

/// Where a call is made, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The address behind the call.
    pub address: u64,
    /// The probe of the function that is called.
    pub probe: u32,
}

/// What was done there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteTotals {
    /// Calls that were seen.
    pub calls: u64,
    /// Their time.
    pub time_ns: u64,
}

/// The call sites of a process.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    known: HashMap<Site, SiteTotals>,
    others: SiteTotals,
}

impl Sites {
    /// One more call.
    pub fn add(&mut self, call: &Call) {
        let site = Site {
            address: call.site,
            probe: call.probe,
        };
        let is_full = self.known.len() >= SITES_MAX && !self.known.contains_key(&site);
        let totals = if is_full {
            &mut self.others
        } else {
            self.known.entry(site).or_default()
        };
        totals.calls += 1;
        totals.time_ns += call.duration_ns;
    }

    /// Those that are told from each other.
    pub fn iter(&self) -> impl Iterator<Item = (Site, SiteTotals)> + '_ {
        self.known.iter().map(|(site, totals)| (*site, *totals))
    }

    /// All others.
    pub fn others(&self) -> SiteTotals {
        self.others
    }
}
