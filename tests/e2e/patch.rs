//! Functions called and code changed by hand: what is printed, what the program counts itself, what is taken back.

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
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

    let (code, text) = run(&["call", &pid, "step_inner(3)"])?;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("call step_inner(3) = 3 (one thread was held for "),
        "{text}"
    );
    let warned = text.find("step_inner(3) stays: what it sets cannot be undone");
    assert!(
        warned < text.find("call step_inner(3)") && warned.is_some(),
        "before it is made: {text}"
    );
    for (call, wanted) in [
        ("step_inner(\"a\")", "`step_inner`: argument 0 is i32, not a text"),
        (
            "step_inner(1, 2, 3)",
            "`step_inner`: it takes 1 argument, 3 are given",
        ),
    ] {
        let (code, text) = run(&["call", &pid, call])?;
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(wanted), "{text}");
    }
    let (code, text) = run(&["call", &pid, "step_inner(3, 4"])?;
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("`step_inner(3, 4` is not a call: it does not end with `)`"),
        "{text}"
    );
    let (code, text) = run(&["call", &pid, "step_inner()"])?;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("`step_inner`: it takes 1 argument, 0 are given"),
        "{text}"
    );

    let (code, text) = run(&["patch", &pid, "remove", "step_inner", "--in", "step_outer"])?;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("remove calls of step_inner in step_outer (all threads were held for "),
        "{text}"
    );
    let (code, text) = run(&["patch", &pid, "argument", "may_jump(0)", "original * 0 + 1"])?;
    assert_eq!(code, 0, "{text}");
    let (code, text) = run(&["patch", &pid, "replace", "may_jump", "step_inner"])?;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("change 3 is in force in the same code: take that back first"),
        "{text}"
    );
    let (code, text) = run(&["patch", &pid, "affinity", "0"])?;
    assert_eq!(code, 0, "{text}");

    let (code, text) = run(&["journal", &pid])?;
    assert_eq!(
        (code, text.matches("in force, confirmed").count()),
        (0, 3),
        "{text}"
    );
    assert!(text.contains("call step_inner(3)  returned 3"), "{text}");

    job.open("go")?;
    let tally = job.events("tally", 1, SOON)?.remove(0);
    // 4 by the call; none in the rounds, whose calls are removed. No argument is a multiple of 3 any more.
    assert_eq!(
        (&tally["step_inner"], &tally["step_outer"]),
        (&4.into(), &10.into()),
        "{tally}"
    );
    assert_eq!(
        (&tally["may_jump"], &tally["jumps"]),
        (&10.into(), &0.into()),
        "{tally}"
    );

    let (code, text) = run(&["undo", &pid])?;
    assert_eq!((code, text.matches("is as it was").count()), (0, 3), "{text}");
    let (code, text) = run(&["undo", &pid])?;
    assert_eq!((code, text.trim()), (0, "nothing to put back"));
    let (code, text) = run(&["call", &pid, "step_outer(0)"])?;
    assert_eq!(code, 0, "{text}");
    let (_, text) = run(&["get", &pid, "inner_calls"])?;
    assert!(
        text.contains("inner_calls = 8 (i64)"),
        "1 + 3 more by a whole function: {text}"
    );
    job.open("end")?;
    job.finish(SOON)
}

#[test]
fn a_call_by_hand_with_an_inverse_is_in_force_until_it_is_undone() -> Outcome {
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
    assert!(
        text.contains("call flush_level(7) = 70, was 0 (one thread was held for "),
        "{text}"
    );
    assert!(!text.contains("stays"), "{text}");
    let back = format!("change 1; back by flush_level(was): tuneagent undo {pid} 1");
    assert!(text.contains(&back), "{text}");
    sees(7)?;
    let (_, text) = run(&["journal", &pid])?;
    let line = "call flush_level(7) (back: flush_level(was))  returned 70, in force, confirmed";
    assert!(text.contains(line), "{text}");
    let (code, text) = run(&["undo", &pid])?;
    assert_eq!((code, text.matches("is as it was").count()), (0, 1), "{text}");
    sees(0)?;
    let (code, text) = run(&["undo", &pid])?;
    assert_eq!((code, text.trim()), (0, "nothing to put back"));
    let (code, text) = run(&["call", &pid, "flush_level(7)", "--inverse", "flush_level(was)"])?;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("`was` is what is read just before a call"),
        "{text}"
    );
    job.open("end")?;
    let result = job.events("result", 1, SOON)?.remove(0);
    assert_eq!(result["wrong"], 0, "{result}");
    job.finish(SOON)
}
