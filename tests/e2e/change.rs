//! Changes of a program by commands and by rules, in every rank, and their revert. Without the right to
//! write, nothing changes.

use std::path::Path;
use std::time::{Duration, Instant};

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::knobs::Knobs;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, finish_pingpong, start_pingpong};

const VARIABLE: &str = "opal_progress_yield_when_idle";

/// Value of the variable in every rank, as raw bytes.
fn values(state: &Path, pid: &str) -> Outcome<Vec<String>> {
    let text = Agent::succeed_in(state, &["get", pid, VARIABLE])?;
    let value = |line: &str| {
        line.split(" = ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .map(str::to_owned)
    };
    Ok(text.lines().filter_map(value).collect())
}

#[test]
fn set_by_hand_reaches_every_rank_stays_and_is_taken_back() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi);
    let state = tempfile::tempdir()?;
    let state = state.path();
    let job = start_pingpong(Mpi::OpenMpi, Waiting::Spinning, 4, 0)?;
    job.open("go")?;
    let pid = job.pid().to_string();
    assert_eq!(values(state, &pid)?, ["0x00"; 4]);

    let assignment = format!("{VARIABLE}=true");
    let (code, text) = Agent::run_in(state, &["set", &pid, &assignment])?;
    assert_eq!(code, 1, "without its type: {text}");
    assert!(text.contains("state the type"), "{text}");
    assert_eq!(values(state, &pid)?, ["0x00"; 4]);

    let text = Agent::succeed_in(state, &["set", &pid, &assignment, "--type", "bool"])?;
    assert_eq!(
        text.matches("false -> true (bool), change 1").count(),
        4,
        "{text}"
    );
    assert_has!(text, "note: the ranks got the value at different iterations");
    assert_eq!(
        values(state, &pid)?,
        ["0x01"; 4],
        "it stays when the command has ended"
    );

    let in_vain: Vec<&str> = "--type bool --at entry:MPI_Finalize --within 500ms"
        .split(' ')
        .collect();
    let back = assignment.replace("true", "false");
    let words = [&["set", &pid, &back], &in_vain[..]].concat();
    let (code, text) = Agent::run_in(state, &words)?;
    assert_eq!(code, 1, "{text}");
    assert_has!(
        text,
        "did not reach entry:MPI_Finalize within 500 ms",
        &format!("the ranks may wait for each other: `{VARIABLE}` was set in 4 of them before")
    );

    let (code, text) = Agent::run_in(state, &["journal", &pid])?;
    assert_eq!((code, text.matches("in force").count()), (0, 1), "{text}");
    assert_eq!(text.matches("change 1").count(), 1, "one entry: {text}");
    // The launcher stands for its ranks.
    let text = Agent::succeed_in(state, &["explain", "change", &format!("{pid}:1")])?;
    assert_eq!(text.matches("change 1").count(), 1, "one entry: {text}");
    let text = Agent::succeed_in(state, &["symbols", &pid])?;
    assert_has!(text, "pingpong", "launches processes; this is the first of them");

    // The number of a change stands for all ranks that it was made in, unless one of them is named.
    let (code, text) = Agent::run_in(state, &["undo", &pid, "1"])?;
    assert_eq!((code, text.matches(" reverted: ").count()), (0, 4), "{text}");
    assert_eq!(values(state, &pid)?, ["0x00"; 4]);
    let (code, text) = Agent::run_in(state, &["undo", &pid])?;
    assert_eq!((code, text.trim()), (0, "nothing to revert"));
    job.open("stop")?;
    finish_pingpong(job, 4)?;
    Ok(())
}

