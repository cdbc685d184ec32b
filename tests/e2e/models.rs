//! Published models from the rule library, on running programs whose only preparation is the variable that
//! the model tunes.

use std::{fs, path::Path};

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::lines::Line;
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::sessions::Recorded;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, median, start_workers, text_file, with_folder};

/// Median seconds of these iterations, and the number of workers of the last one.
fn pace(iterations: &[Value]) -> Outcome<(f64, u64)> {
    let seconds: Vec<f64> = iterations
        .iter()
        .filter_map(|event| event["seconds"].as_f64())
        .collect();
    let workers = iterations
        .last()
        .and_then(|event| event["workers"].as_u64())
        .ok_or("no iterations")?;
    Ok((median(seconds), workers))
}

/// MATE thesis (2007), section 5.1: an iteration with n workers takes n·latency + (λV + Tc) / n. With 200 ms
/// of work and 4 ms per send the minimum is at sqrt(200 / 4) = 7 workers. The program begins with 2 and has
/// 12.
#[test]
fn the_model_of_the_number_of_workers_finds_the_optimum_of_a_running_program() -> Outcome {
    let _machine = require!(machine: Root, Mpich);
    let mut job = start_workers(13, ["200000", "4000", "2"])?;
    let before = job.events("iteration", 10, SOON)?;
    let recording = tempfile::NamedTempFile::new()?;
    let recording = recording.path().to_string_lossy().into_owned();
    let recorded = Recorded::new()?;
    let mut agent = Agent::attach(
        job.pid(),
        &[
            "--rules",
            "none",
            "optimal-workers",
            "--apply",
            "--record",
            &recording,
            &recorded.flag(),
        ],
    )?;
    agent.lines.wait_for_line("guard", SOON)?;
    let seen = job.events("iteration", 0, SOON)?.len();
    let all = job.events("iteration", seen + 20, SOON)?;
    let report = agent.stop()?;
    recorded.replay("optimal-workers")?;
    job.open("stop")?;
    // The program checks the result of every iteration.
    job.finish(SOON)?;

    let (slow, two) = pace(&before)?;
    let (fast, workers) = pace(&all[all.len() - 10..])?;
    let reported = agent.lines.text();
    assert_eq!(two, 2);
    assert!((6..=9).contains(&workers), "{workers} workers\n{reported}");
    assert!(
        fast < 0.75 * slow,
        "{slow:.4} s an iteration before, {fast:.4} s after\n{reported}"
    );
    assert_eq!(report["changes"][0]["guard"]["verdict"], "kept", "{reported}");
    decides_again(&recording, &report["changes"][0])?;
    is_shown_as_judged(&recording, &report["changes"][0])
}

/// A replay of the recording gives the same decision and draws a chart.
fn decides_again(recording: &str, change: &Value) -> Outcome {
    let picture = tempfile::NamedTempFile::new()?;
    let (code, text) = Agent::run(&[
        "replay",
        recording,
        "--rules",
        "none",
        "optimal-workers",
        "--apply",
        "--svg",
        &picture.path().to_string_lossy(),
    ])?;
    let decided = format!(
        "NOptWorkers = {} in 1 process",
        change["new"].as_str().unwrap_or_default()
    );
    assert!(
        code == 0 && text.contains(&decided),
        "{decided} is not in:\n{text}"
    );
    let picture = std::fs::read_to_string(picture.path())?;
    assert_has!(
        picture,
        ">iteration.duration<",
        ">latency<",
        &decided,
        "class=\"decision\"",
        "</svg>"
    );
    Ok(())
}

/// Without --apply, a replay shows the decisions of the recorded session and their verdicts.
fn is_shown_as_judged(recording: &str, change: &Value) -> Outcome {
    let file = tempfile::NamedTempFile::new()?;
    let name = file.path().to_string_lossy().into_owned();
    let words = ["--rules", "none", "optimal-workers", "--svg", &name];
    let (code, text) = Agent::run(&[&["replay", recording][..], &words].concat())?;
    let text_of_end = change["guard"]["text"].as_str().unwrap_or_default();
    let verdict = text_of_end
        .strip_suffix(" until the session ended")
        .unwrap_or_default();
    let judged = format!("session  optimal-workers   {verdict}");
    assert!(
        code == 0 && verdict.ends_with("; kept") && text.contains(&judged),
        "{text}"
    );
    let picture = std::fs::read_to_string(file.path())?;
    assert_has!(
        picture,
        ">iteration.duration<",
        "class=\"kept\"",
        "class=\"decision\""
    );
    Ok(())
}

