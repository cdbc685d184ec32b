//! Aggregation in the kernel: rules compare the aggregates with the sums that the program computes itself.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::SOON;

/// The argument of `work` is the iteration number, which is the key of the window. Calls of `work_too` are
/// assigned by time, between the boundaries of the window in the same process.
fn rule(name: &str, function: &str, keyed: bool) -> String {
    let key = if keyed {
        "  work.number: arg(1) as i64\n"
    } else {
        ""
    };
    format!(
        "rule: {name}\nabout: for a test\nprobes:\n  begin: {{entry: begin_iteration}}\n  end: {{return: end_iteration}}\n  \
         work: {{span: {function}}}\ncapture:\n  begin.number: arg(0) as i64\n  work.value: arg(0) as i64\n{key}  \
         end.count: true_count\n  end.sum: true_sum\n  end.least: true_least\n  end.greatest: true_greatest\n  \
         end.spread: true_spread\nwindows:\n  iteration: {{from: begin, to: end, key: number}}\nmetrics:\n  \
         counted: count(work) == end.count\n  \
         ends: min(work.value) == end.least and max(work.value) == end.greatest\n  \
         summed: sum(work.value) == end.sum and abs(stddev(work.value) - end.spread) < 0.001\n  \
         timed: sum(work.duration) > 0s and sum(work.duration) < iteration.duration * {parallel}\n  \
         right: counted and ends and summed and timed\ntune:\n  \
         - finding: right so far\n    when: right\n    for: 20\n  \
         - finding: 'wrong: {{counted}} {{ends}} {{summed}} {{timed}}'\n    when: not right\n",
        parallel = 16
    )
}

fn start(program: &Path, arguments: &[&str]) -> Outcome<Job> {
    let arguments = arguments.iter().map(ToString::to_string);
    Job::alone(program, |folder| {
        std::iter::once(folder.to_string_lossy().into_owned())
            .chain(arguments)
            .collect()
    })
}

/// Report of a session on a program, after each rule has found its values right twenty times or wrong once.
fn watched(arguments: &[&str], rules: &[String]) -> Outcome<Value> {
    let program = programs::c_with_math("hot")?;
    let job = start(&program, arguments)?;
    job.events("ready", 1, SOON)?;
    let folder = tempfile::tempdir()?;
    let files = written(folder.path(), rules)?;
    let mut agent = Agent::attach_armed(job.pid(), &with(&files))?;
    for _ in rules {
        agent.lines.wait_for_line("finding", SOON)?;
    }
    agent.stop()
}

/// Writes rules into files and returns the paths.
fn written(folder: &Path, rules: &[String]) -> Outcome<Vec<String>> {
    let file = |(place, rule): (usize, &String)| -> Outcome<String> {
        let file = folder.join(format!("{place}.yaml"));
        std::fs::write(&file, rule)?;
        Ok(file.to_string_lossy().into_owned())
    };
    rules.iter().enumerate().map(file).collect()
}

/// Arguments for these rules only.
fn with(files: &[String]) -> Vec<&str> {
    let files = files.iter().map(String::as_str);
    ["--rules", "none"].into_iter().chain(files).collect()
}

fn findings(report: &Value) -> Vec<String> {
    let findings = each(&report["findings"]);
    let mut texts: Vec<String> = findings
        .map(|finding| format!("{} {}", finding["rule"], finding["text"]))
        .collect();
    texts.sort();
    texts
}

fn count(report: &Value, what: &str) -> u64 {
    report["completeness"][what].as_u64().unwrap_or(u64::MAX)
}

const RIGHT: [&str; 2] = ["\"by-key\" \"right so far\"", "\"by-time\" \"right so far\""];

#[test]
fn partial_sums_of_the_kernel_equal_the_programs_and_no_hit_is_sent() -> Outcome {
    let _machine = require!(shared: Root);
    let rules = [rule("by-key", "work", true), rule("by-time", "work_too", false)];
    let report = watched(&["500", "10000"], &rules)?;
    assert_eq!(findings(&report), RIGHT, "{report:#}");
    let (added, received) = (
        count(&report, "hits_aggregated"),
        count(&report, "events_received"),
    );
    assert!(added >= 20 * 2 * 500, "{added} aggregated");
    assert_eq!(count(&report, "hits_not_aggregated"), 0);
    // Per window and rule: two boundaries, and two sums that are sent to free a cell.
    assert!(received * 50 < added, "{received} events for {added} hits");
    assert_eq!(report["completeness"]["status"], "complete");
    Ok(())
}

