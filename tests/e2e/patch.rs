//! Calls of functions and code changes by commands: the output, the program's own counts, and the revert.

use std::process::Command;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::line_program::LineProgram;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder};

#[test]
fn a_function_is_called_and_code_is_changed_and_put_back_by_hand() -> Outcome {
    require!(Root, Cc);
    let state = tempfile::tempdir()?;
    let mut job = Job::alone(&programs::c("busywork")?, |folder| {
        with_folder(folder, vec!["10".to_owned()])
    })?;
    job.events("ready", 1, SOON)?;
    let pid = job.pid().to_string();
    let run = |words: &[&str]| Agent::run_in(state.path(), words);
    calls(&run, &pid)?;
    patches(&run, &pid)?;

    job.open("go")?;
    let own_count = job.events("tally", 1, SOON)?.remove(0);
    // 4 from the call and none from the rounds, whose calls are removed. No argument is a multiple of 3 now.
    assert_eq!(
        (&own_count["step_inner"], &own_count["step_outer"]),
        (&4.into(), &10.into()),
        "{own_count}"
    );
    assert_eq!(
        (&own_count["may_jump"], &own_count["jumps"]),
        (&10.into(), &0.into()),
        "{own_count}"
    );
    reverts(&run, &pid)?;
    job.end(SOON)
}

/// Runs a command. Returns its exit code and its output.
type Run<'a> = &'a dyn Fn(&[&str]) -> Outcome<(i32, String)>;

fn calls(run: Run<'_>, pid: &str) -> Outcome {
    let (code, text) = run(&["call", pid, "step_inner(3)"])?;
    assert_eq!(code, 0, "{text}");
    assert_has!(
        text,
        "call step_inner(3) = 3 (one thread was stopped for ",
        "it cannot be reverted",
        "--inverse 'CALL'"
    );
    for (call, wanted) in [
        ("step_inner(\"a\")", "`step_inner`: argument 0 is i32, not a text"),
        (
            "step_inner(1, 2, 3)",
            "`step_inner`: it takes 1 argument, 3 are given",
        ),
    ] {
        let (code, text) = run(&["call", pid, call])?;
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(wanted), "{text}");
    }
    let (code, text) = run(&["call", pid, "step_inner(3, 4"])?;
    assert_eq!(code, 2, "{text}");
    assert_has!(text, "`step_inner(3, 4` is not a call: it does not end with `)`");
    let (code, text) = run(&["call", pid, "step_inner()"])?;
    assert_eq!(code, 1, "{text}");
    assert_has!(text, "`step_inner`: it takes 1 argument, 0 are given");
    Ok(())
}

fn patches(run: Run<'_>, pid: &str) -> Outcome {
    let (code, text) = run(&["patch", pid, "remove", "step_inner", "--in", "step_outer"])?;
    assert_eq!(code, 0, "{text}");
    assert_has!(
        text,
        "remove calls of step_inner in step_outer (all threads were stopped for "
    );
    let (code, text) = run(&["patch", pid, "argument", "may_jump(0)", "original * 0 + 1"])?;
    assert_eq!(code, 0, "{text}");
    let (code, text) = run(&["patch", pid, "replace", "may_jump", "step_inner"])?;
    assert_eq!(code, 1, "{text}");
    assert_has!(text, "change 3 is in force in the same code: revert that first");
    let (code, text) = run(&["patch", pid, "affinity", "0"])?;
    assert_eq!(code, 0, "{text}");

    let (code, text) = run(&["journal", pid])?;
    assert_eq!((code, text.matches("in force").count()), (0, 3), "{text}");
    assert!(text.contains("call step_inner(3)  returned 3"), "{text}");
    Ok(())
}

fn reverts(run: Run<'_>, pid: &str) -> Outcome {
    let (code, text) = run(&["undo", pid])?;
    assert_eq!((code, text.matches(" reverted: ").count()), (0, 3), "{text}");
    let (code, text) = run(&["undo", pid])?;
    assert_eq!((code, text.trim()), (0, "nothing to revert"));
    let (code, text) = run(&["call", pid, "step_outer(0)"])?;
    assert_eq!(code, 0, "{text}");
    let (_, text) = run(&["get", pid, "inner_calls"])?;
    assert!(
        text.contains("inner_calls = 8 (i64)"),
        "1 + 3 more by a whole function: {text}"
    );
    let (code, text) = run(&[
        "call",
        pid,
        "usleep(3000000)",
        "--wait",
        "100ms",
        "--returns",
        "nothing",
    ])?;
    assert_eq!(code, 0, "{text}");
    assert_has!(text, "call usleep(3000000) has not returned yet and continues");
    Ok(())
}

