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
    let (code, text) = run(&["call", &pid, "step_inner(3, 4"])?;
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("`step_inner(3, 4` is not a call: it does not end with `)`"),
        "{text}"
    );
    let (code, text) = run(&["call", &pid, "step_inner()"])?;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("`step_inner`: it takes 1 arguments, 0 are given"),
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
