//! The observed parallel regions of a process.

use abi::Call;

use super::Reading;
use crate::{
    calls::{EndedIteration, IterationTeams, Losses, TeamPart, Teams, UnusedIteration, Visit},
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
    /// Iterations of the detected loop that ended since the last reading.
    pub ended: Vec<EndedIteration>,
    regions: u64,
    inside_ns: u64,
    watched_ns: u64,
    /// How often probing has begun.
    begins: u64,
    before: Option<Moment>,
    /// Time of the last reading with probed regions.
    until_ns: u64,
}

/// An iteration of the detected loop that has ended.
#[derive(Clone, Debug)]
pub(super) struct TimedIteration {
    pub ended: EndedIteration,
    /// What its parallel regions do, or why that is not known.
    pub teams: Result<IterationTeams, &'static str>,
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
        } else {
            self.begins += 1;
        }
        (self.before, self.until_ns) = (Some(now), now.at_ns);
    }

    /// Whether a region ended while regions were probed: while their links are being closed (`are_resting`),
    /// some are still recorded; they are no part of the watched time.
    pub fn has_seen(&self, call: &Call, are_resting: bool) -> bool {
        !are_resting || call.entered_ns.saturating_add(call.duration_ns) <= self.until_ns
    }

    /// Assigns the regions to the iterations of the process's first thread that ended between two readings.
    /// Returns the ended iterations of the `main` thread.
    pub(super) fn take_ended(
        &mut self,
        first_thread: u32,
        main: Option<u32>,
        before: Option<&Reading>,
        now: &Reading,
    ) -> Vec<TimedIteration> {
        let scaling = &mut self.teams.scaling;
        if let Some(threads) = before.and_then(|before| waiting(before, now)) {
            scaling.waiting(threads, now.at_ns);
        }
        let mut of_main = Vec::new();
        for ended in self.ended.drain(..) {
            let teams = match ended.thread == first_thread {
                true => scaling
                    .iteration(ended.loop_number, &ended.range)
                    .map_err(UnusedIteration::reason),
                false => Err("another thread than the first of the process iterates"),
            };
            of_main.extend((Some(ended.thread) == main).then_some(TimedIteration { ended, teams }));
        }
        scaling.trim();
        of_main
    }

    /// The number of measured team sizes, and the lost threads of the last one.
    pub(super) fn losses(&self) -> Option<(usize, Losses)> {
        self.teams.scaling.losses().filter(|_| !self.is_distorted())
    }

    pub(super) fn serial_fraction(&self) -> Option<f64> {
        let fraction = self.teams.scaling.serial_fraction();
        fraction.filter(|_| !self.is_distorted())
    }

    pub(super) fn visit(&self) -> Option<Visit> {
        self.teams.scaling.visit().filter(|_| !self.is_distorted())
    }

    /// Whether its regions are so short that the probes are a great part of their time.
    pub fn is_distorted(&self) -> bool {
        (self.inside_ns as f64) < DISTORTED * CALL_NS * self.regions as f64
    }

    /// Upper bound of the time inside regions: at each begin of probing, a region may have been under way, all of it
    /// but for an instant.
    fn inside_to_ns(&self) -> u64 {
        let mean_ns = self.inside_ns / self.regions.max(1);
        let unseen_ns = self.begins.saturating_mul(mean_ns);
        (self.inside_ns + unseen_ns).min(self.watched_ns.max(self.inside_ns))
    }

    /// For display; the process is watched since `first_ns`. `None` if no region was observed.
    pub fn view(&self, has_bodies: bool, first_ns: u64) -> Option<RegionsView> {
        let is_distorted = self.is_distorted();
        let teams = self.teams.totals().filter(|_| !is_distorted);
        (self.regions > 0 && self.watched_ns > 0).then(|| RegionsView {
            regions: self.regions,
            inside_ns: (!is_distorted).then_some(self.inside_ns),
            inside_to_ns: (!is_distorted).then(|| self.inside_to_ns()),
            watched_ns: self.watched_ns,
            until_ns: (self.before.is_none()).then(|| self.until_ns.saturating_sub(first_ns)),
            scaling: self.teams.scaling.view(self.until_ns).filter(|_| !is_distorted),
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

/// The threads that waited for a CPU between two readings, on average; `None` if unknown.
fn waiting(before: &Reading, now: &Reading) -> Option<f64> {
    let (from, to) = before.counters.zip(now.counters)?;
    let waited_ns = to.runqueue_ns.saturating_sub(from.runqueue_ns) as f64;
    match from.is_stopped || to.is_stopped {
        true => Some(f64::INFINITY),
        false => Some(waited_ns / now.at_ns.saturating_sub(before.at_ns).max(1) as f64),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_ends_after_its_probes_were_to_be_detached_is_not_of_the_watched_time() {
        let mut regions = WatchedRegions::default();
        for at_ns in [1_000, 2_000] {
            let reading = Reading {
                at_ns,
                ..Reading::default()
            };
            regions.read(&reading, &[], Some(500));
        }
        let call = |entered_ns, duration_ns| Call {
            entered_ns,
            duration_ns,
            ..Call::default()
        };
        for (call, are_resting, watched) in [
            (call(1_500, 500), true, true),
            (call(1_500, 501), true, false),
            (call(9_000, 100), true, false),
            (call(9_000, 100), false, true),
        ] {
            assert_eq!(regions.has_seen(&call, are_resting), watched, "{call:?}");
        }
    }

    #[test]
    fn at_each_begin_of_probing_one_region_may_not_have_been_seen() {
        let bound = |regions, inside_ns, begins| {
            let all = WatchedRegions {
                regions,
                inside_ns,
                begins,
                watched_ns: 1_000,
                ..WatchedRegions::default()
            };
            all.inside_to_ns()
        };
        assert_eq!(bound(2, 700, 1), 1_000, "350 more, and no more than was probed");
        assert_eq!(bound(700, 700, 5), 705);
        assert_eq!(bound(2, 2_000, 1), 2_000, "of several threads");
    }
}
