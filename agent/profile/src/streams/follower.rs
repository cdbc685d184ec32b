//! A contract that a session is watched against: of an MPI job, or of stages.

use std::time::Duration;

use contract::Contract;
use rules::Diagnostic;

use super::{ContractWatch, NotComparable, NotJudged, RankReport, RankWindows, StageFunctions};
use crate::stream_views::ContractView;

/// Why a contract cannot be watched.
#[derive(Debug)]
pub enum NotWatched {
    /// No rates follow from it.
    Contract(Vec<Diagnostic>),
    NotComparable(NotComparable),
}

/// Judges the job, window by window.
#[derive(Clone, Debug)]
pub struct ContractFollower {
    watch: ContractWatch,
    windows: RankWindows,
    /// Since the session began.
    next: Duration,
    /// Why no window is judged any more.
    ended: Option<NotJudged>,
}

impl ContractFollower {
    /// Of a program with these stages; without any, of an MPI job.
    ///
    /// # Errors
    /// If no rates follow from the contract, or they cannot be compared with a program's.
    pub fn of(contract: &Contract, stages: &[StageFunctions]) -> Result<ContractFollower, NotWatched> {
        let (assessment, _) = contract.capacity().map_err(NotWatched::Contract)?;
        Ok(ContractFollower {
            watch: ContractWatch::of(contract, &assessment).map_err(NotWatched::NotComparable)?,
            windows: RankWindows::of(stages),
            next: RankWindows::REPORT_EVERY,
            ended: None,
        })
    }

    /// Whether the next report is due at this time since the session began.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        elapsed >= self.next && self.ended.is_none()
    }

    /// Takes a report. Returns a line for each thing that has changed.
    pub fn take(&mut self, report: RankReport) -> Vec<String> {
        self.next = Duration::from_secs_f64(report.elapsed_s) + RankWindows::REPORT_EVERY;
        if !self.windows.take(report, &self.watch) {
            return Vec::new();
        }
        match self.windows.judge(&mut self.watch) {
            Ok(lines) => lines,
            Err(why) => {
                let line = format!("the contract is judged no longer: {why}");
                self.ended = Some(why);
                vec![line]
            }
        }
    }

    /// Why no window is judged, or none any more.
    pub fn not_judged(&self) -> Option<&NotJudged> {
        self.ended.as_ref().or(self.windows.not_begun())
    }

    pub fn view(&self) -> ContractView {
        let summary = self.watch.summary();
        let why = self.not_judged();
        ContractView {
            window: (summary.windows > 0).then(|| self.watch.last_window(self.windows.end_s())),
            not_judged: why.map(ToString::to_string),
            summary,
        }
    }
}
