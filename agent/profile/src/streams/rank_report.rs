//! What is read of a session on an MPI job, or on stages: from its reports, or from its snapshots.

use std::time::Duration;

use serde::Deserialize;

use super::trial::ReportedChange;
use crate::{FunctionTotals, MatrixView, PairView, ProcessView};

/// The fields of a report that a contract is learned from (docs/report.md).
#[derive(Clone, Debug, Deserialize)]
pub struct RankReport {
    pub elapsed_s: f64,
    pub processes: Vec<RankTotals>,
    pub matrix: Option<SentMessages>,
    #[serde(default)]
    pub changes: Vec<ReportedChange>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RankTotals {
    /// `None` in recordings.
    #[serde(default)]
    pub pid: Option<i32>,
    pub rank: Option<u32>,
    pub runqueue_time_s: Option<f64>,
    pub mpi_runqueue_time_s: Option<f64>,
    pub functions: Vec<CalledTotals>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct CalledTotals {
    pub name: String,
    pub calls: u64,
    pub time_s: Option<f64>,
    /// It was watched a part of the time only.
    #[serde(default)]
    pub estimated: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct SentMessages {
    pub sent: Vec<SentPair>,
    pub pairs_cut: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct SentPair {
    pub from: u32,
    pub to: u32,
    pub messages: u64,
    pub bytes: u64,
}

impl RankReport {
    /// As the report of a session would be at this time since its begin, without the changes.
    pub fn of(elapsed: Duration, processes: &[ProcessView], matrix: Option<&MatrixView>) -> RankReport {
        RankReport {
            elapsed_s: elapsed.as_secs_f64(),
            processes: processes.iter().map(RankTotals::of).collect(),
            matrix: matrix.map(SentMessages::of),
            changes: Vec::new(),
        }
    }
}

impl RankTotals {
    fn of(process: &ProcessView) -> RankTotals {
        let counters = process.program_counters();
        RankTotals {
            pid: Some(process.pid),
            rank: process.rank,
            runqueue_time_s: counters.map(|counters| seconds(counters.runqueue_ns)),
            mpi_runqueue_time_s: process.mpi_waited_ns.map(seconds),
            functions: process.functions.iter().map(CalledTotals::of).collect(),
        }
    }
}

impl CalledTotals {
    fn of(function: &FunctionTotals) -> CalledTotals {
        CalledTotals {
            name: function.name.clone(),
            calls: function.calls,
            time_s: function.time_ns.map(seconds),
            estimated: function.estimate.is_some(),
        }
    }
}

impl SentMessages {
    fn of(matrix: &MatrixView) -> SentMessages {
        let pair = |pair: &PairView| SentPair {
            from: pair.from,
            to: pair.to,
            messages: pair.of.count,
            bytes: pair.of.bytes,
        };
        SentMessages {
            sent: matrix.sent.iter().map(pair).collect(),
            pairs_cut: matrix.cut as u64,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
