//! How OpenMP programs scale: speedup and lost threads, without a rule and without a name, on programs with
//! known losses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::needs::{calm, is_long, machine};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::SOON;
use crate::iterations::{number, wait_for_report};
use crate::refused::process;

/// Times of the program in microseconds; the inflation in thousandths for each additional thread.
const SEQUENTIAL: f64 = 2_000.0;
const WORK: f64 = 80_000.0;
const IMBALANCE: f64 = 3_000.0;
const INFLATION: f64 = 30.0;

/// Lost threads may differ from the truth by this share of the threads: threads are woken up late, and later on a
/// busy machine.
fn near() -> f64 {
    if is_long() { 0.02 } else { 0.04 }
}

/// Iterations of a size that are waited for.
const ENOUGH: u64 = 40;

fn start(program: PathBuf, how: &str, environment: &str, sizes: &str) -> Outcome<Job> {
    let words = format!("{how} {SEQUENTIAL} {WORK} {IMBALANCE} {INFLATION} {sizes}");
    start_with(program, environment, &words)
}

pub(crate) fn start_with(program: PathBuf, environment: &str, words: &str) -> Outcome<Job> {
    let job = Job::alone(std::path::Path::new("/usr/bin/env"), |folder| {
        let folder = folder.to_string_lossy().into_owned();
        let program = program.to_string_lossy().into_owned();
        let words = words_of(words);
        words_of(environment)
            .chain([program, folder])
            .chain(words)
            .collect()
    })?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

fn words_of(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_whitespace().map(str::to_owned)
}

pub(crate) fn sizes(report: &Value) -> Vec<Value> {
    let sizes = &report["processes"][0]["openmp"]["scaling"]["sizes"];
    sizes.as_array().cloned().unwrap_or_default()
}

/// Watches the program until each of these team sizes was measured; returns the last report and the text.
fn watched(mut job: Job, threads: &[u64], baseline: &str) -> Outcome<(Value, String)> {
    let words = ["--rules", "none", "--baseline", baseline];
    let mut agent = Agent::attach_armed(job.pid(), &words)?;
    wait_for_report(&agent, |now| {
        let sizes = sizes(now);
        let has = |threads: &u64| {
            let size = sizes.iter().find(|size| size["threads"] == *threads);
            size.is_some_and(|size| size["iterations"].as_u64() > Some(ENOUGH))
        };
        threads.iter().all(has)
    })?;
    let report = agent.stop()?;
    let text = agent.lines.text();
    job.open("stop")?;
    job.end(SOON)?;
    Ok((report, text))
}

/// Compares a size with the closed form. `single` is whether the work of a single thread is known.
fn assert_losses(size: &Value, single: bool) {
    let p = number(&size["threads"]);
    let work = WORK * (1.0 + INFLATION / 1000.0 * (p - 1.0));
    let time = SEQUENTIAL + work / p + IMBALANCE;
    // The first thread works longer than the others.
    let single_work = IMBALANCE + if single { WORK } else { work };
    let lost = &size["lost"];
    for (name, value, expected) in [
        ("speedup", &size["speedup"], (SEQUENTIAL + single_work) / time),
        ("sequential", &lost["sequential"], (p - 1.0) * SEQUENTIAL / time),
        ("imbalance", &lost["imbalance"], (p - 1.0) * IMBALANCE / time),
        ("small teams", &lost["small_teams"], 0.0),
        ("start and end", &lost["starting_and_ending"], 0.0),
    ] {
        let value = number(value);
        assert!(
            (value - expected).abs() < near() * p,
            "{name} is {value} and should be {expected}: {size}"
        );
    }
    let parts = ["sequential", "imbalance", "small_teams", "starting_and_ending"];
    let inflation = lost["work_inflation"].as_f64();
    assert_eq!(inflation.is_some(), single, "{size}");
    let sum = number(&size["speedup"]) + parts.map(|part| number(&lost[part])).iter().sum::<f64>();
    assert!((sum + inflation.unwrap_or_default() - p).abs() < 1e-6, "{size}");
}

#[test]
fn lost_threads_of_a_size_that_the_library_chose_are_those_of_the_closed_form() -> Outcome {
    require!(Root, Cc);
    let _machine = calm();
    let job = start(programs::openmp("losses")?, "library", "OMP_NUM_THREADS=8", "")?;
    let (report, text) = watched(job, &[8], "4")?;
    let [size] = &sizes(&report)[..] else {
        panic!("{}", report["processes"][0]["openmp"])
    };
    assert_losses(size, false);
    assert!(text.contains("8 threads do the work of at most "), "{text}");
    assert!(text.contains("work inflation unknown: one team size"), "{text}");
    Ok(())
}

/// Two sizes, which calls of the program or clauses set; the work of a single thread is extrapolated.
fn two_sizes(program: PathBuf, how: &str, baseline: u64) -> Outcome {
    // With real-time priority, threads of LLVM's library that spin while they are idle would keep others waiting.
    let job = start(program, how, "KMP_BLOCKTIME=0", "4 8")?;
    let (report, text) = watched(job, &[4, 8], &baseline.to_string())?;
    let sizes = sizes(&report);
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    sizes.iter().for_each(|size| assert_losses(size, true));
    let (of_baseline, others): (Vec<_>, Vec<_>) = sizes.iter().partition(|size| size["threads"] == baseline);
    let ratio = &others[0]["ratio"];
    assert_eq!(ratio["baseline"], baseline, "{ratio}");
    let shorter = number(&of_baseline[0]["iteration_s"]) / number(&others[0]["iteration_s"]);
    assert!((number(&ratio["speedup"]) - shorter * number(&ratio["amdahl"])).abs() < 1e-6);
    assert!(text.contains("a step by threads: "), "{text}");
    Ok(())
}

#[test]
fn lost_threads_of_sizes_that_calls_set_are_those_of_the_closed_form() -> Outcome {
    require!(Root, Cc);
    let _machine = calm();
    two_sizes(programs::openmp("losses")?, "call", 4)
}

#[test]
fn lost_threads_of_sizes_that_clauses_state_are_those_of_the_closed_form_on_llvm() -> Outcome {
    require!(Root, Cc, LlvmOpenMp);
    let _machine = calm();
    two_sizes(programs::openmp_of_llvm("losses")?, "clause", 8)
}

#[test]
fn the_call_that_begins_an_iteration_is_the_same_in_each_run() -> Outcome {
    require!(Root, Cc);
    let _machine = calm();
    let begin = || -> Outcome<Value> {
        let job = start(programs::openmp("losses")?, "library", "OMP_NUM_THREADS=4", "")?;
        let (report, text) = watched(job, &[4], "4")?;
        assert!(text.contains("each step begins with GOMP_parallel in "), "{text}");
        Ok(report["iteration"]["begins_at"].clone())
    };
    let (first, second) = (begin()?, begin()?);
    assert_eq!(first, second);
    assert_eq!(first["function"], "GOMP_parallel", "{first}");
    assert!(
        first["build_id"].is_string() && first["address"] != "0x0",
        "{first}"
    );
    Ok(())
}

/// The library may take fewer threads than requested: by the load of the machine (`dyn-var`), or up to its limit. The
/// sizes are those that the program counts itself.
fn smaller_than_requested(program: &Path, environment: &str) -> Outcome {
    let mut job = start_with(program.to_owned(), environment, "1000 64000 0 1 1 15 0")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    wait_for_report(&agent, |now| {
        sizes(now)
            .first()
            .is_some_and(|size| size["iterations"].as_u64() > Some(ENOUGH))
    })?;
    let report = agent.stop()?;
    job.open("stop")?;
    let own: BTreeSet<u64> = job
        .events("team", 1, SOON)?
        .iter()
        .filter_map(|team| team["threads"].as_u64())
        .collect();
    job.end(SOON)?;
    let measured: BTreeSet<u64> = sizes(&report)
        .iter()
        .filter_map(|size| size["threads"].as_u64())
        .collect();
    assert!(measured.is_subset(&own), "{measured:?} {own:?}");
    assert!(own.iter().all(|threads| *threads < 64), "{environment}: {own:?}");
    Ok(())
}

const FEWER: [&str; 2] = [
    "OMP_DYNAMIC=true OMP_NUM_THREADS=64",
    "OMP_THREAD_LIMIT=3 OMP_NUM_THREADS=64",
];

#[test]
fn sizes_that_the_library_makes_smaller_are_those_of_the_program() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    let program = programs::openmp("shapes")?;
    FEWER
        .iter()
        .try_for_each(|environment| smaller_than_requested(&program, environment))
}

