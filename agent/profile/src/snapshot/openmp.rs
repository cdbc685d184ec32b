//! Parallel regions as they are shown.

use crate::calls::TeamTotals;

/// The parallel regions of a process, while they were probed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionsView {
    pub regions: u64,
    /// Time inside them, of the threads that start them, in nanoseconds; `None` where the probes are too
    /// great a part of it.
    pub inside_ns: Option<u64>,
    /// For how long they were probed.
    pub watched_ns: u64,
    /// Up to when, since the first reading; `None` while they are.
    pub until_ns: Option<u64>,
    /// What the teams do; `None` where it is not known.
    pub teams: Option<TeamsView>,
    pub without_teams: Option<&'static str>,
}

/// What the threads of teams do, as shares of their time from the begins of their regions to the ends; they
/// add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TeamsView {
    pub of: TeamTotals,
    /// At what stands in the region, its barriers included.
    pub working: f64,
    pub starting: f64,
    /// Waiting at the end for the last one of the team.
    pub waiting: f64,
    pub ending: f64,
    /// The mean work of a thread to that of the one that works longest.
    pub load_balance: Option<f64>,
}

impl From<TeamTotals> for TeamsView {
    fn from(totals: TeamTotals) -> TeamsView {
        TeamsView {
            of: totals,
            working: totals.share(totals.working_ns),
            starting: totals.share(totals.starting_ns),
            waiting: totals.share(totals.waiting_ns),
            ending: totals.share(totals.ending_ns),
            load_balance: totals.load_balance(),
        }
    }
}

impl RegionsView {
    /// Share of the time in which they were probed that was inside them.
    pub fn inside(&self) -> Option<f64> {
        Some(self.inside_ns? as f64 / self.watched_ns.max(1) as f64)
    }
}
