//! Pending changes whose sync point is not reached: a withdrawn order is never executed; a rank that ends
//! does not block the others; a failed revert is retried when the program continues.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::knobs::Knobs;
use tuneagent_e2e::wait::wait_for;
use tuneagent_e2e::{Outcome, require};

use crate::expected::{SOON, text_file};

/// Sets `knob` at the entry of `say`, which the program calls only on request.
const ON_REQUEST: &str = "rule: waits\nabout: for a test\nroles: {one: has(knob)}\nwindows: {pulse: {every: 100ms}}\n\
    metrics: {used: sum(cpu.time) / pulse.duration}\ntune:\n  - set: knob\n    role: one\n    at: {entry: say}\n    \
    value: 20\n    when: used >= 0\n    MORE\n    finding: knob is not 20\n";

/// Sets `knob` of two processes at the entry of `step`.
const OF_BOTH: &str = "rule: waits\nabout: for a test\nroles: {one: has(knob)}\nwindows: {pulse: {every: 100ms}}\n\
    tune:\n  - set: knob\n    role: one\n    at: {entry: step}\n    value: 20\n    when: count(one) == 2\n    \
    finding: two are there\n";

/// Sets `knob` at the entry of `step`, with a guard on the number of steps.
const JUDGED: &str = "rule: waits\nabout: for a test\nroles: {one: has(knob)}\nprobes: {step: {role: one, entry: step}}\n\
    capture: {step.before: knob}\nwindows: {pulse: {every: 100ms}}\n\
    tune:\n  - set: knob\n    role: one\n    at: {entry: step}\n    value: 20\n    when: max(step.before) == 10\n    \
    guard: {maximize: count(step), over: 10, undo_if_worse_by: 10%}\n";

/// Shorter than the time limit of a sync point, so that an outcome within it has another cause.
const AT_ONCE: Duration = Duration::from_secs(30);

/// Waits for the outcome of the first change.
fn first_outcome(agent: &Agent) -> Outcome<String> {
    wait_for("the outcome of the first change", AT_ONCE, || {
        let report = agent.snapshot()?;
        Ok(report["changes"][0]["outcome"].as_str().map(str::to_owned))
    })
}

fn signal(knobs: &Knobs, signal: Signal) -> Outcome {
    let pid = Pid::from_raw(knobs.pid() as i32).ok_or("no process")?;
    Ok(kill_process(pid, signal).map_err(std::io::Error::from)?)
}

#[test]
fn a_change_that_waits_is_not_made_any_more_once_its_rule_is_off_or_removed_or_it_is_stale() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    for (more, verb, arguments) in [
        ("for: 1", "switch", &["waits", "off"][..]),
        ("for: 1", "remove", &["waits"][..]),
        ("stale: 2", "", &[][..]),
    ] {
        let (_folder, rule) = text_file("waits.yaml", &ON_REQUEST.replace("MORE", more))?;
        let mut knobs = Knobs::start()?;
        let mut agent = Agent::attach(knobs.pid(), &["--rules", "none", &rule, "--apply"])?;
        agent.lines.wait_for_line("finding  waits", SOON)?;
        if !verb.is_empty() {
            let (code, text) = agent.request(verb, arguments)?;
            assert_eq!(code, 0, "{text}");
        }
        let outcome = first_outcome(&agent)?;
        assert!(
            outcome.starts_with("the program had not reached entry:say after ")
                && outcome.ends_with(", when the change was withdrawn: nothing was written"),
            "{outcome}"
        );
        if !verb.is_empty() {
            assert_eq!(knobs.knob()?, 10, "{verb}: {}", agent.lines.text());
        }
        agent.stop()?;
        knobs.end()?;
    }
    Ok(())
}

#[test]
fn a_process_that_ends_before_it_comes_to_the_place_keeps_no_other_from_its_change() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (_folder, rule) = text_file("waits.yaml", OF_BOTH)?;
    let (mut stays, ends) = (Knobs::start()?, Knobs::start()?);
    // A stopped process does not reach the place.
    signal(&ends, Signal::STOP)?;
    let (one, other) = (stays.pid().to_string(), ends.pid().to_string());
    let agent = Agent::command(&[
        "attach", &one, &other, "--plain", "--rules", "none", &rule, "--apply",
    ])?;
    agent.lines.wait_for_line("finding  waits", SOON)?;
    while stays.knob()? != 20 {
        assert!(!agent.lines.text().contains("not done"), "{}", agent.lines.text());
    }
    signal(&ends, Signal::KILL)?;
    agent
        .lines
        .wait_for_line("1 change written and read back", AT_ONCE)?;
    assert_eq!(stays.knob()?, 20);
    let text = tuneagent_e2e::crowd::leave(agent)?;
    assert!(text.contains("1 change reverted"), "{text}");
    assert_eq!(stays.knob()?, 10);
    stays.end()?;
    Ok(())
}

#[test]
fn changes_of_a_stopped_program_are_reverted_when_it_continues() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (_folder, rule) = text_file("waits.yaml", JUDGED)?;
    let mut knobs = Knobs::start()?;
    let mut agent = Agent::attach(knobs.pid(), &["--rules", "none", &rule, "--apply"])?;
    agent
        .lines
        .wait_for_line("1 change written and read back", SOON)?;
    // A stopped process takes no steps, so the guard reverts the change.
    signal(&knobs, Signal::STOP)?;
    agent.lines.wait_for_line("; it is tried again", AT_ONCE)?;
    signal(&knobs, Signal::CONT)?;
    agent.lines.wait_for_line(": reverted now", AT_ONCE)?;
    assert_eq!(knobs.knob()?, 10, "{}", agent.lines.text());
    agent.signal(Signal::INT)?;
    let report = agent.finish_with(SOON, &[0, 1])?;
    // A hit from before the change may lead to another decision, which finds the value there already.
    let changes = report["changes"].as_array().ok_or("no changes")?;
    let made = changes.iter().find(|change| change["old"] == "10");
    let made = made.ok_or("no change of 10")?;
    assert_eq!(made["outcome"], "reverted", "{report}");
    let verdict = &made["guard"]["verdict"];
    assert!(verdict == "reverted" || verdict == "not judged", "{report}");
    let end = knobs.end()?;
    let rounds = end["rounds"].as_u64().ok_or("no rounds")?;
    assert_eq!(end["state"], Knobs::state_after(rounds));
    Ok(())
}
