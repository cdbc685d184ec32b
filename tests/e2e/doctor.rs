//! `tuneagent doctor`: what works, what does not, and the command that would change it.

use std::process::{Command, Stdio};

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::knobs::{ANA, BEN, Knobs, User};
use tuneagent_e2e::wait::wait_for;
use tuneagent_e2e::{Outcome, family, require};

use crate::expected::SOON;

/// Name, status and command of each check.
fn checks(text: &str) -> Outcome<Vec<(String, String, Option<String>)>> {
    let report: Value = serde_json::from_str(text)?;
    assert_eq!(report["schema"], "tuneagent.doctor/1");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let check = |check: &Value| {
        Some((
            text(&check["name"])?,
            text(&check["status"])?,
            text(&check["command"]),
        ))
    };
    let list = report["checks"].as_array().ok_or("no checks")?;
    Ok(list.iter().filter_map(check).collect())
}

fn status<'a>(checks: &'a [(String, String, Option<String>)], name: &str) -> Option<&'a str> {
    let found = checks.iter().find(|(found, ..)| found == name);
    found.map(|(_, status, _)| status.as_str())
}

#[test]
fn the_page_shows_root_that_everything_works_and_the_program_did_not_notice() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let mut knobs = Knobs::start()?;
    let pid = knobs.pid().to_string();
    let (code, text) = Agent::run(&["doctor", &pid, "--json"])?;
    let checks = checks(&text)?;
    assert_eq!(code, 0, "{text}");
    for name in [
        "BPF programs",
        "ring buffer",
        "probes",
        "reading memory",
        "writing memory",
        "sync points",
        "journal",
        "target",
        "probing it",
        "writing into it",
        "its writer",
        "its changes",
    ] {
        assert_eq!(status(&checks, name), Some("works"), "{name}: {text}");
    }
    assert_eq!(knobs.knob()?, 10);
    let end = knobs.end()?;
    assert_eq!(
        end["state"],
        Knobs::state_after(end["rounds"].as_u64().unwrap_or(0))
    );
    Ok(())
}

#[test]
fn without_capabilities_each_failure_has_the_command_that_would_change_it() -> Outcome {
    require!(Root, Cc);
    let knobs = Knobs::start_as(ANA)?;
    let pid = knobs.pid().to_string();
    let ana = User::new(ANA, &[])?;
    let (code, text) = ana.run(&["doctor", &pid, "--json"])?;
    assert_eq!(code, 1, "{text}");
    let found = checks(&text)?;
    for (name, status, command) in &found {
        assert!(
            status != "fails" || command.is_some(),
            "{name} has no command: {text}"
        );
    }
    for name in ["reading memory", "writing memory", "target", "writing into it"] {
        assert_eq!(status(&found, name), Some("works"), "{name}: {text}");
    }
    for name in ["capabilities", "BPF programs", "probes", "probing it"] {
        assert_eq!(status(&found, name), Some("fails"), "{name}: {text}");
    }
    let (_, lines) = ana.run(&["doctor"])?;
    assert!(lines.contains("change it: sudo setcap cap_bpf,"), "{lines}");
    // A program of another user cannot be inspected.
    let foreign = Knobs::start_as(BEN)?;
    let (code, text) = ana.run(&["doctor", &foreign.pid().to_string()])?;
    assert!(code == 1 && text.contains("missing: CAP_SYS_PTRACE"), "{text}");
    Ok(())
}

#[test]
fn a_program_that_is_debugged_or_tuned_by_others_is_shown_with_their_process() -> Outcome {
    let _machine = require!(machine: Root, Cc, Strace);
    let knobs = Knobs::start()?;
    let pid = knobs.pid().to_string();
    let mut strace = Command::new("strace");
    let mut strace = strace
        .args(["-o", "/dev/null", "-p", &pid])
        .stderr(Stdio::null())
        .spawn()?;
    let reported = wait_for("a failed check", SOON, || {
        let (code, text) = Agent::run(&["doctor", &pid])?;
        Ok((code == 1).then_some(text))
    });
    let debugger = strace.id();
    family::end(&mut strace, SOON);
    assert!(
        reported?.contains(&format!("is traced by process {debugger}")),
        "the debugger is named"
    );
    Ok(())
}
