//! What a rule may ask of a program beyond one function of a known name, on running programs, live and on a recording.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::needs::machine;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder};

/// A rule in a file of its own.
fn rule(folder: &TempDir, name: &str, text: &str) -> Outcome<String> {
    let file = folder.path().join(format!("{name}.yaml"));
    fs::write(&file, format!("rule: {name}\nabout: for a test\n{text}"))?;
    Ok(file.to_string_lossy().into_owned())
}

/// Runs a program for so many rounds under a rule until a finding says all of `expected`, and then the rule on the recording.
fn finds(program: &Path, rounds: u32, rule: &str, expected: &[&str]) -> Outcome {
    let folder = tempfile::tempdir()?;
    let recording = folder.path().join("run.rec").to_string_lossy().into_owned();
    let mut job = Job::alone(program, |folder| with_folder(folder, vec![rounds.to_string()]))?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach(job.pid(), &["--rules", "none", rule, "--record", &recording])?;
    agent.armed()?;
    job.open("go")?;
    agent.lines.wait_for_line(expected[0], SOON)?;
    agent.stop()?;
    job.open("end")?;
    job.finish(SOON)?;
    let live = agent.lines.text();
    let (code, replayed) = Agent::run(&["replay", &recording, "--rules", "none", rule])?;
    assert_eq!(code, 0, "{replayed}");
    for expected in expected {
        assert!(live.contains(expected), "{expected} is not in:\n{live}");
        assert!(
            replayed.contains(expected),
            "{expected} is not in the replay:\n{replayed}"
        );
    }
    Ok(())
}

#[test]
fn methods_patterns_and_spans_between_functions_are_probed_as_root() -> Outcome {
    require!(Root, Cxx);
    let _machine = machine();
    let folder = tempfile::tempdir()?;
    let rule = rule(
        &folder,
        "places",
        r#"probes:
  begin: {entry: begin_all}
  end: {return: end_all}
  step: {span: "model::Solver::step"}
  solve: {span: "solve_*"}
  work: {span: [begin_work, end_work]}
capture:
  work.round: arg(0)
windows:
  whole: {from: begin, to: end}
tune:
  - every: whole
    when: count(step) > 0
    finding: '{count(step)} steps, {count(solve)} solved, {count(solve where solve.function == "solve_slow")} of them slow, {count(work)} works of rounds {sum(work.round)}'
"#,
    )?;
    let program = programs::cxx("asked")?;
    finds(
        &program,
        30,
        &rule,
        &["30 steps, 45 solved, 15 of them slow, 30 works of rounds 435"],
    )
}

#[test]
fn members_behind_pointers_arguments_by_name_and_texts_are_read_as_root() -> Outcome {
    require!(Root, Cxx);
    let _machine = machine();
    let folder = tempfile::tempdir()?;
    let rule = rule(
        &folder,
        "ways",
        r#"probes:
  begin: {entry: begin_all}
  end: {return: end_all}
  step: {span: "model::Solver::step"}
  solve: {span: solve_fast}
capture:
  step.limit: arg(this)->limit
  step.level: model::Solver::level
  solve.id: arg(task)->id
  solve.weight: arg(0)->weight
  solve.label: arg(task)->name as str(16)
  solve.third: queue->next->next->id
  solve.second: tasks[1].id
  solve.broken: broken->id
windows:
  whole: {from: begin, to: end}
tune:
  - every: whole
    when: count(step) > 0
    finding: 'limit {max(step.limit)}, level {max(step.level)}, ids {sum(solve.id)}, weights {sum(solve.weight)}, second {max(solve.second)}, third {max(solve.third)}, label {first(solve.label)}, {count(solve where solve.label == "task 2")} of the last, broken {sum(solve.broken)}'
"#,
    )?;
    let program = programs::cxx("asked")?;
    let read =
        "limit 7, level 3, ids 60, weights 45, second 2, third 3, label task 0, 10 of the last, broken none";
    finds(&program, 30, &rule, &[read, "could not be read"])
}

#[test]
fn regions_of_openmp_are_probed_with_the_threads_they_ask_for_as_root() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    let folder = tempfile::tempdir()?;
    let rule = rule(
        &folder,
        "regions",
        r#"probes:
  begin: {entry: begin_all}
  end: {return: end_all}
  region: {span: openmp.region}
windows:
  whole: {from: begin, to: end}
metrics:
  asked: max(region.threads)
tune:
  - every: whole
    when: count(region) > 0
    finding: '{count(region)} regions of {first(region.function)}; threads {asked}'
"#,
    )?;
    let program = programs::openmp("regions")?;
    let found = "40 regions of GOMP_parallel; threads none";
    finds(
        &program,
        40,
        &rule,
        &[found, "the size that the library gives by default"],
    )
}
