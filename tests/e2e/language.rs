//! Features of the rule language beyond one function with a known name, on running programs and on
//! recordings.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi};
use tuneagent_e2e::needs::shared;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, start_busywork, with_folder, written};
use crate::iterations::{calls_of, wait_for_report};

/// Writes a rule into a file of its own and returns the path.
pub(crate) fn rule(folder: &TempDir, name: &str, text: &str) -> Outcome<String> {
    let text = format!("rule: {name}\nabout: for a test\n{text}");
    written(folder.path(), &format!("{name}.yaml"), &text)
}

/// Runs a program for this number of rounds under a rule until a finding has all `expected` texts, and
/// replays the recording. Both ways of attaching probes must give the same findings.
pub(crate) fn finds(program: &Path, rounds: u32, rule: &str, expected: &[&str]) -> Outcome {
    for attached in [&[][..], &["--tracefs"]] {
        finds_when(attached, program, rounds, rule, expected)?;
    }
    Ok(())
}

fn finds_when(attached: &[&str], program: &Path, rounds: u32, rule: &str, expected: &[&str]) -> Outcome {
    let folder = tempfile::tempdir()?;
    let recording = folder.path().join("run.rec").to_string_lossy().into_owned();
    let mut job = Job::alone(program, |folder| with_folder(folder, vec![rounds.to_string()]))?;
    job.events("ready", 1, SOON)?;
    let flags = [&["--rules", "none", rule, "--record", &recording], attached].concat();
    let mut agent = Agent::attach_armed(job.pid(), &flags)?;
    job.open("go")?;
    agent.lines.wait_for_line(expected[0], SOON)?;
    agent.stop()?;
    job.end(SOON)?;
    let live = agent.lines.text();
    let replayed = Agent::succeed(&["replay", &recording, "--rules", "none", rule])?;
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
fn methods_patterns_and_spans_between_functions_are_probed() -> Outcome {
    let _machine = require!(shared: Root, Cxx);
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
    let program = programs::cxx("requested_threads")?;
    finds(
        &program,
        30,
        &rule,
        &["30 steps, 45 solved, 15 of them slow, 30 works of rounds 435"],
    )
}

#[test]
fn members_behind_pointers_arguments_by_name_and_texts_are_read() -> Outcome {
    let _machine = require!(shared: Root, Cxx);
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
    let program = programs::cxx("requested_threads")?;
    let read =
        "limit 7, level 3, ids 60, weights 45, second 2, third 3, label task 0, 10 of the last, broken none";
    finds(&program, 30, &rule, &[read, "could not be read"])
}

#[test]
fn regions_of_openmp_are_probed_with_the_threads_they_ask_for() -> Outcome {
    require!(Root, Cc);
    regions(&programs::openmp("regions")?)
}

#[test]
fn regions_on_the_library_of_llvm_are_probed_too() -> Outcome {
    require!(Root, Cc, LlvmOpenMp);
    regions(&programs::openmp_of_llvm("regions")?)
}

fn regions(program: &Path) -> Outcome {
    let _machine = shared();
    let folder = tempfile::tempdir()?;
    let rule = rule(
        &folder,
        "regions",
        r#"probes:
  begin: {entry: begin_all}
  end: {return: end_all}
  region: {span: openmp.region}
  size: {entry: openmp.size}
windows:
  whole: {from: begin, to: end}
metrics:
  asked: max(region.threads)
  stated: max(size.stated)
tune:
  - every: whole
    when: count(region) > 0
    finding: '{count(region)} regions of {first(region.function)}; stated {stated}; threads {asked}'
"#,
    )?;
    let found = "40 regions of GOMP_parallel; stated 2; threads none";
    finds(
        program,
        40,
        &rule,
        &[found, "the size that the library gives by default"],
    )
}

#[test]
fn a_probe_of_one_role_is_kept_out_of_the_processes_of_the_other_and_calls_are_reported_by_name() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let folder = tempfile::tempdir()?;
    let rule = rule(
        &folder,
        "roles",
        r#"roles:
  zero: rank == 0
  other: rank > 0
probes:
  calls: {role: zero, entry: "mpi.*"}
  lacking: {role: other, entry: lnoop}
windows:
  pulse: {every: 2s}
metrics:
  none_there: count(lacking)
  by_name: sum(mpi.calls where call == "MPI_Barrier")
  all_calls: sum(mpi.calls)
  barriers: count(calls where calls.function == "MPI_Barrier")
  sent: sum(calls.bytes where calls.function == "MPI_Send")
tune:
  - when: all_calls > 0
    finding: 'barriers by name {round(by_name)} by hit {barriers}; sent {sent}'
"#,
    )?;
    let job = crate::expected::start_count(Mpi::OpenMpi, 3, &["--iterations", "3"])?;
    let recording = folder.path().join("run.rec").to_string_lossy().into_owned();
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule, "--record", &recording])?;
    job.open("go")?;
    let own_counts = job.events("tally", 3, SOON)?;
    agent.lines.wait_for_line("barriers by name", SOON)?;
    agent.stop()?;
    job.open("end")?;
    let live = agent.lines.text();
    let barriers = |own_count: &serde_json::Value| -> Outcome<u64> {
        let counts = crate::expected::counts(&own_count["functions"])?;
        Ok(counts.get("MPI_Barrier").map_or(0, |(calls, _)| *calls))
    };
    let by_rank = |own_count: &&serde_json::Value| own_count["rank"] == 0;
    let own = barriers(own_counts.iter().find(by_rank).ok_or("no rank 0")?)?;
    let all: u64 = own_counts.iter().map(barriers).sum::<Outcome<u64>>()?;
    assert!(own > 0);
    let found = format!("barriers by name {all} by hit {own}; sent ");
    assert!(live.contains(&found), "{found} is not in:\n{live}");
    assert!(!live.contains("sent none"), "{live}");
    // The function is missing in both processes of the role, but is reported once.
    let reported = live
        .lines()
        .filter(|line| line.contains("`lnoop`"))
        .map(str::trim);
    let reported: std::collections::BTreeSet<&str> = reported.collect();
    assert_eq!(reported.len(), 1, "{live}");
    let (code, replayed) = Agent::run(&["replay", &recording, "--rules", "none", &rule])?;
    assert!(code == 0 && replayed.contains(&found), "{replayed}");
    Ok(())
}

