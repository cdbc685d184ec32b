//! The guard on a running program: the cost of a wrong decision is bounded, and a right decision is kept
//! although the program changes.
//!
//! The program is `nbody`, which sleeps its compute time: an iteration takes about `work_us` / workers on any
//! machine.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, median, with_folder};

const RANKS: usize = 5;

/// Number of iterations, and work per iteration in microseconds. In short runs, where other programs run too,
/// iterations are long, so that the disturbance is a small part of them.
fn length() -> (usize, u32) {
    if is_long() { (400, 40_000) } else { (60, 240_000) }
}

/// Maximum ratio of the run times with and without tuning, including wrong decisions.
const LONGER_MAX: f64 = 1.05;
/// Attempts, because run times differ by more if the machine is busy.
const TRIES: usize = 3;

/// A rule that removes half of the workers, so that an iteration takes twice as long.
const BAD: &str = "rule: bad\nabout: a decision that is wrong\nroles: {master: rank == 0}\nprobes:\n  \
    begin: {role: master, entry: mw_begin_iteration}\n  end: {role: master, return: mw_end_iteration}\n\
    capture: {begin.number: mw_iteration, begin.workers: mw_nw, end.number: mw_iteration}\n\
    windows: {iteration: {from: begin, to: end, key: number}}\n\
    metrics: {workers: first(begin.workers)}\n\
    tune:\n  - set: mw_workers\n    role: master\n    value: 2\n    when: workers == 4\n    expect: 1ms\n    \
    guard: {minimize: iteration.duration, over: 4, undo_if_worse_by: 10%}\n";

/// Bindings of `optimal-workers` for programs on the library `mw`.
fn names() -> String {
    programs::source("mw.yaml").to_string_lossy().into_owned()
}

fn file(folder: &TempDir, name: &str, text: &str) -> Outcome<String> {
    let file = folder.path().join(name);
    fs::write(&file, text)?;
    Ok(file.to_string_lossy().into_owned())
}

/// Starts the program, which waits at its gate.
fn nbody(arguments: &[&str]) -> Outcome<Job> {
    let program = programs::master_worker("nbody", Mpi::Mpich)?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, RANKS, &program, |folder| {
        with_folder(folder, arguments.iter().map(|word| (*word).to_owned()).collect())
    })?;
    job.events("ready", RANKS, SOON)?;
    Ok(job)
}

fn workers(iteration: &Value) -> u64 {
    iteration["workers"].as_u64().unwrap_or(0)
}

/// Sum of the iterations' seconds. Iterations with the same number of workers count with their median,
/// because the machine makes some iterations longer, with and without rules.
fn total(iterations: &[Value]) -> f64 {
    let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for event in iterations {
        let of = seconds.entry(workers(event)).or_default();
        of.extend(event["seconds"].as_f64());
    }
    let together = |of: Vec<f64>| of.len() as f64 * median(of);
    seconds.into_values().map(together).sum()
}

/// Report and output of a session.
type Shown = (Value, String);

/// A complete run with these rules, or without the agent. Returns the iterations and the session's report and
/// output.
fn run(rules: &[&str], begin: &str) -> Outcome<(Vec<Value>, Option<Shown>)> {
    let (count, work_us) = length();
    let (count_is, work_is) = (format!("iterations={count}"), format!("work_us={work_us}"));
    let mut job = nbody(&[&count_is, &work_is, "latency_us=200", begin])?;
    let flags = [&["--rules", "none"], rules, &["--apply"]].concat();
    let agent = (!rules.is_empty()).then(|| Agent::attach(job.pid(), &flags));
    let mut agent = agent.transpose()?;
    if let Some(agent) = &agent {
        agent.armed()?;
    }
    job.open("go")?;
    let iterations = job.events("iteration", count, SOON)?;
    job.events("result", 1, SOON)?;
    let reported = agent.as_mut().map(|agent| -> Outcome<Shown> {
        let report = agent.finish_with(SOON, &[0, 1])?;
        Ok((report, agent.lines.text()))
    });
    job.finish(SOON)?;
    Ok((iterations, reported.transpose()?))
}

/// Whether a run took at most `LONGER_MAX` times as long as an untuned one. Only long runs compare times; in
/// short runs the tests count wrong iterations.
fn is_hardly_longer(tuned: &[Value], ratios: &mut Vec<f64>) -> Outcome<bool> {
    if !is_long() {
        return Ok(true);
    }
    let (plain, _) = run(&[], "workers=4")?;
    let ratio = total(tuned) / total(&plain);
    println!("the run took {ratio:.3} times its untuned time");
    ratios.push(ratio);
    Ok(ratio <= LONGER_MAX)
}

