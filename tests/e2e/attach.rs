//! `tuneagent attach` on programs that count their own calls: the report must have exactly these numbers.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::{SOON, counts, start_count, summed, with_folder};

/// The program calls these for itself and does not count them.
const UNTALLIED: [&str; 7] = [
    "MPI_Buffer_attach",
    "MPI_Buffer_detach",
    "MPI_Comm_rank",
    "MPI_Comm_size",
    "MPI_Get_count",
    "MPI_Type_size",
    "MPI_Wtime",
];

/// Attaches to a waiting `count` and lets it run until it prints its counts. Returns these and the report.
fn observed(job: &mut Job, target: u32, ranks: usize) -> Outcome<(Vec<Value>, Value)> {
    summed(job, &mut Agent::attach(target, &[])?, ranks)
}

fn assert_same(own_counts: &[Value], report: &Value) -> Outcome {
    assert_eq!(
        report["completeness"]["status"], "complete",
        "{}",
        report["completeness"]
    );
    let processes = report["processes"]
        .as_array()
        .ok_or("the report has no processes")?;
    assert_eq!(processes.len(), own_counts.len(), "processes in the report");
    for own_count in own_counts {
        let (pid, rank) = (&own_count["pid"], &own_count["rank"]);
        let process = processes
            .iter()
            .find(|process| process["pid"] == *pid)
            .ok_or("a rank is missing")?;
        assert_eq!(process["rank"], *rank, "the rank of process {pid}");
        let mut seen = counts(&process["functions"])?;
        seen.retain(|name, (calls, _)| *calls > 0 && !UNTALLIED.contains(&name.as_str()));
        assert_eq!(seen, counts(&own_count["functions"])?, "rank {rank}");
    }
    Ok(())
}

#[test]
fn calls_and_bytes_are_those_that_the_program_counted_under_both_mpis() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let mut job = start_count(mpi, 3, &["--iterations", "25", "--recursion", "40"])?;
        let (launcher, ready) = (job.pid(), job.events("ready", 3, SOON)?);
        // Any process of the job stands for all of it.
        let target = match mpi {
            Mpi::OpenMpi => serde_json::from_value(ready[1]["pid"].clone())?,
            Mpi::Mpich => launcher,
        };
        let (own_counts, report) = observed(&mut job, target, 3)?;
        assert_eq!(report["job"]["launcher_pid"], launcher);
        assert_eq!(report["job"]["mpi"]["implementation"], mpi.name());
        assert_eq!(report["job"]["size"], 3);
        assert_same(&own_counts, &report)?;
    }
    Ok(())
}

#[test]
fn calls_of_threads_that_share_mpi_are_all_counted_under_both_mpis() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let program = programs::mpi("many", mpi)?;
        let mut job = Job::mpi(mpi, Waiting::Yielding, 2, &program, |folder| {
            with_folder(folder, ["3", "100"].map(str::to_owned).to_vec())
        })?;
        job.events("ready", 2, SOON)?;
        let launcher = job.pid();
        let (own_counts, report) = observed(&mut job, launcher, 2)?;
        assert_same(&own_counts, &report)?;
        let processes = each(&report["processes"]);
        for function in processes.flat_map(|process| each(&process["functions"])) {
            assert_eq!(
                function["nested_calls"], 0,
                "{mpi:?}: of another thread: {function}"
            );
        }
    }
    Ok(())
}
