//! The profile of parallel regions, without a rule, on programs with known times, for both OpenMP libraries.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::needs::{calm, is_long};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder};
use crate::iterations::{number, wait_for_report};

/// Starts a program of parallel regions with these arguments.
pub(crate) fn start(program: &Path, words: &str) -> Outcome<Job> {
    let words = words.split(' ').map(str::to_owned).collect();
    let job = Job::alone(program, |folder| with_folder(folder, words))?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

/// Starts `teams` with one thread and regions that are shorter than a probe hit, at the maximum rate.
fn start_hot(program: PathBuf) -> Outcome<Job> {
    let job = Job::alone(Path::new("/usr/bin/env"), |folder| {
        let folder = folder.to_string_lossy().into_owned();
        let program = program.to_string_lossy().into_owned();
        vec!["OMP_NUM_THREADS=1".to_owned(), program, folder, "1".to_owned()]
    })?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

/// Times that a program with two threads reports, by the definitions of our report.
#[derive(Debug, Default)]
struct Truth {
    inside_s: f64,
    working_s: f64,
    waiting_s: f64,
    longest_s: f64,
    teams_s: f64,
}

/// Times within this window of the monotonic clock. A region at an edge counts partly as time inside regions;
/// only complete regions count for their team.
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

/// Mean time between the starts of the iterations in this window.
fn mean_period_s(iterations: &[Value], window: &Range<f64>) -> f64 {
    let starts = iterations.iter().map(|of| number(&of["start_s"]));
    let starts: Vec<f64> = starts.filter(|start| window.contains(start)).collect();
    (starts[starts.len() - 1] - starts[0]) / (starts.len() - 1) as f64
}

/// Compares the report with the closed form of each number, computed from the program's own times. The
/// program measures its sleeps, because they take longer when the hypervisor stops the machine.
fn known_times(program: &Path, has_names: bool) -> Outcome {
    let _machine = calm();
    let mut job = start(program, "40 40 120 40")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    wait_for_report(&agent, |now| now["iteration"]["count"].as_u64() > Some(12))?;
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
        // 6 % tolerance, because regions at the edges count in part.
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
    assert_eq!(of.count(), if has_names { 2 } else { 0 }, "{sites:?}");
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
fn regions_of_known_times_are_those_of_the_closed_form() -> Outcome {
    require!(Root, Cc);
    known_times(&programs::openmp("uneven")?, true)
}

#[test]
fn regions_of_known_times_on_the_library_of_llvm_are_those_of_the_closed_form() -> Outcome {
    // Long runs only; `language` counts the regions of this library in every run.
    if !is_long() {
        return Ok(());
    }
    require!(Root, Cc, LlvmOpenMp);
    known_times(&programs::openmp_of_llvm("uneven")?, true)
}

#[test]
fn regions_by_the_ten_thousand_are_probed_now_and_then_and_the_report_says_how_long() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut job = start_hot(programs::openmp("teams")?)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    agent
        .lines
        .wait_for_line("parallel regions are probed in sampling windows", SOON)?;
    let regions = |report: &Value| report["processes"][0]["openmp"]["regions"].as_u64();
    // The number of regions in a window depends on the CPU time that the program gets in it.
    let rested = |now: &Value| {
        let probed_s = number(&now["processes"][0]["openmp"]["probed_s"]);
        regions(now) > Some(0) && probed_s < 0.5 * number(&now["elapsed_s"])
    };
    wait_for_report(&agent, rested)?;
    // After a pause they are probed again. The pause, about a minute here, pays for their cost;
    // `agent/session` tests its length.
    if is_long() {
        let before = agent.snapshot()?;
        wait_for_report(&agent, |now| regions(now) > regions(&before))?;
    }
    let report = agent.stop()?;
    job.end(SOON)?;
    let found = &report["processes"][0]["openmp"];
    assert!(
        number(&found["probed_s"]) < 0.5 * number(&report["elapsed_s"]),
        "{found}"
    );
    // The probes are a great part of the time of such regions, so no time of an iteration is shown, unless the program has
    // waited for a CPU so long that they are not.
    match &found["time_inside_s"] {
        Value::Null => {
            assert_eq!(report["iteration"], Value::Null);
            let without = report["without_iteration"].as_str().unwrap_or_default();
            assert!(without.contains("would distort"), "{without}");
        }
        inside_s => {
            let mean_s = number(inside_s) / number(&found["regions"]);
            assert!(mean_s >= 10.0 * 18e-6, "{found}");
        }
    }
    let text = agent.lines.text();
    assert!(text.contains("(measured in "), "{text}");
    Ok(())
}

/// The bodies of regions are found by the code that passes them to the library.
#[test]
fn times_of_a_stripped_program_are_those_of_the_closed_form() -> Outcome {
    require!(Root, Cc);
    let folder = tempfile::tempdir()?;
    let stripped = programs::stripped(&programs::openmp("uneven")?, folder.path())?;
    known_times(&stripped, false)
}