/// Starts a program with a seccomp filter.
fn start_filtered(mode: &str) -> Outcome<LineProgram> {
    let program = programs::c_with_math("../../tuner/tests/programs/filtered")?;
    LineProgram::ready(Command::new(program).arg(mode))
}

const CALLING: &str = "rule: calling\nabout: calls a function at once\nroles:\n  program: has(knob)\nwindows:\n  \
    pulse: {every: 100ms}\nmetrics:\n  used: sum(cpu.time) / pulse.duration\ntune:\n  - call: extra(5)\n    \
    role: program\n    when: used >= 0\n";

#[test]
fn where_a_seccomp_filter_kills_functions_are_called_by_hand_only_and_no_rule_does() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let state = tempfile::tempdir()?;
    let filtered = start_filtered("selective")?;
    let pid = filtered.pid().to_string();
    let run = |words: &[&str]| Agent::run_in(state.path(), words);
    let reason = "its seccomp filter kills the program at some system calls";

    let (code, text) = run(&["call", &pid, "extra(5)"])?;
    assert!(code == 1 && text.contains(reason), "{code}: {text}");
    assert!(text.contains("--despite-seccomp"), "{text}");

    let rule = state.path().join("calling.yaml");
    std::fs::write(&rule, CALLING)?;
    let rule = rule.to_string_lossy();
    let flags = format!("--rules none {rule} --apply=calling --keep --probe f");
    let flags: Vec<&str> = flags.split(' ').collect();
    let mut session = Agent::attach_in(Some(state.path()), filtered.pid(), &flags)?;
    session.lines.wait_for_line(reason, SOON)?;
    session.stop()?;

    let (code, text) = run(&["call", &pid, "extra(5)", "--despite-seccomp"])?;
    assert!(code == 0 && text.contains("call extra(5) = 5 "), "{code}: {text}");

    let filtered = start_filtered("kill")?;
    let pid = filtered.pid().to_string();
    for words in [
        &["call", &pid, "extra(5)", "--despite-seccomp"][..],
        &["patch", &pid, "argument", "tick(0)", "original + 1"],
    ] {
        let (code, text) = run(words)?;
        assert!(
            code == 1 && text.contains("the system call mmap"),
            "{code}: {text}"
        );
    }
    let (code, text) = run(&["get", &pid, "called"])?;
    assert!(
        code == 0 && text.contains("called = 0 "),
        "it lives: {code}: {text}"
    );
    Ok(())
}

#[test]
fn a_call_by_hand_with_an_inverse_is_in_force_until_it_is_reverted() -> Outcome {
    require!(Root, Cc);
    let state = tempfile::tempdir()?;
    let mut job = Job::alone(&programs::threads("levers")?, |folder| {
        with_folder(folder, Vec::new())
    })?;
    job.events("ready", 1, SOON)?;
    job.open("go")?;
    let pid = job.pid().to_string();
    let run = |words: &[&str]| Agent::run_in(state.path(), words);
    let sees = |flushed: u64| {
        job.lines
            .wait_for(&format!("a round with {flushed} flushed"), SOON, |lines| {
                let last = lines.iter().rev().find(|line| line.text.contains("\"view\""))?;
                last.text
                    .contains(&format!("\"flushed\":{flushed},"))
                    .then_some(())
            })
    };
    let call = ["call", &pid, "flush_level(7)", "--was", "level_flushed()"];
    let (code, text) = run(&[&call[..], &["--inverse", "flush_level(was)"]].concat())?;
    assert_eq!(code, 0, "{text}");
    assert_has!(
        text,
        "call flush_level(7) = 70, was 0 (one thread was stopped for "
    );
    assert!(
        !text.contains("cannot be reverted") && !text.contains("note:"),
        "{text}"
    );
    assert_has!(text, "change 1, reverted by flush_level(was)\nrevert: ");
    assert!(text.trim_end().ends_with(&format!(" undo {pid} 1")), "{text}");
    sees(7)?;
    let (_, text) = run(&["journal", &pid])?;
    let line = "call flush_level(7) (inverse: flush_level(was))  returned 70, in force";
    assert!(text.contains(line), "{text}");
    let (code, text) = run(&["undo", &pid])?;
    assert_eq!((code, text.matches(" reverted: ").count()), (0, 1), "{text}");
    sees(0)?;
    let (code, text) = run(&["undo", &pid])?;
    assert_eq!((code, text.trim()), (0, "nothing to revert"));
    let (code, text) = run(&["call", &pid, "flush_level(7)", "--inverse", "flush_level(was)"])?;
    assert_eq!(code, 1, "{text}");
    assert_has!(text, "`was` is what is read just before a call");
    job.open("end")?;
    let result = job.events("result", 1, SOON)?.remove(0);
    assert_eq!(result["wrong"], 0, "{result}");
    job.finish(SOON)
}
