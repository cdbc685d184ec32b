//! Rules that are added to and removed from a running session, without effects on probes, windows and changes
//! of other rules.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::knobs::Knobs;
use tuneagent_e2e::sessions::Recorded;
use tuneagent_e2e::wait::{wait_for, wait_until};
use tuneagent_e2e::{Outcome, each, require};

use crate::expected::SOON;
use crate::language::rule;

/// A rule with one window per hit, which compares their number with the program's own count.
const COUNTS: &str = "probes: {step: {entry: step}}\ncapture: {step.round: rounds}\nwindows: {turn: {from: step}}\n\
    metrics:\n  seen: first(step.round)\n  lost: max(seen over run) - min(seen over run) + 1 - count(seen over run)\n\
    tune:\n  - when: seen >= 0\n    finding: '{lost} lost of {count(seen over run)}'\n";

/// A rule that sets `knob` at the entry of `step` and captures a value that no other rule captures.
const SETS: &str = "probes: {step: {entry: step}}\ncapture: {step.before: knob}\nwindows: {pulse: {every: 100ms}}\n\
    tune:\n  - set: knob\n    at: {entry: step}\n    value: 20\n    when: last(step.before) == 10\n    expect: 20\n";

struct Rules(TempDir);

impl Rules {
    fn new() -> Outcome<Rules> {
        Ok(Rules(tempfile::tempdir()?))
    }

    fn file(&self, name: &str, text: &str) -> Outcome<String> {
        rule(&self.0, name, text)
    }
}

/// Number of BPF links that the session holds, from the kernel's fdinfo.
pub(crate) fn links(agent: &Agent) -> Outcome<usize> {
    let mut count = 0;
    for entry in fs::read_dir(format!("/proc/{}/fdinfo", agent.pid()))? {
        // A descriptor may be closed meanwhile.
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        count += usize::from(text.contains("link_type"));
    }
    Ok(count)
}

/// Waits until `fits` accepts the text of a rule's finding, and returns it.
fn finding(agent: &Agent, rule: &str, fits: impl Fn(&str) -> bool) -> Outcome<String> {
    wait_for(&format!("such a finding of {rule}"), SOON, || {
        let report = agent.snapshot()?;
        let findings = report["findings"].as_array().ok_or("no findings")?;
        let of = findings.iter().find(|finding| finding["rule"] == rule);
        let text = of.and_then(|finding| finding["text"].as_str());
        Ok(text.filter(|text| fits(text)).map(str::to_owned))
    })
}

fn hits(text: &str) -> u64 {
    // Thousands are separated by spaces.
    let number = text.split("of").nth(1).unwrap_or_default();
    number.replace(char::is_whitespace, "").parse().unwrap_or(0)
}

fn names(report: &Value) -> Vec<&str> {
    let rules = each(&report["rules"]);
    rules.filter_map(|rule| rule["name"].as_str()).collect()
}

/// A rule on another function than the others.
const SAYS: &str = "probes: {say: {span: say}}\nwindows: {w: {every: 200ms}}\ntune:\n  - when: count(say) > 0\n    \
    finding: said {count(say)}\n";

/// Adds a rule that changes the variable of another.
fn is_refused_beside(agent: &Agent, rival: &str) -> Outcome {
    let (code, text) = agent.request("add", &[rival])?;
    assert_eq!(code, 2, "{text}");
    assert_has!(
        text,
        "the rules sets and rival both claim the variable knob; leave one of them out"
    );
    Ok(())
}

/// Adds a rule on a function of its own, and removes it; `before` is the number of links without it.
fn comes_and_goes(agent: &Agent, knobs: &mut Knobs, says: &str, before: usize) -> Outcome {
    let (code, text) = agent.request("add", &[says])?;
    assert_eq!((code, text.trim()), (0, "says is added, advising now"));
    assert!(links(agent)? > before, "its function was not probed");
    wait_until("the finding of says", SOON, || {
        knobs.values()?;
        Ok(agent.lines.text().contains("finding  says"))
    })?;

    let (code, text) = agent.request("remove", &["says"])?;
    assert_eq!(
        (code, text.trim()),
        (0, "says is removed; it had changed nothing")
    );
    assert_eq!(links(agent)?, before, "its probes are gone");
    Ok(())
}

