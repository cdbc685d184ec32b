//! A part of the report in the format of TALP's own JSON, so that TALP-Pages can read our runs.
//!
//! Names and order are those that TALP writes (DLB 3.7.0, `pop_metrics_to_json` and `resources_to_json` in
//! src/talp/talp_output.c; those of 3.6 are the same). Formulas are those of its model for MPI alone
//! (`compute_mpi_model` in src/talp/perf_metrics.c), over the time in which ranks were watched. Required
//! fields that are not measured have the values that TALP writes for what it was not built to count: cycles
//! and instructions 0, times of OpenMP and GPUs 0, and their efficiencies 1 and 0.

use std::collections::BTreeMap;

use profile::{Efficiencies, ProcessView, Snapshot};
use serde_json::{Value, json};

/// The format version, as a release of DLB: TALP-Pages 3.6.2, the newest, reads those of 3.5 and 3.6.
const FORM: &str = "3.6.2";

/// Time of a rank outside and inside MPI, over the entire session.
struct Times {
    useful_ns: u64,
    mpi_ns: u64,
}

/// `None` if the time outside MPI is unknown for some rank: without MPI, before it was measured, or if
/// several threads call MPI.
pub(super) fn talp(snapshot: &Snapshot) -> Option<Value> {
    let mut nodes: BTreeMap<&str, Vec<Times>> = BTreeMap::new();
    for process in snapshot.by_process() {
        let host = process.iter().find_map(|entry| entry.host.as_deref());
        let host = host.unwrap_or(&snapshot.job.host);
        nodes.entry(host).or_default().push(times(&process)?);
    }
    let region = region(snapshot, &nodes)?;
    let ranks = snapshot.process_count();
    let timestamp: String = snapshot
        .taken_at
        .chars()
        .take("2026-01-01T00:00:00".len())
        .collect();
    Some(json!({
        "dlbVersion": FORM,
        "timestamp": timestamp,
        "resources": {"numCpus": ranks, "numNodes": nodes.len(), "numMpiRanks": ranks, "numGpus": 0},
        "Application": {"Global": region},
    }))
}

/// The region for the entire program, from the ranks of each node. Times are in nanoseconds; values that are
/// not measured are 0.
fn region(snapshot: &Snapshot, nodes: &BTreeMap<&str, Vec<Times>>) -> Option<Value> {
    let elapsed = u64::try_from(snapshot.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let share = |times: &Times| times.useful_ns as f64 / elapsed as f64;
    let shares: Vec<Vec<f64>> = nodes
        .values()
        .map(|node| node.iter().map(share).collect())
        .collect();
    let of = Efficiencies::of(&shares)?;
    let ranks = snapshot.process_count() as u64;
    let all = || nodes.values().flatten();
    let mean_mpi =
        |node: &Vec<Times>| node.iter().map(|times| times.mpi_ns).sum::<u64>() as f64 / node.len() as f64;
    let calls = snapshot.processes.iter().flat_map(|process| &process.functions);
    let calls = calls.filter(|function| profile::mpi::find(&function.name).is_some());
    let least = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::min).unwrap_or_default();
    Some(json!({
        "numCpus": ranks,
        "numMpiRanks": ranks,
        "numNodes": nodes.len(),
        "avgCpus": ranks as f64,
        "numGpus": 0,
        "cycles": 0,
        "instructions": 0,
        "numMeasurements": ranks,
        "numMpiCalls": calls.map(|function| function.calls).sum::<u64>(),
        "numOmpParallels": 0,
        "numOmpTasks": 0,
        "numGpuRuntimeCalls": 0,
        "elapsedTime": elapsed,
        "usefulTime": all().map(|times| times.useful_ns).sum::<u64>(),
        "mpiTime": all().map(|times| times.mpi_ns).sum::<u64>(),
        "ompLoadImbalanceTime": 0,
        "ompSchedulingTime": 0,
        "ompSerializationTime": 0,
        "gpuRuntimeTime": 0,
        "minMpiNormdProc": least(&mut all().map(|times| times.mpi_ns as f64)),
        "minMpiNormdNode": least(&mut nodes.values().map(mean_mpi)),
        "gpuUsefulTime": 0,
        "gpuCommunicationTime": 0,
        "maxGpuUsefulTime": 0,
        "maxGpuActiveTime": 0,
        "parallelEfficiency": of.parallel,
        "mpiParallelEfficiency": of.parallel,
        "mpiCommunicationEfficiency": of.communication,
        "mpiLoadBalance": of.load_balance,
        "mpiLoadBalanceIn": of.within_nodes,
        "mpiLoadBalanceOut": of.between_nodes,
        "ompParallelEfficiency": 1.0,
        "ompLoadBalance": 1.0,
        "ompSchedulingEfficiency": 1.0,
        "ompSerializationEfficiency": 1.0,
        "deviceOffloadEfficiency": 1.0,
        "gpuParallelEfficiency": 0.0,
        "gpuLoadBalance": 0.0,
        "gpuCommunicationEfficiency": 0.0,
        "gpuOrchestrationEfficiency": 0.0,
    }))
}

/// Of all programs of a process.
fn times(process: &[&ProcessView]) -> Option<Times> {
    let watched: u64 = process.iter().map(|entry| entry.mpi_known_ns()).sum();
    let mpi_ns = process.iter().map(|entry| entry.mpi_ns).sum::<Option<u64>>()?;
    Some(Times {
        useful_ns: watched.checked_sub(mpi_ns).filter(|_| watched > 0)?,
        mpi_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{FunctionTotals, JobView};

    fn rank(number: u32, host: &str, mpi_ns: u64) -> ProcessView {
        ProcessView {
            pid: 7,
            rank: Some(number),
            host: Some(host.into()),
            watched_ns: 1_000_000_000,
            mpi_ns: Some(mpi_ns),
            functions: ["MPI_Send", "step"]
                .map(|name| FunctionTotals {
                    name: name.into(),
                    calls: 5,
                    ..FunctionTotals::default()
                })
                .into(),
            ..ProcessView::default()
        }
    }

    fn reported(processes: Vec<ProcessView>) -> Value {
        let snapshot = Snapshot {
            job: JobView {
                host: "a".into(),
                ..JobView::default()
            },
            taken_at: "2026-11-20T21:15:17.123Z".into(),
            elapsed: std::time::Duration::from_secs(1),
            processes,
            ..Snapshot::default()
        };
        talp(&snapshot).into()
    }

    /// With all names that the loader of TALP-Pages reads (talp_pages/io/dataframe_handling.py and common.py, 3.6.2).
    #[test]
    fn times_and_efficiencies_are_those_that_talp_would_write() {
        let reported = reported(vec![
            rank(0, "a", 200_000_000),
            rank(1, "a", 200_000_000),
            rank(2, "b", 600_000_000),
            rank(3, "b", 600_000_000),
        ]);
        insta::assert_snapshot!(serde_json::to_string_pretty(&reported).unwrap());
    }

    #[test]
    fn where_the_time_outside_mpi_is_not_known_there_is_no_such_part() {
        let several_threads = rank(0, "a", 1_500_000_000);
        assert_eq!(reported(vec![several_threads]), Value::Null);
        let without_mpi = ProcessView {
            mpi_ns: None,
            ..rank(0, "a", 0)
        };
        assert_eq!(reported(vec![without_mpi]), Value::Null);
        assert_eq!(reported(Vec::new()), Value::Null);
    }
}
