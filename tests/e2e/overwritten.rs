//! Programs with code that was overwritten in memory, as by the memory hooks of Open MPI and UCX. The
//! overwritten functions are not probed and are reported, because under a probe the kernel would execute the
//! instruction of the file.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, finish_pingpong, start_pingpong, with_folder};

/// Probes on all functions of the program; it overwrites one of them.
const PROBES: [&str; 6] = ["--probe", "step", "--probe", "kept", "--probe", "nop_first"];

/// Starts `diverts`, which overwrites its function at the start, never, or at a gate.
fn start(when: &str) -> Outcome<Job> {
    let job = Job::alone(&programs::c("diverts")?, |folder| {
        with_folder(folder, vec![when.to_owned()])
    })?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

/// The program runs for a while and ends in order; it checks the return values of its functions.
fn goes_on(mut job: Job) -> Outcome {
    let seen = job.events("pace", 0, SOON)?.len();
    job.events("pace", seen + 3, SOON)?;
    job.end(SOON)
}

fn missing(report: &Value) -> String {
    let missing = report["completeness"]["missing"].as_array();
    let lines = missing.into_iter().flatten().filter_map(Value::as_str);
    lines.collect::<Vec<_>>().join("\n")
}

/// Counted calls of a function in the first process.
fn calls(report: &Value, name: &str) -> Option<u64> {
    let functions = report["processes"][0]["functions"].as_array()?;
    functions.iter().find(|function| function["name"] == name)?["calls"].as_u64()
}

#[test]
fn a_function_that_the_program_has_overwritten_is_left_alone_and_the_others_are_counted() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let job = start("start")?;
    let mut agent = Agent::attach_armed(job.pid(), &[&["--rules", "none"], &PROBES[..]].concat())?;
    let seen = job.events("pace", 0, SOON)?.len();
    job.events("pace", seen + 5, SOON)?;
    let report = agent.stop()?;
    let said = missing(&report);
    assert_has!(
        said,
        &format!("step is not probed in process {}: its code in diverts", job.pid()),
        "was overwritten in the memory of process",
        ": e9 ",
        "a jump to instead in diverts",
        "probe instead, where its calls go, or start the program without what overwrites it"
    );
    assert!(
        !said.contains("kept is") && !said.contains("nop_first is"),
        "{said}"
    );
    assert!(matches!(calls(&report, "step"), None | Some(0)), "{report}");
    for name in ["kept", "nop_first"] {
        assert!(calls(&report, name) > Some(0), "{name}: {report}");
    }
    goes_on(job)
}

#[test]
fn a_link_that_serves_all_processes_is_not_made_where_a_strangers_code_was_overwritten() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let stranger = start("start")?;
    // Enough processes that one link serves all.
    let jobs: Vec<Job> = (0..9).map(|_| start("never")).collect::<Outcome<_>>()?;
    let others: Vec<String> = jobs[1..].iter().map(|job| job.pid().to_string()).collect();
    let mut flags: Vec<&str> = others.iter().map(String::as_str).collect();
    flags.extend(["--rules", "none"]);
    flags.extend(PROBES);
    let mut agent = Agent::attach_armed(jobs[0].pid(), &flags)?;
    let seen = jobs[0].events("pace", 0, SOON)?.len();
    jobs[0].events("pace", seen + 5, SOON)?;
    let report = agent.stop()?;
    let said = missing(&report);
    let part = "step is not probed in any process (one link serves all): its code in diverts";
    assert!(said.contains(part), "'{part}' is not in: {said}");
    // The error names the first such process, which may belong to another test.
    let (_, named) = said
        .split_once("was overwritten in the memory of process ")
        .ok_or("no process")?;
    let is_one_of_ours = |job: &Job| named.starts_with(&format!("{} ", job.pid()));
    assert!(!jobs.iter().any(is_one_of_ours), "{said}");
    assert!(calls(&report, "kept") > Some(0), "{report}");
    jobs.into_iter().chain([stranger]).try_for_each(goes_on)
}

#[test]
fn nothing_waits_at_a_function_that_was_overwritten() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let job = start("start")?;
    let pid = job.pid().to_string();
    for (place, works) in [("entry:step", false), ("entry:kept", true)] {
        let (code, text) = Agent::run(&["set", &pid, "knob=2", "--at", place, "--within", "20s"])?;
        assert_eq!(code == 0, works, "{place}: {code}: {text}");
        assert_eq!(
            text.contains("its code was overwritten in memory"),
            !works,
            "{text}"
        );
    }
    goes_on(job)
}

/// Debian's MPICH uses UCX, which overwrites those functions of the C library that release memory with a
/// jump.
#[test]
fn the_memory_hooks_of_ucx_are_left_alone_and_named() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let job = start_pingpong(Mpi::Mpich, Waiting::Yielding, 2, 0)?;
    job.open("go")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", "--probe", "munmap"])?;
    let report = agent.stop()?;
    let said = missing(&report);
    assert_has!(
        said,
        "munmap is not probed in process",
        "a jump to ucm_override_munmap in libucm.so",
        "(UCX_MEM_MMAP_HOOK_MODE=none)"
    );
    assert!(
        !said.contains("MPI_"),
        "its own functions are as the file has them: {said}"
    );
    job.open("stop")?;
    finish_pingpong(job, 2)?;
    Ok(())
}

#[test]
fn probes_that_went_with_pages_that_were_thrown_away_are_missed() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let job = start("thrown")?;
    let mut agent = Agent::attach_armed(job.pid(), &[&["--rules", "none"], &PROBES[..]].concat())?;
    job.events("pace", 3, SOON)?;
    job.open("divert")?;
    job.events("thrown", 1, SOON)?;
    let part = format!("are gone from the memory of process {}", job.pid());
    wait_until(&part, SOON, || Ok(missing(&agent.snapshot()?).contains(&part)))?;
    agent.stop()?;
    goes_on(job)
}