/// Runs a master with two workers under a rule that writes the iteration number into each iteration, until 20
/// changes are made. Returns the iterations and the report. The times are those of MATE thesis (2007),
/// section 3.1.3: T_Iter, T_Upd, T_Eval and T_Tun.
fn written_to() -> Outcome<(Vec<Value>, Value)> {
    let program = programs::master_worker("nbody", Mpi::Mpich)?;
    let mut job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 3, &program, |folder| {
        let given = [
            "iterations=100000",
            "workers=2",
            "work_us=40000",
            "latency_us=500",
            // Neighbouring iterations differ in length, so that they cannot be confused.
            "phase=1",
            "swing=2",
        ];
        with_folder(folder, given.map(String::from).to_vec())
    })?;
    job.events("ready", 3, SOON)?;
    let rule = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/reaction.yaml");
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", rule, "--apply"])?;
    job.open("go")?;
    let written = |lines: &[Line]| {
        let changes = lines
            .iter()
            .filter(|line| line.text.contains("written and read back"));
        (changes.count() >= 20).then_some(())
    };
    agent.lines.wait_for("20 changes", 4 * SOON, written)?;
    job.open("stop")?;
    job.finish(SOON)?;
    let report = agent.finish(SOON)?;
    Ok((job.events("iteration", 20, SOON)?, report))
}

#[test]
fn every_change_shows_how_quickly_it_followed_its_iteration_and_how_long_that_was() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let (iterations, report) = written_to()?;

    let changes = report["changes"].as_array().ok_or("no changes")?;
    let mut errors = Vec::new();
    let mut seen = String::new();
    for change in changes.iter().filter(|change| change["reaction"].is_object()) {
        let ns = |part: &str| change["reaction"][part].as_u64().ok_or(format!("no {part}"));
        let parts = ["update_ns", "evaluate_ns", "order_ns", "write_ns"].map(ns);
        let sum: u64 = parts.into_iter().collect::<Result<Vec<_>, _>>()?.iter().sum();
        assert_eq!(sum, ns("lag_ns")?);
        // The written value is the iteration's number plus one.
        let new = change["new"].as_str().unwrap_or_default();
        let number: u64 = new.parse().map_err(|_| format!("'{new}' is no number"))?;
        let iteration = iterations
            .iter()
            .find(|iteration| iteration["number"] == number - 1)
            .ok_or(format!("no iteration {number}"))?;
        // Measured up to the end of the iteration, because the agent may take CPU time afterwards.
        let real = iteration["until_end"].as_f64().ok_or("no length")?;
        let window = ns("window_ns")? as f64 / 1e9;
        errors.push((window - real).abs() / real);
        seen += &format!(
            "iteration {number}: {window:.6} s seen, {real:.6} s real, {}\n",
            change["reaction"]
        );
    }
    assert!(errors.len() >= 20, "{changes:?}");
    let half = median(errors);
    // MATE had 1.1 %, and so does the experiment on an idle machine. The bound here detects a wrong
    // iteration.
    assert!(half < 0.05, "{:.3} % from the real one:\n{seen}", 100.0 * half);
    Ok(())
}

/// The model's optimum is seven, above the bound.
#[test]
fn the_model_of_the_number_of_workers_keeps_to_its_bound() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let mut job = start_workers(13, ["200000", "4000", "2"])?;
    let rules: Vec<&str> = "--rules none optimal-workers --param max_workers=4 --apply"
        .split(' ')
        .collect();
    let mut agent = Agent::attach(job.pid(), &rules)?;
    agent.lines.wait_for_line("guard", SOON)?;
    let report = agent.stop()?;
    job.open("stop")?;
    job.finish(SOON)?;
    let reported = agent.lines.text();
    assert_eq!(report["changes"][0]["new"], "4", "{reported}");
    let most = job
        .events("iteration", 0, SOON)?
        .iter()
        .filter_map(|event| event["workers"].as_u64())
        .max();
    assert_eq!(most, Some(4), "{reported}");
    Ok(())
}

/// MATE thesis (2007), tuning of a framework: the library's names are valid for all programs on it.
#[test]
fn one_rule_and_one_file_of_names_tune_every_program_on_a_library_and_not_its_result() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let names = programs::source("mw.yaml").to_string_lossy().into_owned();
    for name in ["nbody", "quadrature"] {
        let program = programs::master_worker(name, Mpi::Mpich)?;
        // n·latency + work / n is minimal at sqrt(40 / 2) = 4.5 workers.
        let given = [
            "iterations=100000",
            "work_us=40000",
            "latency_us=2000",
            "workers=1",
        ];
        let mut job = on_library(&program, &given)?;
        let rules = ["--rules", "none", "optimal-workers", &names, "--apply"];
        let mut agent = Agent::attach_armed(job.pid(), &rules)?;
        job.open("go")?;
        agent.lines.wait_for_line("kept", SOON)?;
        // In earlier iterations the area has not converged.
        job.events("iteration", 12, SOON)?;
        job.open("stop")?;
        job.finish(SOON)?;
        let report = agent.finish_with(SOON, &[0, 1])?;
        let reported = agent.lines.text();
        let (_, workers) = pace(&job.events("iteration", 1, SOON)?)?;
        assert!(
            (3..=6).contains(&workers),
            "{name}: {workers} workers\n{reported}"
        );
        let change = &report["changes"][0];
        assert_eq!(change["variable"], "mw_workers", "{name}: {report}\n{reported}");

        let result = job.events("result", 1, SOON)?.remove(0);
        let as_many = format!("iterations={}", result["iterations"]);
        let mut alone = on_library(&program, &[&*as_many, "work_us=0", "latency_us=0"])?;
        alone.open("go")?;
        alone.finish(SOON)?;
        assert_eq!(alone.events("result", 1, SOON)?, [result], "{name}\n{reported}");
    }
    Ok(())
}

