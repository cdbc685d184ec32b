//! An MPI job on any supported kernel: its calls, their bytes and partners. `cargo xtask vm` runs this on
//! other kernels; `tests/e2e/truth.rs` compares real programs. Needs root and MPI; otherwise skipped with a
//! message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod running;

use std::{fs, path::Path};

use running::{Running, program_of_mpi, session};
use serde_json::{Value, json};
use tuneagent_e2e::needs::{Need, has};
use tuneagent_e2e::require_or_return;

const RANKS: u64 = 2;
const ROUNDS: u64 = 200;
const INTS: u64 = 100;

#[test]
fn calls_bytes_and_messages_are_those_of_the_job_under_both_mpis_however_probes_are_attached() {
    require_or_return!(Root);
    for (mpi, need) in [("openmpi", Need::OpenMpi), ("mpich", Need::Mpich)] {
        let launcher = Path::new("/usr/bin").join(format!("mpirun.{mpi}"));
        if !has(module_path!(), &[need]) {
            continue;
        }
        for way in [&[][..], &["--tracefs"]] {
            let folder = tempfile::tempdir().unwrap();
            let report = watched(mpi, &launcher, folder.path(), way);
            check(&report);
        }
    }
}

/// The report of a session that saw all rounds of a job.
fn watched(mpi: &str, launcher: &Path, folder: &Path, way: &[&str]) -> Value {
    let hosts = folder.join("hosts");
    fs::write(&hosts, "localhost slots=2\n").unwrap();
    let hosts = hosts.to_string_lossy();
    let ranks = RANKS.to_string();
    let program = program_of_mpi("exchanges", mpi);
    let mut words = Vec::new();
    if mpi == "openmpi" {
        words.extend(["--allow-run-as-root", "--hostfile", &hosts, "--bind-to", "none"]);
        words.extend(["--mca", "mpi_yield_when_idle", "1"]);
    }
    words.extend(["-n", &ranks, program.to_str().unwrap()]);
    let mut job = Running::start(launcher, &words);
    let pid = job.pid();
    let report = session(folder, pid, way, || {
        assert_eq!(job.answers(&ROUNDS.to_string()), ROUNDS.to_string());
    });
    job.ends("0");
    report
}

fn check(report: &Value) {
    assert_eq!(report["completeness"]["status"], "complete", "{report}");
    let processes = report["processes"].as_array().unwrap();
    assert_eq!(processes.len() as u64, RANKS);
    let message = INTS * 4;
    for (process, rank) in processes.iter().zip(0_u64..) {
        assert_eq!(process["rank"], rank, "{process}");
        for (name, calls, bytes) in [
            ("MPI_Send", 2 * ROUNDS, 2 * ROUNDS * message),
            ("MPI_Recv", 2 * ROUNDS, 2 * ROUNDS * message),
            ("MPI_Allreduce", ROUNDS, ROUNDS * 4),
        ] {
            let functions = process["functions"].as_array().unwrap();
            let function = functions.iter().find(|function| function["name"] == name);
            let function = function.unwrap_or_else(|| panic!("{name} is not in {process}"));
            assert_eq!(function["calls"], calls, "{function}");
            assert_eq!(function["bytes"], bytes, "{function}");
            assert_eq!(function["untimed_calls"], 0, "{function}");
        }
    }
    let sent = report["matrix"]["sent"].as_array().unwrap();
    assert_eq!(sent.len() as u64, RANKS, "{sent:?}");
    for (from, to) in [(0, 1), (1, 0)] {
        let pair = sent.iter().find(|pair| pair["from"] == from && pair["to"] == to);
        let pair = pair.unwrap_or_else(|| panic!("{from} to {to} is not in {sent:?}"));
        let reported = json!([pair["messages"], pair["bytes"]]);
        assert_eq!(reported, json!([2 * ROUNDS, 2 * ROUNDS * message]), "{pair}");
    }
}
