//! Several processes of which one cannot be watched: it is named with the reason, and the others are watched.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::lines::Lines;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, Problem, programs, require};

use crate::expected::{SOON, counts};

/// Steps that each program takes.
const STEPS: u64 = 7;

/// Shell commands that start a program that the kernel refuses to probe, and a normal one.
fn both(folder: &Path) -> Outcome<String> {
    let start = |kind: &'static str| -> Outcome<String> {
        let program = programs::c_defining("refused", kind)?;
        Ok(format!(
            "'{}' '{}' {STEPS} &",
            program.display(),
            folder.display()
        ))
    };
    Ok(format!("{} {}", start("-DREFUSED")?, start("-DPLAIN")?))
}

/// Waits for `number` lines with this event and returns them.
fn said(lines: &Lines, event: &str, number: usize) -> Outcome<Vec<Value>> {
    lines.wait_for(event, SOON, |lines| {
        let said = lines
            .iter()
            .filter_map(|line| serde_json::from_str(&line.text).ok());
        let said: Vec<Value> = said.filter(|said: &Value| said["event"] == event).collect();
        (said.len() >= number).then_some(said)
    })
}

pub(crate) fn process<'a>(report: &'a Value, pid: &Value) -> Option<&'a Value> {
    let mut processes = report["processes"].as_array()?.iter();
    processes.find(|process| process["pid"] == *pid)
}

/// Waits until the session knows all processes; `now` returns its report.
fn wait_until_known(all: &[Value], lines: &Lines, now: impl Fn() -> Outcome<Option<Value>>) -> Outcome {
    let are_known = || {
        let report = now()?;
        let has = |one: &Value| process(report.as_ref()?, &one["pid"]).map(drop);
        Ok(all.iter().all(|one| has(one).is_some()))
    };
    wait_until(&format!("{all:?} in a report"), SOON, are_known)
        .map_err(|problem| Problem::new(format!("{problem}\n{}", lines.text())))
}

/// The last complete report in a file of reports.
pub(crate) fn newest(file: &Path) -> Outcome<Option<Value>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let last = whole.lines().next_back();
    Ok(last.map(serde_json::from_str).transpose()?)
}

/// Checks that processes that can be probed are counted, and that the reason for the other one is reported.
fn check(report: &Value, all: &[Value], text: &str) -> Outcome {
    let missing = report["completeness"]["missing"].to_string();
    for one in all {
        let process = process(report, &one["pid"]).ok_or("a process is missing")?;
        let steps = counts(&process["functions"])?;
        let steps = steps.get("step").map_or(0, |(calls, _)| *calls);
        let named = format!("process {} is not watched: could not attach", one["pid"]);
        let is_refused = one["kind"] == "refused";
        assert_eq!(
            steps,
            if is_refused { 0 } else { STEPS },
            "{one}: {report}\n{text}"
        );
        assert_eq!(
            missing.matches(&named).count(),
            usize::from(is_refused),
            "{missing}"
        );
        assert_eq!(
            text.matches(&named).count() > 0,
            is_refused,
            "{one} is said:\n{text}"
        );
    }
    Ok(())
}

#[test]
fn of_the_processes_of_a_command_one_that_cannot_be_probed_is_named_and_the_others_are_counted() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("script");
    // `run` cannot know what a script starts if no word of the command names it.
    fs::write(&script, format!("{} wait\n", both(folder.path())?))?;
    let command = ["bash".to_owned(), script.to_string_lossy().into_owned()];
    let series = folder.path().join("series");
    let every = ["--every", "200ms", "--snapshots", &series.to_string_lossy()].map(str::to_owned);
    let flags = ["--rules", "none", "--probe", "step"].into_iter();
    let flags: Vec<&str> = flags.chain(every.iter().map(String::as_str)).collect();
    let mut agent = Agent::starting(&flags, &command)?;
    let all = said(&agent.lines, "ready", 2)?;
    wait_until_known(&all, &agent.lines, || newest(&series))?;
    fs::write(folder.path().join("go"), "")?;
    said(&agent.lines, "done", 2)?;
    fs::write(folder.path().join("end"), "")?;
    let report = agent.finish(SOON)?;
    check(&report, &all, &agent.lines.text())
}

#[test]
fn of_those_that_join_a_session_one_that_cannot_be_probed_is_named_and_the_others_are_counted() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let place = tempfile::tempdir()?;
    let plain = programs::c_defining("refused", "-DPLAIN")?;
    let text = format!(
        "'{}' '{}' {STEPS} & while [ ! -e \"$0/late\" ]; do read -t 0.05 x <> <(:); done 2>/dev/null; {} wait",
        plain.display(),
        place.path().display(),
        both(place.path())?
    );
    let mut job = Job::alone(Path::new("/bin/bash"), |folder| {
        vec!["-c".into(), text, folder.to_string_lossy().into_owned()]
    })?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", "--probe", "step"])?;
    job.open("late")?;
    let all = job.events("ready", 3, SOON)?;
    wait_until_known(&all, &agent.lines, || agent.snapshot().map(Some))?;
    fs::write(place.path().join("go"), "")?;
    job.events("done", 3, SOON)?;
    let report = agent.stop()?;
    fs::write(place.path().join("end"), "")?;
    job.finish(SOON)?;
    check(&report, &all, &agent.lines.text())
}
