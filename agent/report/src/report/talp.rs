//! A part of the report in the form of TALP's own JSON, so that TALP-Pages reads our runs.
//!
//! Names and order are those that TALP writes (DLB 3.7.0, `pop_metrics_to_json` and `resources_to_json` in src/talp/talp_output.c; those of
//! 3.6 are the same). Formulas are those of its model for MPI alone (`compute_mpi_model` in src/talp/perf_metrics.c), over the time that
//! ranks were watched. What TALP cannot leave out is written as it writes what it was not built to count: cycles and instructions 0,
//! times of OpenMP and GPUs 0 and their efficiencies 1 and 0.

use std::collections::BTreeMap;

use profile::{
    calls::efficiency::Efficiencies,
    snapshot::{ProcessView, Snapshot},
};
use serde::Serialize;

/// The form, by the release of DLB that readers know it from: TALP-Pages 3.6.2, the newest, reads that of 3.5 and 3.6.
const FORM: &str = "3.6.2";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Talp {
    dlb_version: &'static str,
    timestamp: String,
    resources: Resources,
    #[serde(rename = "Application")]
    application: BTreeMap<&'static str, Region>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resources {
    num_cpus: u64,
    num_nodes: u64,
    num_mpi_ranks: u64,
    num_gpus: u64,
}

/// Times in nanoseconds. What is not measured here stays 0.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    num_cpus: u64,
    num_mpi_ranks: u64,
    num_nodes: u64,
    avg_cpus: f64,
    num_gpus: u64,
    cycles: u64,
    instructions: u64,
    num_measurements: u64,
    num_mpi_calls: u64,
    num_omp_parallels: u64,
    num_omp_tasks: u64,
    num_gpu_runtime_calls: u64,
    elapsed_time: u64,
    useful_time: u64,
    mpi_time: u64,
    omp_load_imbalance_time: u64,
    omp_scheduling_time: u64,
    omp_serialization_time: u64,
    gpu_runtime_time: u64,
    min_mpi_normd_proc: f64,
    min_mpi_normd_node: f64,
    gpu_useful_time: u64,
    gpu_communication_time: u64,
    max_gpu_useful_time: u64,
    max_gpu_active_time: u64,
    parallel_efficiency: f64,
    mpi_parallel_efficiency: f64,
    mpi_communication_efficiency: f64,
    mpi_load_balance: f64,
    mpi_load_balance_in: f64,
    mpi_load_balance_out: f64,
    omp_parallel_efficiency: f64,
    omp_load_balance: f64,
    omp_scheduling_efficiency: f64,
    omp_serialization_efficiency: f64,
    device_offload_efficiency: f64,
    gpu_parallel_efficiency: f64,
    gpu_load_balance: f64,
    gpu_communication_efficiency: f64,
    gpu_orchestration_efficiency: f64,
}

/// Time of a rank outside MPI and inside, over the time of the whole session.
struct Times {
    useful_ns: u64,
    mpi_ns: u64,
}

/// None where a rank's time outside MPI is not known: without MPI, before it was measured, and where several threads call MPI.
pub(super) fn talp(snapshot: &Snapshot) -> Option<Talp> {
    let mut nodes: BTreeMap<&str, Vec<Times>> = BTreeMap::new();
    for process in &snapshot.processes {
        let host = process.host.as_deref().unwrap_or(&snapshot.job.host);
        nodes.entry(host).or_default().push(times(process)?);
    }
    let elapsed = u64::try_from(snapshot.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let share = |times: &Times| times.useful_ns as f64 / elapsed as f64;
    let shares: Vec<Vec<f64>> = nodes
        .values()
        .map(|node| node.iter().map(share).collect())
        .collect();
    let of = Efficiencies::of(&shares)?;
    let ranks = snapshot.processes.len() as u64;
    let all = || nodes.values().flatten();
    let mean_mpi =
        |node: &Vec<Times>| node.iter().map(|times| times.mpi_ns).sum::<u64>() as f64 / node.len() as f64;
    let calls = snapshot.processes.iter().flat_map(|process| &process.functions);
    let calls = calls.filter(|function| profile::mpi::find(&function.name).is_some());
    let least = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::min).unwrap_or_default();
    let region = Region {
        num_cpus: ranks,
        num_mpi_ranks: ranks,
        num_nodes: nodes.len() as u64,
        avg_cpus: ranks as f64,
        num_measurements: ranks,
        num_mpi_calls: calls.map(|function| function.calls).sum(),
        elapsed_time: elapsed,
        useful_time: all().map(|times| times.useful_ns).sum(),
        mpi_time: all().map(|times| times.mpi_ns).sum(),
        min_mpi_normd_proc: least(&mut all().map(|times| times.mpi_ns as f64)),
        min_mpi_normd_node: least(&mut nodes.values().map(mean_mpi)),
        parallel_efficiency: of.parallel,
        mpi_parallel_efficiency: of.parallel,
        mpi_communication_efficiency: of.communication,
        mpi_load_balance: of.load_balance,
        mpi_load_balance_in: of.within_nodes,
        mpi_load_balance_out: of.between_nodes,
        omp_parallel_efficiency: 1.0,
        omp_load_balance: 1.0,
        omp_scheduling_efficiency: 1.0,
        omp_serialization_efficiency: 1.0,
        device_offload_efficiency: 1.0,
        ..Region::default()
    };
    Some(Talp {
        dlb_version: FORM,
        timestamp: snapshot
            .taken_at
            .chars()
            .take("2026-01-01T00:00:00".len())
            .collect(),
        resources: Resources {
            num_cpus: ranks,
            num_nodes: nodes.len() as u64,
            num_mpi_ranks: ranks,
            num_gpus: 0,
        },
        application: [("Global", region)].into(),
    })
}

fn times(process: &ProcessView) -> Option<Times> {
    let (watched, mpi_ns) = (process.watched_ns, process.mpi_ns?);
    Some(Times {
        useful_ns: watched.checked_sub(mpi_ns).filter(|_| watched > 0)?,
        mpi_ns,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use profile::snapshot::{FunctionTotals, JobView};

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
        serde_json::to_value(talp(&snapshot)).unwrap()
    }

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

    /// What its loader takes out of a file by name (talp_pages/io/dataframe_handling.py and common.py, 3.6.2).
    #[test]
    fn all_that_talp_pages_asks_for_is_there() {
        let reported = reported(vec![rank(0, "a", 200_000_000)]);
        assert!(reported["dlbVersion"].as_str().unwrap().starts_with("3.6"));
        assert_eq!(reported["timestamp"], "2026-11-20T21:15:17");
        for name in ["numCpus", "numMpiRanks", "numGpus"] {
            assert!(reported["resources"][name].is_u64(), "{name}");
        }
        let region = &reported["Application"]["Global"];
        let metrics = [
            "parallelEfficiency",
            "mpiParallelEfficiency",
            "mpiCommunicationEfficiency",
            "mpiLoadBalance",
            "mpiLoadBalanceIn",
            "mpiLoadBalanceOut",
            "ompParallelEfficiency",
            "ompLoadBalance",
            "ompSchedulingEfficiency",
            "ompSerializationEfficiency",
            "deviceOffloadEfficiency",
            "gpuParallelEfficiency",
            "gpuLoadBalance",
            "gpuCommunicationEfficiency",
            "gpuOrchestrationEfficiency",
            "cycles",
            "instructions",
            "elapsedTime",
            "usefulTime",
        ];
        for name in metrics {
            assert!(region[name].is_number(), "{name}: {region}");
        }
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