/// Runs `busywork` under a rule that enables its probe `inner`, until `is_on` accepts the report and then
/// until the line `at_last`.
fn switched(
    attached: &[&str],
    tunes: &str,
    is_on: impl Fn(&Value) -> bool,
    at_last: Option<&str>,
) -> Outcome<Value> {
    let folder = tempfile::tempdir()?;
    let text = format!(
        "probes:\n  outer: {{entry: step_outer}}\n  inner: {{span: step_inner}}\nwindows:\n  pulse: {{every: 200ms}}\ntune:\n{tunes}"
    );
    let rule = rule(&folder, "switched", &text)?;
    let job = start_busywork("20000000")?;
    let flags = [&["--rules", "none", &rule, "--apply", "-v"], attached].concat();
    let mut agent = Agent::attach_armed(job.pid(), &flags)?;
    job.open("go")?;
    agent.lines.wait_for_line(ENABLED, SOON)?;
    wait_for_report(&agent, is_on)?;
    if let Some(said) = at_last {
        agent.lines.wait_for_line(said, SOON)?;
    }
    let report = agent.stop()?;
    job.open("end")?;
    Ok(report)
}

const ENABLED: &str = "probe inner is switched on: done in 1 process";

#[test]
fn a_probe_is_switched_on_while_its_condition_holds() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let tunes = "  - enable: inner\n    when: count(outer) > 0\n  - when: count(inner) > 0\n    \
                 finding: 'inner runs {count(inner)} times'\n";
    // The finding has a number once the metric has a value.
    let is_found = |now: &Value| {
        let text = now["findings"][0]["text"].as_str().unwrap_or_default();
        let number = text.strip_prefix("inner runs ").unwrap_or_default();
        number.starts_with(|first: char| first.is_ascii_digit())
    };
    let report = switched(&[], tunes, is_found, None)?;
    // The probe was disabled at first, so the function ran uncounted.
    let calls = |name| calls_of(&report, name);
    let (outer, inner) = (calls("step_outer"), calls("step_inner"));
    let within = |round: u64| (round % 5 + 1) + 3;
    // The current round may have some of its calls.
    let all: u64 = (0..outer).map(within).sum();
    assert!(inner > 0 && inner + 9 < all, "{inner} of {all} calls: {report}");
    // With tracefs all probes are attached at the start, and the rule must observe the same.
    switched(&["--tracefs"], tunes, is_found, None)?;
    Ok(())
}