/// The recording has the times at which rules were added and removed, so a replay decides the same.
fn decides_again(recording: &str, [counts, sets, says]: [&str; 3]) -> Outcome {
    let text = Agent::succeed(&[
        "replay", recording, "--rules", "none", counts, sets, says, "--apply",
    ])?;
    assert_eq!(text.matches("knob = 20 in 1 process").count(), 1, "{text}");
    assert!(text.contains("said ") && text.contains("0 lost of"), "{text}");
    Ok(())
}

#[test]
fn a_rule_that_comes_and_goes_takes_its_probes_and_changes_along_and_disturbs_no_other() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let rules = Rules::new()?;
    let mut knobs = Knobs::start()?;
    let counts = rules.file("counts", COUNTS)?;
    let recording = rules.0.path().join("run.rec").to_string_lossy().into_owned();
    let recorded = Recorded::new()?;
    let log = recorded.flag();
    let flags = [
        "--rules", "none", &counts, "--apply", "--record", &recording, &log,
    ];
    let mut agent = Agent::attach_armed(knobs.pid(), &flags)?;
    let seen = hits(&finding(&agent, "counts", |text| hits(text) > 0)?);
    let before = links(&agent)?;

    // A rule on the same function, with an additional capture and a sync point.
    let sets = rules.file("sets", SETS)?;
    let (code, text) = agent.request("add", &[&sets, "--mode", "applying"])?;
    assert_eq!((code, text.trim()), (0, "sets is added, applying now"));
    agent
        .lines
        .wait_for_line("1 change written and read back", SOON)?;
    assert_eq!(knobs.knob()?, 20);
    assert_eq!(links(&agent)?, before, "the function is probed already");
    let report = agent.snapshot()?;
    assert_eq!(names(&report), ["counts", "sets"]);
    assert_eq!(report["changes"][0]["expect"], "20");
    assert!(
        report["changes"][0]["mechanism"]
            .as_str()
            .is_some_and(|how| how.contains("at entry:step")),
        "{report}"
    );

    is_refused_beside(&agent, &rules.file("rival", SETS)?)?;
    let says = rules.file("says", SAYS)?;
    comes_and_goes(&agent, &mut knobs, &says, before)?;
    let (code, text) = agent.request("remove", &["sets"])?;
    assert_eq!((code, text.trim()), (0, "sets is removed; 1 change reverted"));
    wait_until("the value of before", SOON, || Ok(knobs.knob()? == 10))?;
    assert_eq!(agent.request("remove", &["sets"])?.0, 2);

    // The first rule has seen every hit before, during and after.
    let text = finding(&agent, "counts", |text| hits(text) > seen + 1000)?;
    assert!(text.starts_with("0 lost of"), "{text}");
    let report = agent.stop()?;
    assert_eq!(names(&report), ["counts"]);
    assert_eq!(report["changes"][0]["outcome"], "reverted", "the history stays");
    let end = knobs.end()?;
    let rounds = end["rounds"].as_u64().ok_or("no rounds")?;
    assert_eq!(
        end["state"],
        Knobs::state_after(rounds),
        "the program computed the same"
    );
    decides_again(&recording, [&counts, &sets, &says])?;
    // The session log has them, too, with the requests.
    let listed = recorded.replay("sets")?;
    assert_has!(
        listed,
        "request add",
        "request remove, rule sets",
        "decided",
        "removed"
    );
    Ok(())
}

#[test]
fn two_rules_that_claim_the_same_are_refused_when_they_are_loaded() -> Outcome {
    require!(Cc);
    let rules = Rules::new()?;
    let (one, other) = (rules.file("one", SETS)?, rules.file("other", SETS)?);
    let knobs = Knobs::start()?;
    let pid = knobs.pid().to_string();
    let (code, text) = Agent::run(&["attach", &pid, "--plain", "--rules", "none", &one, &other])?;
    assert_eq!(code, 2, "{text}");
    let expected = "the rules one and other both claim the variable knob; leave one of them out";
    assert!(text.contains(expected), "{text}");
    Ok(())
}
