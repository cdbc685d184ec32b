//! Other tools: under libraries between a job and its MPI, each call is counted once, as without these
//! libraries.

use std::collections::BTreeMap;

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::{SOON, counts, summed, with_folder};

/// `LD_PRELOAD` with these copies of the library; the first one is nearest to the program.
fn preload(mpi: Mpi, copies: &[u32]) -> Outcome<String> {
    let library = |copy: &u32| {
        Ok(programs::mpi_library("preload", mpi, *copy)?
            .display()
            .to_string())
    };
    let libraries: Vec<String> = copies.iter().map(library).collect::<Outcome<_>>()?;
    Ok(format!("LD_PRELOAD={}", libraries.join(":")))
}

fn calls(functions: &Value) -> BTreeMap<String, u64> {
    let list = each(functions);
    list.filter_map(|function| Some((function["name"].as_str()?.to_owned(), function["calls"].as_u64()?)))
        .collect()
}

/// Runs `count` under libraries and the agent. The program, the agent and each library must count the same
/// calls.
fn counted_once(mpi: Mpi, copies: &[u32]) -> Outcome {
    let environment = [preload(mpi, copies)?];
    let program = programs::mpi("count", mpi)?;
    let mut job = Job::mpi_under(&environment, (mpi, Waiting::Yielding), 3, &program, |folder| {
        with_folder(folder, ["--iterations", "20"].map(String::from).to_vec())
    })?;
    job.events("ready", 3, SOON)?;
    let mut agent = Agent::attach(job.pid(), &[])?;
    let (own_counts, report) = summed(&mut job, &mut agent, 3)?;
    let others = job.events("preload", 3 * copies.len(), SOON)?;
    assert_eq!(report["job"]["mpi"]["implementation"], mpi.name(), "{report}");
    assert_eq!(report["completeness"]["status"], "complete", "{report}");
    let processes = report["processes"].as_array().ok_or("no processes")?;
    for own_count in &own_counts {
        let rank = &own_count["rank"];
        let mine = processes.iter().find(|process| process["rank"] == *rank);
        let seen = counts(&mine.ok_or("a rank is missing")?["functions"])?;
        for (name, count) in counts(&own_count["functions"])? {
            assert_eq!(
                seen.get(&name),
                Some(&count),
                "{name} of rank {rank} under {copies:?}"
            );
        }
        let of_rank = others.iter().filter(|other| other["rank"] == *rank);
        let of_rank: Vec<_> = of_rank.map(|other| calls(&other["functions"])).collect();
        assert_eq!(
            of_rank.len(),
            copies.len(),
            "every library stood before the program"
        );
        for (name, count) in calls(&own_count["functions"]) {
            assert!(
                of_rank.iter().all(|other| other.get(&name) == Some(&count)),
                "{name} of rank {rank}: {count}, {of_rank:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn calls_through_preloaded_profilers_are_counted_once_under_both_mpis() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    counted_once(Mpi::Mpich, &[1])?;
    // The first library passes calls on to the second, which calls MPI.
    counted_once(Mpi::OpenMpi, &[2, 1])
}

#[test]
fn the_first_lines_have_the_calls_of_all_of_sixteen_ranks() -> Outcome {
    let _machine = require!(machine: Root, Mpich);
    let program = programs::mpi("sleepers", Mpi::Mpich)?;
    let mut job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 16, &program, |folder| {
        with_folder(folder, vec!["20000".into()])
    })?;
    job.events("ready", 16, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &[])?;
    agent.lines.wait_for_line(" after ", SOON)?;
    let report = agent.snapshot()?;
    let processes = report["processes"].as_array().ok_or("no processes")?;
    let called = processes
        .iter()
        .filter(|process| calls(&process["functions"]).get("MPI_Allreduce") > Some(&0));
    assert_eq!((processes.len(), called.count()), (16, 16), "{report}");
    // Lines are printed every ten seconds, the first ones at once.
    let elapsed = report["elapsed_s"].as_f64().ok_or("no time")?;
    assert!(elapsed < 9.0, "the first lines came after {elapsed} s");
    agent.stop()?;
    job.end(SOON)
}