#[test]
fn a_probe_that_was_switched_on_for_a_while_is_switched_off_again() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let tunes = "  - enable: inner\n    while: pulse.index < 8\n  - when: count(inner) > 0\n    \
                 finding: 'inner runs {count(inner)} times'\n";
    for attached in [&[][..], &["--tracefs"]] {
        let off = "its condition no longer holds; its probes are switched back";
        switched(attached, tunes, |now| calls_of(now, "step_inner") > 0, Some(off))?;
    }
    Ok(())
}

#[test]
fn a_captured_variable_that_the_program_has_not_is_reported() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let rule = rule(
        &folder,
        "lacking",
        "probes: {p: {entry: step_outer}}\ncapture: {p.calls: outer_cals as i64}\nwindows: {w: {every: 200ms}}\n\
         tune:\n  - when: count(p) > 0\n    finding: 'calls {max(p.calls)}'\n",
    )?;
    // Few enough calls that none is lost at any rate: a window with losses has no value.
    let job = start_busywork("2000")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule])?;
    job.open("go")?;
    let reported = "missing: outer_cals is not captured at step_outer: process";
    agent.lines.wait_for_line(reported, SOON)?;
    // A value that was not read is missing, with its reason, and never 0.
    let found = agent.lines.wait_for_line("finding  lacking", SOON)?;
    assert_has!(found.text, "calls none (calls was not captured: ");
    let report = agent.stop()?;
    assert_eq!(report["completeness"]["status"], "partial", "{report}");
    job.open("end")?;
    Ok(())
}

#[test]
fn a_pattern_that_means_too_much_and_a_way_that_leads_nowhere_are_refused() -> Outcome {
    let _machine = require!(shared: Root, Cxx);
    let folder = tempfile::tempdir()?;
    let program = programs::cxx("requested_threads")?;
    let job = Job::alone(&program, |folder| with_folder(folder, vec!["1".into()]))?;
    job.events("ready", 1, SOON)?;
    for (name, probe, capture, expected) in [
        ("wide", "\"*\"", "", "functions, and at most 256 are probed"),
        (
            "way",
            "solve_fast",
            "capture: {p.x: arg(task)->wieght}\n",
            "has no field `wieght`; it has id, weight",
        ),
    ] {
        let text = format!(
            "probes: {{p: {{entry: {probe}}}}}\n{capture}windows: {{w: {{every: 1s}}}}\nmetrics: {{m: {}}}\n",
            if capture.is_empty() {
                "count(p)"
            } else {
                "sum(p.x)"
            }
        );
        let rule = rule(&folder, name, &text)?;
        let mut agent = Agent::attach(job.pid(), &["--rules", "none", &rule])?;
        assert_eq!(agent.wait(SOON)?, 2, "{}", agent.lines.text());
        assert!(agent.lines.text().contains(expected), "{}", agent.lines.text());
    }
    Ok(())
}

#[test]
fn two_rules_on_one_function_have_each_what_they_need() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let entries = rule(
        &folder,
        "entries",
        "probes: {p: {entry: step_outer}}\ncapture: {p.round: arg(0)}\nwindows: {w: {every: 500ms}}\n\
         tune:\n  - when: count(p) > 0\n    finding: last round {max(p.round)}\n",
    )?;
    let spans = rule(
        &folder,
        "spans",
        "probes: {p: {span: \"step_out*\"}}\ncapture: {p.calls: outer_calls}\nwindows: {w: {every: 500ms}}\n\
         tune:\n  - when: count(p) > 0\n    finding: the last call found {max(p.calls)} before it in {last(p.function)}\n",
    )?;
    let mut job = start_busywork("50")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &entries, &spans])?;
    job.open("go")?;
    agent.lines.wait_for_line("last round 49", SOON)?;
    agent
        .lines
        .wait_for_line("the last call found 49 before it in step_outer", SOON)?;
    let report = agent.stop()?;
    job.end(SOON)?;
    // Both requests share one probe, so no call is counted twice.
    let counts = crate::expected::counts(&report["processes"][0]["functions"])?;
    assert_eq!(
        counts.get("step_outer").map(|(calls, _)| *calls),
        Some(50),
        "{report}"
    );
    Ok(())
}