#[test]
fn hits_of_a_rule_are_aggregated_also_where_their_function_is_named_and_has_a_histogram() -> Outcome {
    let _machine = require!(shared: Root);
    let program = programs::c_with_math("hot")?;
    let job = start(&program, &["500", "10000"])?;
    job.events("ready", 1, SOON)?;
    let folder = tempfile::tempdir()?;
    let files = written(folder.path(), &[rule("by-key", "work", true)])?;
    let named = ["--probe", "work", "work_too"];
    let mut agent = Agent::attach_armed(job.pid(), &[with(&files), named.to_vec()].concat())?;
    agent.lines.wait_for_line("finding", SOON)?;
    let report = agent.stop()?;
    assert_eq!(findings(&report), RIGHT[..1], "{report:#}");
    let (added, received) = (
        count(&report, "hits_aggregated"),
        count(&report, "events_received"),
    );
    assert!(
        added >= 20 * 500 && received * 50 < added,
        "{received} events for {added} hits"
    );
    let functions = report["processes"][0]["functions"].as_array().ok_or("none")?;
    for name in ["work", "work_too"] {
        let function = functions.iter().find(|function| function["name"] == name);
        let function = function.ok_or("it has no row")?;
        let durations = function["durations"]["calls"].as_u64();
        let (calls, durations) = function["calls"].as_u64().zip(durations).ok_or("not counted")?;
        // The counter is read after the histogram, so it may have some more calls.
        assert!(
            calls >= 20 * 500 && (calls - 500..=calls).contains(&durations),
            "{function}"
        );
    }
    Ok(())
}

/// The agent learns of a new process at its first hit. Hits that the kernel aggregated before must be
/// reported, too.
#[test]
fn sums_of_a_process_that_is_not_known_yet_are_reported_too() -> Outcome {
    let _machine = require!(shared: Root);
    let program = programs::c_with_math("hot")?;
    let folder = tempfile::tempdir()?;
    let rules = [rule("by-key", "work", true), rule("by-time", "work_too", false)];
    let files = written(folder.path(), &rules)?;
    let command = [
        program.to_string_lossy().into_owned(),
        folder.path().to_string_lossy().into_owned(),
        "500".to_owned(),
        "2000".to_owned(),
    ];
    let mut agent = Agent::starting(&with(&files), &command)?;
    for _ in rules {
        agent.lines.wait_for_line("finding", SOON)?;
    }
    std::fs::write(folder.path().join("end"), "")?;
    let report = agent.finish(SOON)?;
    assert_eq!(findings(&report), RIGHT, "{report:#}");
    // The output of the program is read by a thread of its own, which may be later than the report.
    let last = agent.lines.wait_for_line("\"end\"", SOON)?;
    let last: Value = serde_json::from_str(&last.text)?;
    let calls = last["calls"].as_u64().ok_or("the program printed no calls")?;
    let counts = ["hits_aggregated", "hits_not_aggregated"].map(|name| count(&report, name));
    assert_eq!(counts, [2 * calls, 0], "{report:#}");
    Ok(())
}

#[test]
fn values_that_are_too_large_are_sent_and_counted() -> Outcome {
    let _machine = require!(shared: Root);
    let large = "rule: large\nabout: for a test\nprobes:\n  begin: {entry: begin_iteration}\n  end: {return: end_iteration}\n  \
                 work: {span: work}\ncapture:\n  work.value: arg(0) as i64\n  end.least: true_least\n  \
                 end.greatest: true_greatest\nwindows:\n  iteration: {from: begin, to: end}\nmetrics:\n  \
                 right: min(work.value) == end.least and max(work.value) == end.greatest\ntune:\n  \
                 - finding: there\n    when: right\n    for: 20\n";
    let report = watched(&["0", "2000"], &[large.to_string()])?;
    assert_eq!(findings(&report), ["\"large\" \"there\""], "{report:#}");
    assert!(count(&report, "hits_not_aggregated") >= 20 * 100, "{report:#}");
    assert_eq!(count(&report, "hits_aggregated"), 0);
    assert_eq!(report["completeness"]["status"], "complete");
    Ok(())
}

#[test]
fn a_recorded_session_has_each_hit() -> Outcome {
    let _machine = require!(shared: Root);
    let program = programs::c_with_math("hot")?;
    let job = start(&program, &["50", "5000"])?;
    job.events("ready", 1, SOON)?;
    let folder = tempfile::tempdir()?;
    let (file, recording) = (folder.path().join("rule.yaml"), folder.path().join("hot.rec"));
    std::fs::write(&file, rule("by-key", "work", true))?;
    let words = [
        "--rules",
        "none",
        &file.to_string_lossy(),
        "--record",
        &recording.to_string_lossy(),
    ];
    let mut agent = Agent::attach_armed(job.pid(), &words)?;
    agent
        .lines
        .wait_for_line("right so far", Duration::from_secs(60))?;
    let report = agent.stop()?;
    assert_eq!(count(&report, "hits_aggregated"), 0);
    assert!(count(&report, "events_received") > 20 * 50);
    Ok(())
}
