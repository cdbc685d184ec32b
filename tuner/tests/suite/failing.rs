//! Each system call of the actuator for an action fails once. The program must continue with correct results,
//! the journal must agree with the memory, and the next writer must revert everything.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use plan::Action;
use tuneagent_e2e::needs::{is_long, skip};

use crate::actuator::session;
use crate::crashes::{act, actions, check};
use crate::underload::Load;

/// Exit code of the program that injects the failure, if it may not trace.
const NOT_PERMITTED: i32 = 77;

/// A process that makes a system call of another process fail.
struct Failing {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Failing {
    /// Makes call `number` of all threads fail, counted from now on; 0 for none. Returns `None` if the kernel
    /// does not permit this.
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

    /// Waits for the end of the process. Returns the number of its calls, and the call that failed.
    fn end(mut self) -> (usize, Option<i64>) {
        let mut said = String::new();
        self.says.read_to_string(&mut said).unwrap();
        assert!(self.process.wait().unwrap().success());
        let (seen, failed) = said.trim().split_once(' ').unwrap();
        let failed = failed.parse().unwrap();
        (seen.parse().unwrap(), Some(failed).filter(|failed| *failed >= 0))
    }
}

/// Carries out and reverts an action while system call `number` fails. Returns the number of system calls.
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

/// Unless `TUNEAGENT_LONG` is set, only each n-th call fails: for `set`, and for the other actions.
const STEPS: (usize, usize) = (29, 499);

#[test]
fn an_actuator_of_which_any_system_call_fails_leaves_a_program_that_is_right() {
    let mut load = or_skip!(Load::start());
    let failing = load.workshop.build("failing.c", "failing", &[]);
    let actions = actions(&load);
    for (place, action) in std::iter::once(None).chain(actions.iter().map(Some)).enumerate() {
        let step = match action {
            _ if is_long() => 1,
            None => STEPS.0,
            Some(_) => STEPS.1,
        };
        // The first call differs between the actions.
        let (mut number, mut seen) = (1 + place % step, usize::MAX);
        while number <= seen {
            seen = or_skip!(failed(&mut load, &failing, action, number));
            check(&mut load, &format!("{action:?}, system call {number} of {seen}"));
            number += step;
        }
    }
}