/// Starts a program on the library `mw` with six workers, which waits at its gate.
fn on_library(program: &Path, given: &[&str]) -> Outcome<Job> {
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 7, program, |folder| {
        with_folder(folder, given.iter().map(|word| (*word).to_owned()).collect())
    })?;
    job.events("ready", 7, SOON)?;
    Ok(job)
}

/// A rule that changes the number of workers after each iteration.
const EACH: &str = "rule: each\nabout: another number of workers after each iteration\nroles: {master: rank == 0}\nprobes:\n  \
    begin: {role: master, entry: mw_begin_iteration}\n  end: {role: master, return: mw_end_iteration}\n\
    capture: {begin.number: mw_iteration}\nwindows: {iteration: {from: begin, to: end, key: number}}\n\
    tune:\n  - set: mw_workers\n    role: master\n    value: 1 + begin.number % 4\n    range: 1 <= value <= 4\n";

/// A sync point at which no iteration is in progress.
const AT: &str = "    at: {entry: mw_begin_iteration}\n";

/// Starts the program without a shadow variable under this rule.
fn unshadowed(rule: &str) -> Outcome<(Job, Agent, tempfile::TempDir)> {
    let (folder, file) = text_file("each.yaml", rule)?;
    let program = programs::master_worker_without_shadow("nbody", Mpi::Mpich)?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 5, &program, |folder| {
        let given = [
            "iterations=10000000",
            "work_us=2000",
            "latency_us=500",
            "workers=1",
        ];
        with_folder(folder, given.map(String::from).to_vec())
    })?;
    job.events("ready", 5, SOON)?;
    let flags = ["--rules", "none", &file, "--apply"];
    let agent = Agent::attach_in(Some(folder.path()), job.pid(), &flags)?;
    agent.armed()?;
    job.open("go")?;
    Ok((job, agent, folder))
}

/// Number of iterations with another number of workers than the one before, from the program's output.
fn changes_seen(lines: &[Line]) -> usize {
    let events = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
    let workers = events
        .filter(|event| event["event"] == "iteration")
        .map(|event| event["workers"].as_u64());
    let workers: Vec<Option<u64>> = workers.collect();
    workers.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// MATE thesis (2007), section 3.2.1: a program whose loops read the number of workers three times per
/// iteration.
#[test]
fn a_program_without_a_shadow_variable_loses_no_answer_where_the_number_changes_at_a_sync_point() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let wanted = if is_long() { 1000 } else { 30 };
    let (mut job, mut agent, folder) = unshadowed(&format!("{EACH}{AT}"))?;
    // Parsing all lines at every line would take CPU time from the program.
    let changed =
        |lines: &[Line]| (lines.len().is_multiple_of(64) && changes_seen(lines) >= wanted).then_some(());
    job.lines
        .wait_for(&format!("{wanted} changes"), 20 * SOON, changed)?;
    let report = agent.stop()?;
    let outcomes = report["changes"].as_array().ok_or("no changes")?.iter();
    let in_force: Vec<&Value> = outcomes
        .filter(|change| change["outcome"] == "in force")
        .collect();
    assert!(in_force.is_empty(), "{in_force:?}");
    // One pass of the sync point reverts all changes.
    let mut announced = 0;
    for entry in fs::read_dir(folder.path().join("journal"))? {
        announced += fs::read_to_string(entry?.path())?
            .matches(r#"{"record":"revert_intent""#)
            .count();
    }
    assert_eq!(announced, 1);
    job.open("stop")?;
    // The program exits with 5 if an answer was lost, and hangs if it waits for a lost answer.
    job.finish(SOON)
}

#[test]
fn without_the_sync_point_it_loses_answers() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let (mut job, mut agent, _folder) = unshadowed(EACH)?;
    let ended = job.finish(SOON);
    assert!(ended.is_err(), "{}", agent.lines.text());
    agent.finish_with(SOON, &[0, 1])?;
    Ok(())
}