#[test]
fn sizes_that_the_library_makes_smaller_are_those_of_the_program_on_llvm() -> Outcome {
    require!(Root, Cc, LlvmOpenMp);
    let _machine = machine();
    let program = programs::openmp_of_llvm("shapes")?;
    FEWER
        .iter()
        .try_for_each(|environment| smaller_than_requested(&program, environment))
}

/// Threads that do the work of less than half of them are a finding, with what they are lost to.
#[test]
fn a_program_that_loses_most_of_its_threads_is_a_finding() -> Outcome {
    require!(Root, Cc);
    let _machine = calm();
    let job = start_with(
        programs::openmp("losses")?,
        "OMP_NUM_THREADS=8",
        "library 15000 40000 0 0",
    )?;
    let mut agent = Agent::attach_armed(job.pid(), &[])?;
    wait_for_report(&agent, |now| now["findings"].to_string().contains("lost-threads"))?;
    let report = agent.stop()?;
    let findings = report["findings"].to_string();
    // An iteration takes 20 ms: (15 + 40) / 20 = 2.75 threads, and 7 * 15 / 20 = 5.25 are lost.
    assert!(
        findings.contains("8 threads do the work of at most 2."),
        "{findings}"
    );
    assert!(findings.contains("5."), "{findings}");
    drop(job);
    Ok(())
}

