//! Callbacks of MPI that do not return to it, with probes on the MPI calls: the program must behave as
//! without the agent.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::SOON;

/// Ways in which a callback does not return, and the counters of a rank that must equal the number of rounds.
const WAYS_OUT: [(&str, &[&str]); 7] = [
    ("throw", &["left", "destroyed", "sums"]),
    ("jump", &["left", "sums"]),
    ("thread", &["left", "destroyed", "cleaned", "sums"]),
    ("fiber", &["sums"]),
    ("operation", &["left", "destroyed", "sums"]),
    ("attribute", &["left", "destroyed", "sums"]),
    ("request", &["left", "destroyed", "sums"]),
];
const ROUNDS: u64 = 200;

/// The ways and their MPI. In short runs every third way, attached to under one MPI and watched from the
/// start under the other; with TUNEAGENT_LONG=1 each way under both. The hostile programs use all ways in
/// every run.
fn ways_out(first: Mpi) -> Outcome<Vec<(Mpi, &'static str, &'static [&'static str])>> {
    let second = Mpi::ALL.into_iter().find(|mpi| *mpi != first).ok_or("one MPI")?;
    let mut all = Vec::new();
    let (step, most) = if is_long() { (1, 2) } else { (3, 1) };
    for (number, (way, counted)) in WAYS_OUT.into_iter().enumerate().step_by(step) {
        let of_both = [[first, second], [second, first]][number % 2];
        // MPICH holds a lock while it calls an error handler, so the program cannot continue after a thread
        // exits there.
        let ends = of_both
            .into_iter()
            .filter(|mpi| (*mpi, way) != (Mpi::Mpich, "thread"));
        all.extend(ends.take(most).map(|mpi| (mpi, way, counted)));
    }
    Ok(all)
}

fn leaving(way: &str, directory: &str) -> Vec<String> {
    [directory, way, &ROUNDS.to_string()].map(str::to_owned).to_vec()
}

/// Each rank counts the same as without the agent, and the report has at least as many calls of MPI_Allreduce
/// as rounds.
fn left_as_alone(own_counts: &[Value], counted: &[&str], report: &Value, what: &str) -> Outcome {
    assert_eq!(own_counts.len(), 2, "{what}: {report}");
    for own_count in own_counts {
        for name in counted {
            assert_eq!(own_count[name], ROUNDS, "{what}: {name} of {own_count}");
        }
        let processes = report["processes"].as_array().ok_or("no processes")?;
        let process = processes
            .iter()
            .find(|process| process["pid"] == own_count["pid"]);
        let process =
            process.ok_or_else(|| format!("{what}: no process {} in {report}", own_count["pid"]))?;
        let seen = crate::expected::counts(&process["functions"])?;
        let (calls, _) = seen.get("MPI_Allreduce").ok_or("no MPI_Allreduce")?;
        assert!(*calls >= ROUNDS, "{what}: {calls} calls of MPI_Allreduce");
    }
    Ok(())
}

#[test]
fn o2_calls_of_mpi_are_left_by_user_code_as_they_are_alone() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich, Cxx);
    for (mpi, way, counted) in ways_out(Mpi::OpenMpi)? {
        let program = programs::mpi_cxx("leaving", mpi)?;
        let mut job = Job::mpi(mpi, Waiting::Yielding, 2, &program, |folder| {
            leaving(way, &folder.to_string_lossy())
        })?;
        job.events("ready", 2, SOON)?;
        let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
        job.open("go")?;
        let own_counts = job.events("tally", 2, SOON)?;
        job.finish(SOON)?;
        let report = agent.finish(SOON)?;
        left_as_alone(&own_counts, counted, &report, &format!("{way}, {mpi:?}"))?;
        if way == "throw" {
            // Calls that do not return are counted without a time.
            let sends = &report["processes"][0]["functions"]
                .as_array()
                .ok_or("no functions")?;
            let send = sends.iter().find(|function| function["name"] == "MPI_Send");
            let send = send.ok_or_else(|| format!("no MPI_Send in {report}"))?;
            assert_eq!(
                (&send["calls"], &send["time_s"]),
                (&ROUNDS.into(), &Value::Null),
                "{send}"
            );
            let text = agent.lines.text();
            assert!(text.contains("returns not seen"), "{text}");
        }
    }
    Ok(())
}

#[test]
fn o2_the_same_where_the_program_is_watched_from_its_start() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich, Cxx);
    for (mpi, way, counted) in ways_out(Mpi::Mpich)? {
        let program = programs::mpi_cxx("leaving", mpi)?;
        let folder = tempfile::tempdir()?;
        let words = leaving(way, "-");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let command = mpi.command(2, folder.path(), &program, &words)?;
        let mut agent = Agent::starting(&["--rules", "none"], &command)?;
        let report = agent.finish(SOON)?;
        let lines = agent.lines.all();
        let said = lines
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
        let own_counts: Vec<Value> = said.filter(|value| value["event"] == "tally").collect();
        left_as_alone(&own_counts, counted, &report, &format!("{way}, {mpi:?}"))?;
    }
    Ok(())
}