#[test]
fn the_last_change_alone_is_taken_back_and_the_journal_has_everything() -> Outcome {
    require!(Root, Cc);
    let state = tempfile::tempdir()?;
    let mut knobs = Knobs::start()?;
    let pid = knobs.pid().to_string();
    for value in ["knob=11", "knob=12", "rate=2.5"] {
        Agent::succeed_in(state.path(), &["set", &pid, value])?;
    }
    let seen = |knobs: &mut Knobs| -> Outcome<(serde_json::Value, serde_json::Value)> {
        let values = knobs.values()?;
        Ok((values["knob"].clone(), values["rate"].clone()))
    };
    Agent::succeed_in(state.path(), &["undo", &pid, "--last"])?;
    assert_eq!(seen(&mut knobs)?, (12.into(), 1.5.into()));
    Agent::succeed_in(state.path(), &["undo", &pid, "--last"])?;
    assert_eq!(
        seen(&mut knobs)?,
        (11.into(), 1.5.into()),
        "of several of one variable the newest"
    );
    let (code, text) = Agent::run_in(state.path(), &["undo", &pid, "1"])?;
    assert_eq!((code, knobs.knob()?), (0, 10), "{text}");
    let (code, text) = Agent::run_in(state.path(), &["undo", &pid])?;
    assert_eq!((code, text.trim()), (0, "nothing to revert"));
    let (code, text) = Agent::run_in(state.path(), &["undo", &pid, "1", "--last"])?;
    assert_eq!(code, 2, "{text}");

    let text = Agent::succeed_in(state.path(), &["journal", &pid])?;
    assert_has!(
        text,
        "change 2  knob 11 -> 12  reverted",
        "change 3  rate 1.5 -> 2.5  reverted",
        "by hand, started by root, without stopping the program"
    );
    knobs.end()?;
    let text = Agent::succeed_in(state.path(), &["journal", &pid])?;
    assert_has!(
        text,
        "knobs: 1 process, ended\n",
        "change 3  rate 1.5 -> 2.5  reverted"
    );
    Ok(())
}

/// Waits 30 ms: start times in /proc have ticks of 10 ms, and a fork after this is then certainly later than
/// all writes before it.
fn some_ticks_later() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(30) {
        std::thread::yield_now();
    }
}

#[test]
fn undo_gives_a_program_and_the_workers_that_it_forked_before_the_change_each_its_own_value() -> Outcome {
    require!(Root, Cc);
    let state = tempfile::tempdir()?;
    let program = programs::c("forked")?;
    let mut job = Job::alone(&program, |folder| vec![folder.display().to_string()])?;
    job.events("ready", 1, SOON)?;
    let pid = job.pid().to_string();
    // In rank order, not in order of process numbers, which wrap around.
    let run = |arguments: &[&str], values: &[i64]| -> Outcome<String> {
        let text = Agent::succeed_in(state.path(), arguments)?;
        let seen = Agent::values_in(state.path(), &pid, "knob")?;
        let workers = job.events("began", values.len() - 1, SOON)?;
        let workers = workers.iter().filter_map(|worker| worker["pid"].as_u64());
        let pids = std::iter::once(u64::from(job.pid())).chain(workers);
        let of_ranks: Vec<_> = pids.map(|pid| seen.get(&(pid as u32)).copied()).collect();
        let expected: Vec<_> = values.iter().copied().map(Some).collect();
        assert_eq!(of_ranks, expected, "after {arguments:?}: {text}");
        assert_eq!(seen.len(), values.len(), "after {arguments:?}: {text}");
        Ok(text)
    };
    // One worker already has the value that its parent is changed to.
    run(&["set", &pid, "knob=101", "--only"], &[101, 100, 101, 102])?;
    run(&["undo", &pid, "--last"], &[10, 100, 101, 102])?;
    // A change of all processes, and a process that is forked after it.
    run(&["set", &pid, "knob=11"], &[11; 4])?;
    some_ticks_later();
    job.open("fork")?;
    job.events("forked", 1, SOON)?;
    let text = run(&["undo", &pid], &[10, 100, 101, 102, 10])?;
    assert_eq!(text.matches("reverted: knob").count(), 5, "{text}");
    run(&["undo", &pid], &[10, 100, 101, 102, 10])?;
    job.open("stop")?;
    let ends = job.events("end", 5, SOON)?;
    let values: Vec<_> = ends.iter().filter_map(|end| end["knob"].as_i64()).collect();
    assert_eq!(values, [10, 100, 101, 102, 10]);
    job.finish(SOON)
}
