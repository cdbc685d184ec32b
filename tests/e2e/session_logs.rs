//! Session logs as readers of a bug report see them. Other tests record and replay their logs with
//! `tuneagent_e2e::sessions`.

use std::fs;

use serde_json::Value;
use tuneagent_e2e::Outcome;
use tuneagent_e2e::agent::Agent;

const LOG: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../agent/session/tests/sessions/optimal-workers.jsonl"
);

#[test]
fn a_session_log_is_listed_and_written_for_other_programs() -> Outcome {
    let text = Agent::succeed(&["replay", LOG])?;
    assert_has!(
        text,
        "members  present slot 0",
        "changes  decided expect 58.7 ms, how each, id 1",
        "rule optimal-workers",
        "-> order 0 do decision 1",
        "leaving  stop has actuator, reason Ctrl-C",
        "with the same effects"
    );
    let text = Agent::succeed(&["replay", LOG, "--json", "-"])?;
    let report: Value = serde_json::from_str(&text)?;
    assert!(report["difference"].is_null(), "{text}");
    let recorded = fs::read_to_string(LOG)?;
    let steps = report["steps"].as_array().ok_or("no steps")?;
    assert_eq!(steps.len() + 2, recorded.lines().count());
    Ok(())
}

#[test]
fn the_first_effect_that_differs_is_shown_and_what_is_no_log_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("changed.jsonl").to_string_lossy().into_owned();
    let recorded = fs::read_to_string(LOG)?;
    fs::write(&file, recorded.replacen("\"confirm\"", "\"undo\"", 1))?;
    let (code, text) = Agent::run(&["replay", &file])?;
    assert_eq!(code, 1, "{text}");
    assert_has!(
        text,
        "changed.jsonl:",
        "the replay differs",
        "recorded: ",
        "replayed: ",
        "report it"
    );
    let torn: Vec<&str> = recorded.lines().take(3).collect();
    fs::write(&file, torn.join("\n"))?;
    for (words, expected) in [
        (&["replay", &file][..], "changed.jsonl:4: lines are missing"),
        (&["replay", LOG, LOG], "a session log is replayed alone"),
        (&["replay", LOG, "--csv", "table.csv"], "--csv is for recordings"),
    ] {
        let (code, text) = Agent::run(words)?;
        assert_eq!(code, 2, "{text}");
        assert!(text.contains(expected), "{text}");
    }
    Ok(())
}