/// CPUs move from a program that does not scale to one that does, so that the longer of two runs of equally many
/// iterations ends at least 20 % sooner than with equal shares. At the end both have their own sizes.
#[test]
fn cpus_are_divided_by_how_well_programs_scale() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    let start = |words| start_with(programs::openmp("losses")?, "OMP_NUM_THREADS=8", words);
    let jobs = [
        start("library 1000 240000 0 0")?,
        // With a second thread it is 1 % faster, the other one with a fifteenth 6 %.
        start("library 19500 500 0 0")?,
    ];
    let [scaling, flat] = jobs.each_ref().map(|job| job.pid().to_string());
    let rules = ["--rules", "none", "--rules", "cpu-shares", "--param", "cpus=16"];
    let flags = [&[flat.as_str()], &rules[..], &["--apply=cpu-shares"]].concat();
    let mut agent = Agent::attach_armed(jobs[0].pid(), &flags)?;
    // The time of an iteration of this program with so many threads, once it was measured.
    let took = |report: &Value, pid: &str, threads: u64| {
        let pid = serde_json::from_str(pid).ok()?;
        let sizes = &process(report, &pid)?["openmp"]["scaling"]["sizes"];
        let mut sizes = sizes.as_array()?.iter();
        sizes.find(|size| size["threads"] == threads)?["iteration_s"].as_f64()
    };
    let longer = |report: &Value, of: [u64; 2]| -> Option<f64> {
        Some(f64::max(
            took(report, &scaling, of[0])?,
            took(report, &flat, of[1])?,
        ))
    };
    wait_for_report(&agent, |now| {
        [[8, 8], [15, 1]].iter().all(|of| longer(now, *of).is_some())
    })?;
    let report = agent.stop()?;
    let [equal, divided] = [[8, 8], [15, 1]].map(|sizes| longer(&report, sizes).unwrap_or(f64::NAN));
    assert!(
        divided <= 0.8 * equal,
        "{divided} s, and {equal} s with equal shares"
    );
    let changes = report["changes"].as_array().cloned().unwrap_or_default();
    assert!(
        changes.len() >= 2 && changes.iter().all(|change| change["outcome"] == "reverted"),
        "{changes:#?}"
    );
    let text = agent.lines.text();
    assert!(
        text.contains("16 CPUs among 2 programs: 1 to 15 for each"),
        "{text}"
    );
    // A second session sees their own sizes.
    for job in jobs {
        let agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
        let now = wait_for_report(&agent, |now| !sizes(now).is_empty())?;
        assert_eq!(sizes(&now)[0]["threads"], 8, "{now:#}");
    }
    Ok(())
}

