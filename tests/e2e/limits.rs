//! Many processes, many threads, few file descriptors: a change is made in all members and reverted to each
//! one's value, or in none.

use std::path::Path;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::needs::amount;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::SOON;

/// Starts a program that forks `workers` processes, each with a different value. Returns the job and all
/// values.
fn forked(workers: usize) -> Outcome<(Job, Vec<i64>)> {
    let program = programs::c("forked")?;
    let job = Job::alone(&program, |folder| {
        vec![folder.display().to_string(), workers.to_string()]
    })?;
    job.events("ready", 1, SOON)?;
    let own = (0..workers as i64).map(|worker| 100 + worker);
    Ok((job, std::iter::once(10).chain(own).collect()))
}

/// Sorted values of `knob` in all processes.
fn knobs(state: &Path, pid: &str) -> Outcome<Vec<i64>> {
    let mut values: Vec<i64> = Agent::values_in(state, pid, "knob")?.into_values().collect();
    values.sort_unstable();
    Ok(values)
}

#[test]
fn with_few_descriptors_all_of_sixty_processes_are_written_or_none_and_each_gets_its_own_value_back()
-> Outcome {
    require!(Root, Cc);
    let state = tempfile::tempdir()?;
    let (mut job, own) = forked(60)?;
    let pid = job.pid().to_string();
    let mut refused = 0;
    for descriptors in [20, 40, 64, 1024] {
        let set = ["set", &pid, "knob=11"];
        let (code, text) = Agent::run_with_descriptors(descriptors, state.path(), &set)?;
        let after = knobs(state.path(), &pid)?;
        match code {
            0 => assert_eq!(after, vec![11; own.len()], "{descriptors}: {text}"),
            _ => assert_eq!(after, own, "{descriptors}: {code}: {text}"),
        }
        refused += u32::from(code != 0);
        let (code, text) = Agent::run_in(state.path(), &["undo", &pid])?;
        assert_eq!(code, 0, "{descriptors}: {text}");
        assert_eq!(knobs(state.path(), &pid)?, own, "{descriptors}: {text}");
    }
    assert!((1..4).contains(&refused), "{refused} of 4");
    job.open("stop")?;
    job.open("fork")?;
    job.finish(SOON)
}

/// With 500 processes in long runs.
#[test]
fn many_processes_are_watched_changed_and_given_back_what_each_had() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let state = tempfile::tempdir()?;
    let (mut job, own) = forked(amount("TUNEAGENT_PROCESSES", 100, 500)? as usize)?;
    let pid = job.pid().to_string();
    let watch = format!("attach {pid} --probe main --plain --rules none --duration 2s");
    let watch: Vec<&str> = watch.split(' ').collect();
    Agent::succeed_in(state.path(), &watch)?;
    Agent::succeed_in(state.path(), &["set", &pid, "knob=11"])?;
    assert_eq!(knobs(state.path(), &pid)?, vec![11; own.len()]);
    Agent::succeed_in(state.path(), &["undo", &pid])?;
    assert_eq!(knobs(state.path(), &pid)?, own);
    job.open("stop")?;
    job.open("fork")?;
    job.finish(SOON)
}

#[test]
fn a_program_of_two_thousand_threads_is_watched_and_changed_and_none_of_them_goes_wrong() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let state = tempfile::tempdir()?;
    let mut job = Job::alone(&programs::threads("crowd")?, |folder| {
        vec![folder.display().to_string(), "2000".into()]
    })?;
    let ready = job.events("ready", 1, SOON)?;
    assert!(ready[0]["threads"].as_u64() > Some(1000), "{ready:?}");
    let pid = job.pid().to_string();
    let watch = format!("attach {pid} --probe f --plain --rules none --duration 2s");
    let steps: [&[&str]; 5] = [
        &watch.split(' ').collect::<Vec<_>>(),
        &["patch", &pid, "replace", "f", "g"],
        &["call", &pid, "g(3)"],
        &["set", &pid, "knob=11"],
        &["undo", &pid],
    ];
    for step in steps {
        let (code, text) = Agent::run_in(state.path(), step)?;
        assert_eq!(code, 0, "{step:?}: {text}");
    }
    job.open("stop")?;
    let end = job.events("end", 1, SOON)?;
    assert_eq!(end[0]["wrong"], 0, "{end:?}");
    job.finish(SOON)
}
