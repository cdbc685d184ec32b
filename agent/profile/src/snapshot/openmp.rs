//! Parallel regions, for display.

use crate::calls::{ScalingView, TeamTotals};

/// The parallel regions of a process, while they were probed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionsView {
    pub regions: u64,
    /// Time inside regions, summed over the threads that start them, in nanoseconds; `None` if the probes are
    /// too great a part of it.
    pub inside_ns: Option<u64>,
    /// Upper bound of it: of a region that was under way when probing began, nothing is seen.
    pub inside_to_ns: Option<u64>,
    /// Time for which the regions were probed, in nanoseconds.
    pub watched_ns: u64,
    /// End of the probing, since the first reading; `None` while it goes on.
    pub until_ns: Option<u64>,
    /// What the teams do; `None` if unknown.
    pub teams: Option<TeamsView>,
    pub without_teams: Option<&'static str>,
    /// How the process scales with its threads; `None` if unknown.
    pub scaling: Option<ScalingView>,
}

/// What the threads of teams do, as shares of their time from begin to end of their regions. The shares add
/// up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TeamsView {
    pub of: TeamTotals,
    /// Inside the body of the region, its barriers included.
    pub working: f64,
    pub starting: f64,
    /// At the end, for the last thread of the team.
    pub waiting: f64,
    pub ending: f64,
    /// The mean work of a thread divided by that of the thread that works longest.
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
    /// The share of the probed time that was spent inside regions.
    pub fn inside(&self) -> Option<f64> {
        Some(self.inside_ns? as f64 / self.watched_ns.max(1) as f64)
    }

    /// The upper bound of that share.
    pub fn inside_to(&self) -> Option<f64> {
        Some(self.inside_to_ns? as f64 / self.watched_ns.max(1) as f64)
    }
}
