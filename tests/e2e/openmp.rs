//! The profile of parallel regions, without a rule: against programs whose times are known, on both libraries.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::needs::{is_long, machine};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder};
use crate::iterations::{number, wait_for};

/// A program of parallel regions, told these words.
pub(crate) fn start(program: &Path, words: &str) -> Outcome<Job> {
    let words = words.split(' ').map(str::to_owned).collect();
    let job = Job::alone(program, |folder| with_folder(folder, words))?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

/// One thread at a time in its region would be quicker than any probe: no team, and as many regions a second as there can be.
fn start_hot(program: PathBuf) -> Outcome<Job> {
    let job = Job::alone(Path::new("/usr/bin/env"), |folder| {
        let folder = folder.to_string_lossy().into_owned();
        let program = program.to_string_lossy().into_owned();
        vec!["OMP_NUM_THREADS=1".to_owned(), program, folder, "1".to_owned()]
    })?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

/// What such a program of two threads says of its own times, by the definitions of the report.
#[derive(Debug, Default)]
struct Truth {
    inside_s: f64,
    working_s: f64,
    waiting_s: f64,
    longest_s: f64,
    teams_s: f64,
}

/// Of what lies in this window of the monotonic clock: a region at either end of it counts in part, for its team only if it lies in it wholly.
fn truth(iterations: &[Value], window: &Range<f64>) -> Truth {
    let mut truth = Truth::default();
    let regions = iterations.iter().flat_map(|of| of["regions"].as_array());
    for region in regions.flatten() {
        let (start, end) = (number(&region["start_s"]), number(&region["end_s"]));
        truth.inside_s += (end.min(window.end) - start.max(window.start)).max(0.0);
        if start < window.start || end > window.end {
            continue;
        }
        let of = |thread: usize| &region["threads"][thread];
        let left = [0, 1].map(|thread| number(&of(thread)[1]));
        let worked = [0, 1].map(|thread| number(&of(thread)[1]) - number(&of(thread)[0]));
        truth.working_s += worked[0] + worked[1];
        truth.waiting_s += (left[0] - left[1]).abs();
        truth.longest_s += 2.0 * worked[0].max(worked[1]);
        truth.teams_s += 2.0 * (end - start);
    }
    truth
}

/// The mean time between the starts of iterations that are in this window.
fn mean_period_s(iterations: &[Value], window: &Range<f64>) -> f64 {
    let starts = iterations.iter().map(|of| number(&of["start_s"]));
    let starts: Vec<f64> = starts.filter(|start| window.contains(start)).collect();
    (starts[starts.len() - 1] - starts[0]) / (starts.len() - 1) as f64
}

/// What part of the time is inside regions, what their threads do there, how long an iteration takes: by the closed form of each, from what
/// the program says of itself. It sleeps its times and says how long it slept: a host that stops the machine makes both longer.
fn known_times(program: &Path) -> Outcome {
    let _machine = machine();
    let mut job = start(program, "40 40 120 40")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    wait_for(&agent, |now| now["iteration"]["count"].as_u64() > Some(12))?;
    let stopped = clock_gettime(ClockId::Monotonic);
    let stopped_s = stopped.tv_sec as f64 + stopped.tv_nsec as f64 / 1e9;
    let report = agent.stop()?;
    job.end(SOON)?;
    let found = &report["processes"][0]["openmp"];
    let teams = &found["teams"];
    assert_eq!(teams["threads_least"], 2, "{found}");
    assert_eq!(teams["threads_most"], 2, "{found}");
    let elapsed_s = number(&report["elapsed_s"]);
    let window = stopped_s - elapsed_s..stopped_s;
    let iterations = job.events("iteration", 12, SOON)?;
    let truth = truth(&iterations, &window);
    for (name, value, expected) in [
        ("inside", &found["inside_share"], truth.inside_s / elapsed_s),
        (
            "working",
            &teams["working_share"],
            truth.working_s / truth.teams_s,
        ),
        (
            "waiting",
            &teams["waiting_share"],
            truth.waiting_s / truth.teams_s,
        ),
        (
            "balance",
            &teams["load_balance"],
            truth.working_s / truth.longest_s,
        ),
        (
            "iteration",
            &report["iteration"]["mean_s"],
            mean_period_s(&iterations, &window),
        ),
        ("regions", &report["iteration"]["parallel_regions"], 2.0),
    ] {
        let ratio = number(value) / expected;
        // A region that is under way at either end counts in part.
        assert!(
            (0.94..=1.06).contains(&ratio),
            "{name} should be {expected}: {found} {} {truth:?}",
            report["iteration"]
        );
    }
    assert_eq!(report["iteration"]["mpi_calls"], Value::Null);
    assert_eq!(report["efficiencies"], Value::Null, "there is no MPI");
    let sites = report["call_sites"]["sites"].as_array().ok_or("no call sites")?;
    let of = sites.iter().filter(|site| site["caller"] == "iterate");
    assert_eq!(of.count(), 2, "{sites:?}");
    let text = agent.lines.text();
    assert_has!(
        text,
        "parallel regions/s",
        "time of their teams (2 threads)",
        "2 parallel regions each"
    );
    Ok(())
}

#[test]
fn regions_of_known_times_are_those_of_the_closed_form_as_root() -> Outcome {
    require!(Root, Cc);
    known_times(&programs::openmp("uneven")?)
}

#[test]
fn regions_of_known_times_on_the_library_of_llvm_are_those_of_the_closed_form_as_root() -> Outcome {
    // Its regions are counted in every run (`language`).
    if !is_long() {
        return Ok(());
    }
    require!(Root, Cc, LlvmOpenMp);
    known_times(&programs::openmp_of_llvm("uneven")?)
}

#[test]
fn regions_by_the_ten_thousand_are_probed_now_and_then_and_the_report_says_how_long_as_root() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut job = start_hot(programs::openmp("teams")?)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    agent
        .lines
        .wait_for_line("parallel regions are probed in sampling windows", SOON)?;
    let regions = |report: &Value| report["processes"][0]["openmp"]["regions"].as_u64();
    // How many are in a window depends on whether the host let the program run in it.
    let rested = |now: &Value| {
        let probed_s = number(&now["processes"][0]["openmp"]["probed_s"]);
        regions(now) > Some(0) && probed_s < 0.5 * number(&now["elapsed_s"])
    };
    wait_for(&agent, rested)?;
    // After a rest they are probed anew. It is as long as what they cost takes, a minute here: `agent/session` has a table of it.
    if is_long() {
        let before = agent.snapshot()?;
        wait_for(&agent, |now| regions(now) > regions(&before))?;
    }
    let report = agent.stop()?;
    job.end(SOON)?;
    let found = &report["processes"][0]["openmp"];
    assert!(
        number(&found["probed_s"]) < 0.5 * number(&report["elapsed_s"]),
        "{found}"
    );
    // It does nothing else: the iteration is a region.
    assert_eq!(
        report["iteration"]["parallel_regions"], 1.0,
        "{}",
        report["iteration"]
    );
    let text = agent.lines.text();
    assert!(text.contains("% of the time that they were probed)"), "{text}");
    Ok(())
}

#[test]
fn a_program_whose_regions_have_no_symbols_says_what_is_not_known_as_root() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let stripped = folder.path().join("uneven");
    let program = programs::openmp("uneven")?;
    let status = std::process::Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(&program)
        .status()?;
    assert!(status.success());
    let mut job = start(&stripped, "5 5 10 5")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    wait_for(&agent, |now| now["iteration"]["count"].as_u64() > Some(12))?;
    let report = agent.stop()?;
    job.end(SOON)?;
    let found = &report["processes"][0]["openmp"];
    assert!(number(&found["inside_share"]) > 0.3, "{found}");
    assert_eq!(found["teams"], Value::Null);
    let why = found["without_teams"].as_str().ok_or("no reason")?;
    assert!(why.contains("no symbols"), "{why}");
    Ok(())
}