/// The step of a program is its own: a session that begins late predicts the same end.
#[test]
fn the_time_that_is_left_follows_from_the_programs_own_step() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    // 100 000 iterations of 10 ms take longer than this.
    let limit_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
        + 600;
    let job = start_with(
        programs::openmp("losses")?,
        &format!("OMP_NUM_THREADS=2 SLURM_JOB_END_TIME={limit_s}"),
        "library 5000 10000 0 0",
    )?;
    let mut agent = Agent::attach_armed(
        job.pid(),
        &["--rules", "none", "--progress", "iteration/iterations"],
    )?;
    wait_for_report(&agent, |now| now["progress"]["remaining_most_s"].is_number())?;
    let report = agent.stop()?;
    let progress = &report["progress"];
    let (done, pace) = (number(&progress["step"]), number(&progress["steps_per_s"]));
    assert_eq!(progress["steps"], 100_000.0, "{progress}");
    let left = number(&progress["remaining_s"]);
    assert!(
        (left * pace / (100_000.0 - done) - 1.0).abs() < 0.01,
        "{progress}"
    );
    // An iteration takes 10 ms.
    assert!((0.7..=1.02).contains(&(pace / 100.0)), "{progress}");
    let interval = number(&progress["remaining_least_s"])..=number(&progress["remaining_most_s"]);
    assert!(interval.contains(&left), "{progress}");
    let text = agent.lines.text();
    assert!(
        text.contains(" of 100 000 (") && text.contains(" left ("),
        "{text}"
    );
    let by_then = done + pace * number(&progress["limit_s"]);
    assert!(
        (number(&progress["step_at_limit"]) / by_then - 1.0).abs() < 1e-6,
        "{progress}"
    );
    assert!(number(&progress["limit_s"]) > 500.0, "{progress}");
    assert!(text.contains(" comes first: about step "), "{text}");
    drop(job);
    Ok(())
}

/// A rule's metric says how far a program is whose step no variable has: here an argument or a variable at a call.
#[test]
fn the_time_that_is_left_follows_from_the_metric_of_a_rule() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    let job = start_with(
        programs::openmp("losses")?,
        "OMP_NUM_THREADS=2",
        "library 5000 10000 0 0",
    )?;
    let folder = tempfile::tempdir()?;
    let rule = folder.path().join("own-step.yaml");
    std::fs::write(
        &rule,
        "rule: own-step\nabout: The step.\nprobes:\n  region: {entry: GOMP_parallel}\ncapture:\n  region.number: iteration\n\
         windows:\n  half: {every: 500ms}\nmetrics:\n  done: last(region.number)\n",
    )?;
    let rule = rule.display().to_string();
    let flags = [
        "--rules",
        "none",
        "--rules",
        &rule,
        "--progress",
        "own-step.done/100000",
    ];
    let mut agent = Agent::attach_armed(job.pid(), &flags)?;
    wait_for_report(&agent, |now| now["progress"]["remaining_most_s"].is_number())?;
    let progress = agent.stop()?["progress"].clone();
    let (done, pace) = (number(&progress["step"]), number(&progress["steps_per_s"]));
    let left = number(&progress["remaining_s"]);
    assert!(
        (left * pace / (100_000.0 - done) - 1.0).abs() < 0.01,
        "{progress}"
    );
    // An iteration takes 10 ms.
    assert!((0.7..=1.02).contains(&(pace / 100.0)), "{progress}");
    Ok(())
}