#[test]
fn a_bad_rule_is_reverted_within_ten_iterations_and_the_run_is_hardly_longer() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let folder = tempfile::tempdir()?;
    let bad = file(&folder, "bad.yaml", BAD)?;
    let mut ratios = Vec::new();
    for _ in 0..TRIES {
        let (tuned, reported) = run(&[&bad], "workers=4")?;
        let (report, text) = reported.ok_or("no session")?;
        // The wrong decision is made once; then the rule is on hold.
        let wrong: Vec<usize> = (0..tuned.len())
            .filter(|place| workers(&tuned[*place]) == 2)
            .collect();
        // Where another program made the iterations before the change vary, the guard compares in turns.
        let is_compared_in_turns = text.contains("reverted to compare");
        let (first, last) = wrong
            .first()
            .zip(wrong.last())
            .ok_or("no iteration was changed")?;
        assert!(last - first < 10 || is_compared_in_turns, "{wrong:?}\n{text}");
        let mut in_a_row = wrong.chunk_by(|one, next| next - one == 1);
        assert!(in_a_row.all(|run| run.len() <= 10), "{wrong:?}\n{text}");
        assert_eq!(report["changes"].as_array().map(Vec::len), Some(1), "{report}");
        let change = &report["changes"][0];
        assert_eq!(change["guard"]["verdict"], "reverted", "{text}");
        assert_eq!(
            (&change["outcome"], &change["expect"]),
            (&"reverted".into(), &"1 ms".into()),
            "{text}"
        );
        let state = report["rules"][0]["state"].as_str().unwrap_or_default();
        assert!(state.starts_with("on hold: iteration.duration: "), "{state}");
        println!("{} iterations of two workers", wrong.len());
        if is_hardly_longer(&tuned, &mut ratios)? {
            return Ok(());
        }
    }
    Err(format!("{ratios:?} times the untuned time").into())
}

#[test]
fn a_run_that_is_right_from_the_start_is_hardly_longer_under_a_model() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let names = names();
    let mut ratios = Vec::new();
    for _ in 0..TRIES {
        let (tuned, reported) = run(&["optimal-workers", &names], "workers=4")?;
        let text = reported.map(|(_, text)| text).unwrap_or_default();
        // With fewer workers an iteration takes at least a third longer.
        let wrong = tuned.iter().filter(|event| workers(event) != 4).count();
        assert!(
            wrong <= tuned.len() / 20,
            "{wrong} iterations with other workers\n{text}"
        );
        if is_hardly_longer(&tuned, &mut ratios)? {
            return Ok(());
        }
        println!("{text}");
    }
    Err(format!("{ratios:?} times the untuned time").into())
}

/// The work grows by a factor of eight while the guard judges. The model accounts for this; a plain
/// comparison would not.
#[test]
fn a_right_decision_taken_while_the_work_grows_is_not_reverted() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let names = names();
    for swing in ["swing=8", "swing=2"]
        .into_iter()
        .take(if is_long() { 2 } else { 1 })
    {
        let mut seen = Vec::new();
        // On a busy machine the decision may come too late, and iterations may take any time.
        let verdict = loop {
            let (iterations, guard) = growing(swing, &names)?;
            // The decision was made before the work grew and judged after it.
            let first = iterations.iter().position(|event| workers(event) > 1);
            let seconds = |place: usize| iterations[place]["seconds"].as_f64().unwrap_or(0.0);
            if first.is_some_and(|first| (1..5).contains(&first)) && seconds(6) > 1.5 * seconds(4) {
                break guard;
            }
            seen.push(iterations);
            if seen.len() == TRIES {
                return Err(format!("the work never grew while the decision was judged: {seen:?}").into());
            }
        };
        assert_eq!(verdict["verdict"], "kept", "{verdict}");
        println!("{swing}: {}", verdict["text"]);
    }
    Ok(())
}

/// Ten iterations whose work grows from the fifth on. Returns them and the guard's verdict on the decision at
/// the start.
fn growing(swing: &str, names: &str) -> Outcome<(Vec<Value>, Value)> {
    // The rule decides in one of the first iterations and judges over five.
    let mut job = nbody(&["phase=5", swing, "work_us=160000", "latency_us=200", "workers=1"])?;
    let mut agent = Agent::attach_armed(
        job.pid(),
        &["--rules", "none", "optimal-workers", names, "--apply"],
    )?;
    job.open("go")?;
    agent.lines.wait_for_line("guard ", SOON)?;
    let iterations = job.events("iteration", 10, SOON)?;
    job.open("stop")?;
    let report = agent.finish_with(SOON, &[0, 1])?;
    job.finish(SOON)?;
    Ok((iterations, report["changes"][0]["guard"].clone()))
}
