//! Reports of a session on an MPI job, collected to windows that a contract judges.

use std::time::Duration;

use super::{ContractWatch, NotComparable, NotLearned, RankReport, StageFunctions, counted_reports};

/// A window has as many reports behind its first, which is the last of the window before.
const REPORTS: usize = 4;

/// Why a window is not judged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotJudged {
    #[error(transparent)]
    NotCounted(#[from] NotLearned),
    #[error(transparent)]
    NotComparable(#[from] NotComparable),
}

/// Collects reports, from the first in which a message has arrived at each end of the graph.
#[derive(Clone, Debug, Default)]
pub struct RankWindows {
    /// None for an MPI job.
    stages: Vec<StageFunctions>,
    begin: Option<RankReport>,
    window: Vec<RankReport>,
    /// Why there is no window; `None` once all of the graph has been seen. It stays if the contract is of another
    /// program.
    unfilled: Option<NotJudged>,
}

impl RankWindows {
    /// The time between two reports: messages by pair are read once a second.
    pub const REPORT_EVERY: Duration = Duration::from_secs(1);

    /// Of these stages; without any, of an MPI job.
    pub fn of(stages: &[StageFunctions]) -> RankWindows {
        RankWindows {
            stages: stages.to_vec(),
            ..RankWindows::default()
        }
    }

    /// Takes the next report. Returns whether it completes a window, to be judged before the next one is taken.
    pub fn take(&mut self, report: RankReport, watch: &ContractWatch) -> bool {
        let begin = self.begin.get_or_insert_with(|| report.clone());
        if self.window.is_empty() {
            self.unfilled = filled(&self.stages, watch, (begin, &report)).err();
        }
        if self.unfilled.is_none() {
            self.window.push(report);
        }
        self.window.len() > REPORTS
    }

    /// When the last report was made, in seconds since the session began.
    pub fn end_s(&self) -> f64 {
        self.last().map_or(0.0, |last| last.elapsed_s)
    }

    pub fn last(&self) -> Option<&RankReport> {
        self.window.last()
    }

    /// Judges the window that is complete. Returns a line for each thing that has changed.
    ///
    /// # Errors
    /// If the program has left its loop, as at its end.
    pub fn judge(&mut self, watch: &mut ContractWatch) -> Result<Vec<String>, NotJudged> {
        let end_s = self.end_s();
        let reports: Vec<&RankReport> = self.window.iter().collect();
        let seen = self.begin.as_ref().map_or(Err(NotLearned::TooFew), |begin| {
            counted_reports(&self.stages, begin, &reports)
        });
        let lines = watch.window(end_s, &seen?)?;
        self.window.drain(..self.window.len() - 1);
        Ok(lines)
    }

    /// Why no window has begun; `None` if one has.
    pub fn not_begun(&self) -> Option<&NotJudged> {
        self.unfilled.as_ref()
    }
}

/// Whether all that the contract is about has been seen since the begin.
fn filled(
    stages: &[StageFunctions],
    watch: &ContractWatch,
    (begin, now): (&RankReport, &RankReport),
) -> Result<(), NotJudged> {
    let seen = counted_reports(stages, begin, &[begin, now])?;
    match watch.is_filled(&seen)? {
        true => Ok(()),
        false => Err(NotJudged::NotCounted(NotLearned::Filling {
            seconds: now.elapsed_s - begin.elapsed_s,
        })),
    }
}
