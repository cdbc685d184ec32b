//! The observed parallel regions of a process.

use super::Reading;
use crate::{
    calls::{TeamPart, Teams},
    probe::Probe,
    snapshot::{RegionsView, TeamsView},
};

/// Cost of the entry and return probes of a call for its thread, in nanoseconds: two traps whose instructions
/// are single-stepped.
pub const CALL_NS: f64 = 18_000.0;

/// Minimum mean duration of a region for its time to be reported, in multiples of the probe cost of one call.
const DISTORTED: f64 = 10.0;

/// The observed regions of a process.
#[derive(Clone, Debug, Default)]
pub struct WatchedRegions {
    /// The times of its teams.
    pub teams: Teams,
    regions: u64,
    inside_ns: u64,
    watched_ns: u64,
    before: Option<Moment>,
    /// Time of the last reading with probed regions.
    until_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    at_ns: u64,
    regions: u64,
    inside_ns: u64,
}

impl WatchedRegions {
    /// Processes a reading; regions are probed since `since_ns`, or not at all.
    pub fn read(&mut self, reading: &Reading, probes: &[Probe], since_ns: Option<u64>) {
        let Some(since_ns) = since_ns else {
            self.before = None;
            return;
        };
        let mut now = Moment {
            at_ns: reading.at_ns,
            regions: 0,
            inside_ns: 0,
        };
        for (probe, totals) in
            of_regions(probes).filter_map(|probe| Some((probe, reading.totals.get(probe)?)))
        {
            now.regions += totals.calls;
            // A call that was open when the probes were detached has no end.
            let is_seen = |open: &&(u32, u64)| {
                open.0 as usize == probe && open.1 <= reading.at_ns.saturating_sub(since_ns)
            };
            now.inside_ns +=
                totals.time_ns + reading.open.iter().filter(is_seen).map(|(_, ns)| ns).sum::<u64>();
        }
        if let Some(before) = self.before {
            self.regions += now.regions - before.regions.min(now.regions);
            self.inside_ns += now.inside_ns.saturating_sub(before.inside_ns);
            self.watched_ns += now.at_ns - before.at_ns.min(now.at_ns);
            now.inside_ns = now.inside_ns.max(before.inside_ns);
        }
        (self.before, self.until_ns) = (Some(now), now.at_ns);
    }

    /// For display; the process is watched since `first_ns`. `None` if no region was observed.
    pub fn view(&self, has_bodies: bool, first_ns: u64) -> Option<RegionsView> {
        let is_distorted = (self.inside_ns as f64) < DISTORTED * CALL_NS * self.regions as f64;
        let teams = self.teams.totals().filter(|_| !is_distorted);
        (self.regions > 0 && self.watched_ns > 0).then(|| RegionsView {
            regions: self.regions,
            inside_ns: (!is_distorted).then_some(self.inside_ns),
            watched_ns: self.watched_ns,
            until_ns: (self.before.is_none()).then(|| self.until_ns.saturating_sub(first_ns)),
            teams: teams.map(TeamsView::from),
            without_teams: match (teams, is_distorted, has_bodies) {
                (Some(_), _, _) => None,
                (None, true, _) => Some("its regions are so short that the probes would distort them"),
                (None, false, true) => Some("no region of its first thread was seen from begin to end"),
                (None, false, false) => {
                    Some("the functions that its regions run have no symbols, or are too many")
                }
            },
        })
    }
}

/// The indices of the probes of regions.
pub(crate) fn of_regions(probes: &[Probe]) -> impl Iterator<Item = usize> + '_ {
    let regions = probes
        .iter()
        .enumerate()
        .filter(|(_, probe)| probe.part() == Some(TeamPart::Region));
    regions.map(|(number, _)| number)
}

/// Whether the bodies of regions are probed.
pub(super) fn has_bodies(probes: &[Probe]) -> bool {
    probes.iter().any(|probe| probe.part() == Some(TeamPart::Body))
}

impl WatchedRegions {
    /// Regions per second while they were probed.
    pub fn rate(&self) -> Option<f64> {
        (self.watched_ns > 0).then(|| self.regions as f64 * 1e9 / self.watched_ns as f64)
    }
}
