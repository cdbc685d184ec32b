//! The test programs and the harness without the agent: checks the numbers with which other tests compare.

use std::collections::BTreeMap;
use std::time::Duration;

use tuneagent_e2e::family::descendants;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{self, Count, SOON, counts, finish_pingpong, start_count, start_pingpong, with_folder};

/// Functions whose number of calls depends on timing. All other numbers in `count` are fixed.
const POLLING: [&str; 2] = ["MPI_Test", "MPI_Iprobe"];

fn fixed_counts(mpi: Mpi) -> Outcome<Vec<BTreeMap<String, Count>>> {
    let mut job = start_count(mpi, 3, &["--iterations", "4", "--recursion", "3"])?;
    job.open("go")?;
    let own_counts = job.events("tally", 3, SOON)?;
    job.end(SOON)?;
    let mut all = Vec::new();
    for own_count in own_counts {
        let mut counts = counts(&own_count["functions"])?;
        assert!(counts.len() >= 18, "varied calls were asked for: {counts:?}");
        counts.retain(|name, _| !POLLING.contains(&name.as_str()));
        all.push(counts);
    }
    Ok(all)
}

#[test]
fn the_counting_program_makes_the_same_calls_under_both_mpis() -> Outcome {
    let _machine = require!(shared: OpenMpi, Mpich);
    assert_eq!(fixed_counts(Mpi::OpenMpi)?, fixed_counts(Mpi::Mpich)?);
    Ok(())
}

#[test]
fn what_the_counting_program_sends_is_what_it_receives() -> Outcome {
    let _machine = require!(shared: Mpich);
    let own_counts = fixed_counts(Mpi::Mpich)?;
    let calls = |names: &[&str]| -> u64 {
        let of_one = |own_count: &BTreeMap<String, Count>| -> u64 {
            names
                .iter()
                .filter_map(|name| own_count.get(*name))
                .map(|(calls, _)| calls)
                .sum()
        };
        own_counts.iter().map(of_one).sum()
    };
    let sent = calls(&["MPI_Send", "MPI_Ssend", "MPI_Bsend", "MPI_Isend"]);
    assert_eq!(sent, calls(&["MPI_Recv", "MPI_Irecv"]));
    Ok(())
}

#[test]
fn the_ping_pong_program_computes_what_the_model_says() -> Outcome {
    let _machine = require!(shared: OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let job = start_pingpong(mpi, Waiting::Yielding, 2, 500)?;
        job.open("go")?;
        assert_eq!(finish_pingpong(job, 2)?, 500);
        let job = start_pingpong(mpi, Waiting::Yielding, 4, 0)?;
        job.open("go")?;
        job.open("stop")?;
        assert!(finish_pingpong(job, 4)? >= 1);
    }
    Ok(())
}

#[test]
fn the_busy_program_counts_nested_recursive_and_jumped_calls() -> Outcome {
    require!(Cc);
    let mut job = Job::alone(&programs::c("busywork")?, |folder| {
        with_folder(folder, vec!["30".to_owned()])
    })?;
    job.open("go")?;
    let own_count = job.events("tally", 1, SOON)?.remove(0);
    // Each round makes 1 + round % 5 inner calls, plus 3.
    assert_eq!(own_count["step_outer"], 30);
    assert_eq!(own_count["step_inner"], 30 / 5 * (1 + 2 + 3 + 4 + 5) + 30 * 3);
    assert_eq!(own_count["may_jump"], 30);
    assert_eq!(own_count["jumps"], 10);
    job.end(SOON)
}

#[test]
fn the_throwing_program_catches_what_it_throws() -> Outcome {
    require!(Cxx);
    let mut job = Job::alone(&programs::cxx("thrower")?, |folder| {
        with_folder(folder, vec!["30".to_owned()])
    })?;
    job.open("go")?;
    let own_count = job.events("tally", 1, SOON)?.remove(0);
    assert_eq!(
        (
            &own_count["pass_through"],
            &own_count["thrown"],
            &own_count["caught"]
        ),
        (&30.into(), &15.into(), &15.into())
    );
    job.end(SOON)
}

#[test]
fn dropping_a_job_ends_its_ranks() -> Outcome {
    let _machine = require!(shared: OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let job = start_count(mpi, 2, &[])?;
        let family = descendants(job.pid());
        assert!(family.len() >= 2, "{mpi:?}: {family:?}");
        drop(job);
        assert!(
            family.iter().all(|member| !member.is_alive()),
            "{mpi:?}: {family:?}"
        );
    }
    Ok(())
}

#[test]
fn a_program_that_fails_is_a_problem_that_shows_its_output() -> Outcome {
    require!(Mpich);
    let program = programs::mpi("pingpong", Mpi::Mpich)?;
    let mut job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 2, &program, |_| Vec::new())?;
    let problem = job.finish(Duration::from_secs(20)).unwrap_err().to_string();
    assert!(problem.contains("usage: mpirun"), "{problem}");
    Ok(())
}

#[test]
fn the_model_of_the_ping_pong_agrees_with_a_recorded_result() {
    // Recorded from both MPIs, so that the model is compared with real runs and not only with itself.
    assert_eq!(expected::pingpong_checksum(2, 1000), "a6623cb9f2809598");
    assert_eq!(expected::pingpong_checksum(6, 10), "71a26b9c14e87b92");
}
