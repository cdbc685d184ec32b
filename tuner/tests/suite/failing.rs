//! Each system call that the actuator makes for an action fails once: the program goes on with right results,
//! the journal tells the truth, and the next writer leaves no trace.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use plan::Action;

use crate::actuator::session;
use crate::crashes::{act, actions, check};
use crate::programs::{long, skip};
use crate::underload::Load;

/// The status of the program that lets a call fail where it may not trace.
const NOT_PERMITTED: i32 = 77;

/// A system call of a process is to fail.
struct Failing {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Failing {
    /// Which, counted from now on over all its threads; none with 0. None where the kernel does not permit
    /// that.
    fn start(program: &Path, pid: u32, number: usize) -> Option<Failing> {
        let mut command = Command::new(program);
        command.args([pid.to_string(), number.to_string()]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut says = BufReader::new(process.stdout.take().unwrap());
        let mut ready = String::new();
        says.read_line(&mut ready).unwrap();
        if ready != "ready\n" {
            assert_eq!(process.wait().unwrap().code(), Some(NOT_PERMITTED));
            skip("the kernel does not permit that a system call is made to fail");
            return None;
        }
        Some(Failing { process, says })
    }

    /// Once the process has ended: how many calls it made, and the one that failed.
    fn end(mut self) -> (usize, Option<i64>) {
        let mut said = String::new();
        self.says.read_to_string(&mut said).unwrap();
        assert!(self.process.wait().unwrap().success());
        let (seen, failed) = said.trim().split_once(' ').unwrap();
        let failed = failed.parse().unwrap();
        (seen.parse().unwrap(), Some(failed).filter(|failed| *failed >= 0))
    }
}

/// Takes an action and takes it back while a system call fails. How many there were.
fn failed(load: &mut Load, failing: &Path, action: Option<&Action>, number: usize) -> Option<usize> {
    let (mut session, mut process) = session(load.state(), false, &[]);
    let follower = Failing::start(failing, process.id(), number)?;
    if let Ok(change) = act(&mut session, load, action) {
        let _ = session.revert(load.program.process().pid, change);
    }
    drop(session);
    let _ = process.wait().unwrap();
    let (seen, call) = follower.end();
    assert_eq!(call.is_some(), (1..=seen).contains(&number), "{number} of {seen}");
    Some(seen)
}

/// Only each so many-th call fails, of `set` and of the other actions, unless `TUNEAGENT_LONG` is set.
const STEPS: (usize, usize) = (29, 499);

#[test]
fn an_actuator_of_which_any_system_call_fails_leaves_a_program_that_is_right() {
    let mut load = or_skip!(Load::start());
    let failing = load.workshop.build("failing.c", "failing", &[]);
    let code = load.code();
    let actions = actions(&load);
    for (place, action) in std::iter::once(None).chain(actions.iter().map(Some)).enumerate() {
        let step = match action {
            _ if long() => 1,
            None => STEPS.0,
            Some(_) => STEPS.1,
        };
        // Another one of each action.
        let (mut number, mut seen) = (1 + place % step, usize::MAX);
        while number <= seen {
            seen = or_skip!(failed(&mut load, &failing, action, number));
            check(
                &mut load,
                &code,
                &format!("{action:?}, system call {number} of {seen}"),
            );
            number += step;
        }
    }
}
