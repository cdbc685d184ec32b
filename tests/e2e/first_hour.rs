//! What new users see: one line if nothing is wrong, losses of rules, help, pages, and a live view that fits
//! the screen.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::knobs::{ANA, Knobs, User};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, text_file, with_folder};

/// A condition that never holds, on a sleeping program.
const QUIET: &str = "rule: quiet\nabout: for a test\nroles: {one: has(knob)}\nwindows: {pulse: {every: 200ms}}\n\
    metrics: {busy: sum(cpu.time) / pulse.duration}\ntune:\n  - {finding: it is busy, when: busy > 50}\n";

/// A rule that skips its first three windows.
const SKIPPING: &str = "rule: turns\nabout: for a test\nroles: {one: exe != \"\"}\nprobes:\n  before: {entry: step_outer}\n\
    windows:\n  turn: {from: before, skip: 3}\nmetrics:\n  calls: count(before)\ntune:\n  - {finding: many, when: calls > 100}\n";

#[test]
fn a_program_without_findings_has_one_line_and_the_reasons_are_for_verbose() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (_folder, rule) = text_file("quiet.yaml", QUIET)?;
    let knobs = Knobs::start()?;
    let pid = knobs.pid().to_string();
    let words = format!("attach {pid} --plain --duration 1s --rules none {rule}");
    let words: Vec<&str> = words.split(' ').collect();
    let (code, text) = Agent::run(&words)?;
    assert!(
        code == 0
            && text.contains("no findings from 1 rule")
            && !text.contains("Nothing to be won")
            && !text.contains("-0 %"),
        "{code}: {text}"
    );
    let (code, text) = Agent::run(&[&words[..], &["--verbose"]].concat())?;
    assert!(
        code == 0 && text.contains("condition false: busy > 50"),
        "{code}: {text}"
    );
    Ok(())
}

#[test]
fn windows_that_a_rule_leaves_out_are_in_its_report_and_its_picture_fits_a_screen() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let named = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (rule, recording, picture) = (named("turns.yaml"), named("turns.rec"), named("turns.svg"));
    fs::write(&rule, SKIPPING)?;
    let mut job = Job::alone(&programs::c("busywork")?, |folder| {
        with_folder(folder, vec!["20".into()])
    })?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule, "--record", &recording])?;
    job.open("go")?;
    job.events("tally", 1, SOON)?;
    let report = agent.stop()?;
    job.end(SOON)?;
    // 20 entries make 19 complete windows.
    let of = &report["rules"][0];
    assert_eq!(
        (of["windows"].as_u64(), of["windows_left_out"]["skipped"].as_u64()),
        (Some(16), Some(3)),
        "{of}"
    );

    Agent::succeed(&["replay", &recording, "--rules", "none", &rule, "--svg", &picture])?;
    let picture = fs::read_to_string(picture)?;
    let height = picture
        .split("height=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let height: f64 = height
        .ok_or("no height")?
        .parse()
        .map_err(|error| format!("{error}"))?;
    assert!(height <= 1000.0, "{height}");
    Ok(())
}

#[test]
fn a_user_without_rights_reads_no_line_for_developers_and_no_colours() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let user = User::new(ANA, &[])?;
    let knobs = Knobs::start_as(ANA)?;
    let (code, text) = user.run(&["attach", &knobs.pid().to_string(), "--duration", "1s"])?;
    assert!(
        !text.contains('\u{1b}') && !text.contains("WARN") && !text.contains("error="),
        "{code}: {text}"
    );
    assert!(
        text.contains("CAP_BPF") && text.contains("sudo "),
        "{code}: {text}"
    );
    Ok(())
}

#[test]
fn the_address_of_metrics_leads_to_them() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let knobs = Knobs::start()?;
    let flags = format!("--rules none --probe step --metrics {address}");
    let flags: Vec<&str> = flags.split(' ').collect();
    let mut agent = Agent::attach_armed(knobs.pid(), &flags)?;
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("href=\"/metrics\""),
        "{page}"
    );
    agent.stop()?;
    Ok(())
}

#[test]
fn help_has_examples_a_rule_says_whether_it_is_safe_and_symbols_are_the_programs_own() -> Outcome {
    let (code, text) = Agent::run(&["attach", "--help"])?;
    let groups = ["What is watched:", "Changes:", "What it may cost:", "Examples:"];
    assert!(
        code == 0 && groups.iter().all(|group| text.contains(group)),
        "{text}"
    );
    assert!(text.matches("    sudo tuneagent attach ").count() >= 3, "{text}");
    let (code, text) = Agent::run(&["explain", "openmpi-busy-wait"])?;
    let answers = ["## Is it safe?", "- Results: the same", "tuneagent undo"];
    assert!(
        code == 0 && answers.iter().all(|answer| text.contains(answer)),
        "{text}"
    );
    require!(Cc);
    let program = programs::c("busywork")?;
    let (code, text) = Agent::run(&["symbols", &program.to_string_lossy()])?;
    let has = |text: &str, name: &str| text.contains(&format!("  {name} "));
    assert!(
        code == 0 && has(&text, "step_outer") && !has(&text, "_DYNAMIC"),
        "{text}"
    );
    assert!(text.contains("left out: "), "{text}");
    let (code, text) = Agent::run(&["symbols", &program.to_string_lossy(), "_DYN*"])?;
    assert!(code == 0 && has(&text, "_DYNAMIC"), "{text}");
    Ok(())
}
