//! Threads that sleep in system calls are held, and make calls for us: which of their system calls may fail.

use std::collections::BTreeSet;
use std::time::Duration;

use plan::CallRequest;
use tuneagent_e2e::wait::{SOON, wait_until};
use tuner::{HeldThread, Stopped, Writer};

use crate::programs::{Program, Workshop};
use crate::underload::{call, patch, replace, result, take_back, try_call};

const USR2: i32 = 12;
const WINCH: i32 = 28;
const HOLD_WAIT: Duration = Duration::from_secs(20);
/// Calls that the kernel restarts after a handler with SA_RESTART (signal(7)).
const RESTARTED: [&str; 3] = ["futex", "read", "wait4"];

/// The program, which has one thread per kind of call.
struct Blocking {
    workshop: Workshop,
    program: Program,
    threads: Vec<(String, i32)>,
}

/// Results of the calls since the previous answer.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// Kinds that failed with EINTR.
    failed: BTreeSet<String>,
    /// Number of EINTR failures without a handler.
    without: u64,
    wrong: u64,
    /// Number of threads in which a handler has run.
    handled: usize,
}

impl Blocking {
    fn start(how: &str) -> Option<Blocking> {
        let workshop = Workshop::open()?;
        let path = workshop.build("blocking.c", "blocking", &["-pthread", "-g"]);
        let mut program = Program::start(&path, &[how.as_ref()])?;
        let line = program.line();
        let thread = |text: &str| {
            let (kind, tid) = text.split_once('=').unwrap();
            (kind.to_owned(), tid.parse().unwrap())
        };
        let threads = line.split(' ').map(thread).collect();
        let blocking = Blocking {
            workshop,
            program,
            threads,
        };
        blocking.all_sleep();
        Some(blocking)
    }

    /// Waits until every thread sleeps in its call.
    fn all_sleep(&self) {
        let pid = self.program.pid();
        for (kind, tid) in &self.threads {
            wait_until(&format!("the sleep of {kind}"), SOON, || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap();
                Ok(stat.rsplit_once(") ").unwrap().1.starts_with('S'))
            })
            .unwrap();
        }
    }

    fn say(&mut self, text: &str) -> Answer {
        let answer = self.program.say(text);
        let word = |name: &str| {
            let find = |word: &str| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
            answer
                .split(' ')
                .find_map(find)
                .unwrap_or_else(|| panic!("{text}: `{answer}`"))
        };
        Answer {
            failed: word("failed")
                .split(',')
                .filter(|kind| !kind.is_empty())
                .map(str::to_owned)
                .collect(),
            without: word("without").parse().unwrap(),
            wrong: word("wrong").parse().unwrap(),
            handled: word("handled").parse().unwrap(),
        }
    }

    fn writer(&self) -> Writer {
        self.program.writer(self.workshop.path()).unwrap()
    }

    /// Completes every call, and checks that none has failed.
    fn all_go_well(&mut self) {
        let answer = self.say("wake");
        let fine = Answer {
            failed: BTreeSet::new(),
            without: 0,
            wrong: 0,
            handled: answer.handled,
        };
        assert_eq!(answer, fine);
        self.all_sleep();
    }

    /// Holds every sleeping thread, except the one that answers.
    fn hold(&self) -> Vec<HeldThread> {
        let pid = self.program.process().pid;
        let stop = |(_, tid): &(String, i32)| HeldThread::stop(pid, *tid, HOLD_WAIT).unwrap();
        self.threads.iter().map(stop).collect()
    }

    /// Kinds that failed, after each thread has run a handler and sleeps again.
    fn failed_by_handlers(&mut self) -> BTreeSet<String> {
        let mut failed = BTreeSet::new();
        wait_until("a handler in every thread", SOON, || {
            let answer = self.say("?");
            assert_eq!((answer.without, answer.wrong), (0, 0));
            failed.extend(answer.failed);
            Ok(answer.handled == self.threads.len())
        })
        .unwrap();
        // A call that a handler has ended is counted before it is repeated.
        self.all_sleep();
        failed.extend(self.say("?").failed);
        failed
    }
}

#[test]
fn no_call_of_the_program_fails_because_its_thread_is_held() {
    let mut blocking = or_skip!(Blocking::start("once"));
    for _ in 0..20 {
        drop(Stopped::all(&blocking.program.process(), HOLD_WAIT).unwrap());
    }
    blocking.all_go_well();
    let mut writer = blocking.writer();
    for _ in 0..3 {
        let change = patch(&mut writer, &replace("f", "g")).change;
        take_back(&mut writer, change);
        blocking.all_go_well();
    }
}

#[test]
fn no_call_of_the_program_fails_because_its_thread_calls_a_function_for_us() {
    let mut blocking = or_skip!(Blocking::start("once"));
    let mut writer = blocking.writer();
    for (kind, tid) in blocking.threads.clone() {
        let request = CallRequest {
            thread: Some(tid),
            ..call("f(1)", None)
        };
        let called = try_call(&mut writer, request);
        assert_eq!(
            result(&called.unwrap_or_else(|error| panic!("{kind}: {error}"))),
            "4"
        );
    }
    blocking.all_go_well();
}

#[test]
fn a_signal_for_a_held_thread_ends_its_call_as_it_would_have_otherwise() {
    for how in ["restart", "once"] {
        let mut blocking = or_skip!(Blocking::start(how));
        let held = blocking.hold();
        blocking.say(&format!("signal {WINCH}"));
        drop(held);
        blocking.all_sleep();
        blocking.all_go_well();

        let held = blocking.hold();
        blocking.say(&format!("signal {USR2}"));
        drop(held);
        let kinds = blocking.threads.iter().map(|(kind, _)| kind.clone());
        let expected: BTreeSet<String> = kinds
            .filter(|kind| how == "once" || !RESTARTED.contains(&kind.as_str()))
            .collect();
        assert_eq!(blocking.failed_by_handlers(), expected, "{how}");
        blocking.all_go_well();
    }
}

#[test]
fn in_a_storm_of_signals_a_call_fails_only_where_a_handler_has_run() {
    let mut blocking = or_skip!(Blocking::start("restart"));
    let mut writer = blocking.writer();
    for signal in [WINCH, USR2] {
        blocking.say(&format!("storm {signal}"));
        for _ in 0..50 {
            drop(Stopped::all(&blocking.program.process(), HOLD_WAIT).unwrap());
        }
        let change = patch(&mut writer, &replace("f", "g")).change;
        take_back(&mut writer, change);
        let answer = blocking.say("calm");
        assert_eq!((answer.without, answer.wrong), (0, 0), "{signal}");
        assert!(signal == USR2 || answer.failed.is_empty(), "{answer:?}");
        blocking.all_sleep();
        blocking.say("?");
        blocking.all_go_well();
    }
}
