//! Sessions of the actuator process: its actions, and its end.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plan::{Value, ValueType};
use rustix::process::{Pid as RawPid, Signal, kill_process};
use tuneagent_e2e::needs::skip;
use tuner::actuator::{
    ActuatorClient, ActuatorRefusalKind, ClientError, GetCommand, Hello, Refusal, SetCommand, SetWarmUp,
};
use tuner::journal::{History, RevertOutcome, StateDir, Status};
use tuner::{Author, Pid};

use crate::programs::{Program, Workshop, fails, variables, writes_back};

pub(crate) struct Setting {
    pub(crate) workshop: Workshop,
    pub(crate) program: Program,
}

impl Setting {
    /// `variables` as a running process. Skips if another process than its parent may not inspect it.
    pub(crate) fn new() -> Option<Setting> {
        let (workshop, program) = variables()?;
        let setting = Setting { workshop, program };
        let (mut session, _process) = setting.session(false, &[]);
        match session.get(setting.read("knob")) {
            Err(ClientError::Refused(refusal)) if refusal.kind == ActuatorRefusalKind::NotPermitted => {
                skip(&refusal.message);
                None
            }
            result => result.map(|_| setting).map_err(|error| panic!("{error}")).ok(),
        }
    }

    /// A program that has opened a library with a variable, and closes it on command.
    pub(crate) fn with_library() -> Option<Setting> {
        let mut setting = Setting::new()?;
        let library = setting.workshop.library("liba.so", 1, "view", &[]);
        let opener = setting.workshop.build("opener.c", "opener", &["-ldl"]);
        setting.program = Program::start(&opener, &[&library])?;
        Some(setting)
    }

    /// A program that forks. Without PIE, so its variables have the same addresses after exec.
    pub(crate) fn forking() -> Option<Setting> {
        Setting::of("forker", &["-g", "-no-pie"])
    }

    /// A program that forks worker processes.
    pub(crate) fn with_workers() -> Option<Setting> {
        Setting::of("workers", &["-g"])
    }

    fn of(name: &str, flags: &[&str]) -> Option<Setting> {
        let mut setting = Setting::new()?;
        let path = setting.workshop.build(&format!("{name}.c"), name, flags);
        setting.program = Program::start(&path, &[])?;
        Some(setting)
    }

    pub(crate) fn state(&self) -> &Path {
        self.workshop.path()
    }

    pub(crate) fn pid(&self) -> Pid {
        self.program.process().pid
    }

    pub(crate) fn session(&self, keep: bool, arguments: &[&str]) -> (ActuatorClient, Child) {
        session(self.state(), keep, arguments)
    }

    pub(crate) fn read(&self, variable: &str) -> GetCommand {
        GetCommand {
            pid: self.pid(),
            variable: variable.to_owned(),
            module: None,
            value_type: None,
        }
    }

    /// Value of `knob`, as a session reads it.
    fn reads(&self, session: &mut ActuatorClient) -> Option<Value> {
        session.get(self.read("knob")).unwrap().value()
    }

    pub(crate) fn write(&self, variable: &str, value: &str) -> SetCommand {
        self.write_in(self.pid(), variable, value)
    }

    pub(crate) fn write_in(&self, pid: Pid, variable: &str, value: &str) -> SetCommand {
        SetCommand {
            pid,
            variable: variable.to_owned(),
            module: None,
            value: value.parse().unwrap(),
            value_type: None,
            expect_old: None,
            why: vec!["a test".to_owned()],
            rule: None,
        }
    }

    /// The journal of the program.
    pub(crate) fn history(&self) -> History {
        StateDir::at(self.state()).history(self.pid()).unwrap()
    }

    pub(crate) fn status(&self, change: u64) -> Status {
        self.history().change(change).unwrap().status
    }

    /// Checks the value of `knob` in the program, and the status of the first change.
    #[track_caller]
    pub(crate) fn ends_with(&mut self, knob: &str, status: Status) {
        assert_eq!(
            (self.program.sees("knob").as_str(), self.status(1)),
            (knob, status)
        );
    }
}

/// The refusal of a request, which must be refused.
#[track_caller]
pub(crate) fn refusal<T: Debug>(result: Result<T, ClientError>) -> Refusal {
    match result {
        Err(ClientError::Refused(refusal)) => refusal,
        result => panic!("{result:?}"),
    }
}

/// Starts a separate actuator with these arguments.
pub(crate) fn session(state: &Path, keep: bool, arguments: &[&str]) -> (ActuatorClient, Child) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_actuator-testee"));
    let process = command
        .args(arguments)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    drop(command);
    let hello = Hello {
        keep,
        despite_seccomp: false,
        state_dir: state.to_owned(),
        who: Author::current(),
    };
    (ActuatorClient::begin(ours, hello).unwrap(), process)
}

#[test]
fn a_session_reads_writes_lists_and_takes_back() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, mut process) = setting.session(false, &[]);
    assert_eq!(session.actuator, process.id());
    assert_eq!(
        session.get(setting.read("rate")).unwrap().value(),
        Some(Value::F64(1.5))
    );
    let receipt = session.set(setting.write("rate", "2.5")).unwrap();
    assert_eq!(receipt.change, Some(1));
    assert_eq!(setting.program.sees("rate"), "2.5");
    session.set(setting.write("knob", "11")).unwrap();
    assert_eq!(
        session.revert(setting.pid(), 1).unwrap().outcome,
        RevertOutcome::Reverted
    );
    assert_eq!(setting.program.sees("rate"), "1.5");
    let (changes, omitted) = session.changes(setting.pid()).unwrap();
    assert_eq!((changes.len(), omitted), (2, 0));
    let summary = session.revert_all(&[setting.pid()]).unwrap();
    assert_eq!(summary.reverted.len(), 1);
    assert_eq!(setting.program.sees("knob"), "10");
    assert!(session.shutdown().unwrap().reverted.is_empty());
    assert!(process.wait().unwrap().success());
}

#[test]
fn sets_that_followed_each_other_are_taken_back_by_one_write_at_the_end_of_the_session() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    for value in ["11", "12", "13"] {
        session.set(setting.write("knob", value)).unwrap();
    }
    let summary = session.shutdown().unwrap();
    let changes: Vec<u64> = summary
        .reverted
        .iter()
        .map(|(_, reverted)| reverted.change)
        .collect();
    assert_eq!(changes, [3, 2, 1]);
    assert_eq!(setting.program.sees("knob"), "10");
    assert_eq!(writes_back(setting.state(), setting.pid()), 1);
}

#[test]
fn nothing_else_is_requested_while_a_set_that_was_sent_has_no_receipt() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    let sent = session.send_set(setting.write("knob", "11")).unwrap();
    refused!(session.get(setting.read("knob")), ClientError::OutOfStep);
    let receipt = session.receipt(sent).unwrap();
    assert_eq!(receipt.change, Some(1));
    assert_eq!(setting.program.sees("knob"), "11");
    let sent = session.send_set(setting.write("own", "1")).unwrap();
    refused!(session.receipt(sent), ClientError::Refused(_));
    session.set(setting.write("knob", "12")).unwrap();
    assert_eq!(setting.program.sees("knob"), "12");
}

/// Number of read and write system calls of a process since its start, without those on sockets.
fn reads_and_writes(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let count = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    (count("syscr:"), count("syscw:"))
}

#[test]
fn a_write_to_a_place_that_was_written_before_reads_four_times_and_writes_two_lines() {
    let setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    session.set(setting.write("wide", "11")).unwrap();
    let (reads, writes) = reads_and_writes(session.actuator);
    for value in 12..22 {
        session.set(setting.write("wide", &value.to_string())).unwrap();
    }
    let (reads_then, writes_then) = reads_and_writes(session.actuator);
    // Four reads: the tracer, and the value when it is announced, before and after the store. Three writes:
    // intent, value, outcome.
    assert_eq!((reads_then - reads, writes_then - writes), (10 * 4, 10 * 3));
}

#[test]
fn the_debugger_of_the_program_is_not_read_again_right_after_a_write_was_expected() {
    let setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    session.set(setting.write("wide", "11")).unwrap();
    let (reads, _) = reads_and_writes(session.actuator);
    for value in 12..62 {
        session.expect(Duration::ZERO, None).unwrap();
        session.set(setting.write("wide", &value.to_string())).unwrap();
    }
    let (reads_then, _) = reads_and_writes(session.actuator);
    // Two reads for the expected write, three for the write. Slightly more if a cached tracer has expired,
    // because the test was delayed.
    let each = (reads_then - reads) as f64 / 50.0;
    assert!((5.0..5.5).contains(&each), "{each}");
}

fn journals(setting: &Setting) -> BTreeMap<PathBuf, String> {
    let entries = std::fs::read_dir(setting.state().join("journal"));
    let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn a_first_write_to_a_place_that_was_requested_reads_no_more_than_any_later_one() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    session.get(setting.read("wide")).unwrap();
    // The first write into the process acquires the right to write and opens the journal.
    session.set(setting.write("knob", "11")).unwrap();
    let before = reads_and_writes(session.actuator).0;
    session.set(setting.write("wide", "11")).unwrap();
    assert_eq!(reads_and_writes(session.actuator).0 - before, 4);
    assert_eq!(setting.program.sees("wide"), "11");
}

#[test]
fn a_cached_place_is_replaced_after_the_process_executes_another_program() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    session.get(setting.read("knob")).unwrap();
    assert_eq!(setting.program.say("exec"), "ready");
    session.get(setting.read("knob")).unwrap();
    session.set(setting.write("knob", "11")).unwrap();
    assert_eq!(setting.program.sees("knob"), "11");
}

#[test]
fn a_set_that_is_warmed_up_writes_nothing_but_to_a_file_without_a_name_and_leaves_no_trace() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    session.set(setting.write("knob", "11")).unwrap();
    let (before, writes) = (journals(&setting), reads_and_writes(session.actuator).1);
    for value in ["12", "11", "3e12"] {
        let like = SetWarmUp::of(setting.write("knob", value));
        session.expect(Duration::ZERO, Some(like)).unwrap();
    }
    // Requests are answered in order, so all warm-ups are done now.
    assert_eq!(setting.reads(&mut session), Some(Value::I32(11)));
    assert_eq!(setting.program.sees("knob"), "11");
    assert_eq!(journals(&setting), before);
    // Lines of the two warm-ups with a valid value.
    assert_eq!(reads_and_writes(session.actuator).1, writes + 2);
    let open = std::fs::read_dir(format!("/proc/{}/fd", session.actuator)).unwrap();
    let targets = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let nameless = targets.filter(|target| target.to_string_lossy().ends_with(" (deleted)"));
    assert_eq!(nameless.count(), 1);
    let (changes, _) = session.changes(setting.pid()).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(session.set(setting.write("knob", "13")).unwrap().change, Some(2));
    assert_eq!(setting.program.sees("knob"), "13");
}

#[test]
fn a_set_that_is_warmed_up_first_of_all_opens_nothing() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    assert!(journals(&setting).is_empty());
    let mut ended = setting.write("knob", "12");
    ended.pid.start_time += 1;
    for command in [setting.write("knob", "12"), setting.write("nothing", "1"), ended] {
        session
            .expect(Duration::ZERO, Some(SetWarmUp::of(command)))
            .unwrap();
    }
    assert!(session.get(setting.read("knob")).is_ok());
    assert!(journals(&setting).is_empty(), "not even a journal");
    assert_eq!(setting.program.sees("knob"), "10");
    // A warm-up takes no lock, either.
    let (mut other, _other) = setting.session(false, &[]);
    other.set(setting.write("knob", "13")).unwrap();
    session
        .expect(Duration::ZERO, Some(SetWarmUp::of(setting.write("knob", "14"))))
        .unwrap();
    assert_eq!(setting.reads(&mut session), Some(Value::I32(13)));
}

#[test]
fn an_answer_is_known_to_be_there_once_it_is() {
    let setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    assert!(!session.is_answered_within(Duration::ZERO));
    let sent = session.send_set(setting.write("knob", "11")).unwrap();
    assert!(session.is_answered_within(Duration::from_secs(60)));
    assert_eq!(session.receipt(sent).unwrap().change, Some(1));
    assert!(!session.is_answered_within(Duration::ZERO));
}

#[test]
fn a_debugger_that_came_since_the_last_write_is_found_before_the_next() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    session.set(setting.write("knob", "11")).unwrap();
    let pid = setting.program.pid().to_string();
    let tracer = setting.workshop.build("tracer.c", "tracer", &[]);
    let Some(mut tracer) = Program::try_start(&tracer, &[pid.as_ref()], &[]) else {
        return skip("a process that is not the parent may not debug it");
    };
    fails(session.set(setting.write("knob", "12")), "is traced by process");
    tracer.end();
    session.set(setting.write("knob", "13")).unwrap();
    assert_eq!(setting.program.sees("knob"), "13");
}

#[test]
fn a_debugger_that_comes_after_a_write_was_expected_is_found_within_milliseconds() {
    let setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    let pid = setting.program.pid().to_string();
    let tracer = setting.workshop.build("tracer.c", "tracer", &[]);
    session.set(setting.write("knob", "11")).unwrap();
    session.expect(Duration::ZERO, None).unwrap();
    let Some(mut tracer) = Program::try_start(&tracer, &[pid.as_ref()], &[]) else {
        return skip("a process that is not the parent may not debug it");
    };
    let since = Instant::now();
    let refusal = (12..)
        .find_map(|value: u32| {
            assert!(since.elapsed() < Duration::from_secs(5), "it is not found");
            session.set(setting.write("knob", &value.to_string())).err()
        })
        .map(|error| error.to_string());
    assert!(refusal.is_some_and(|refusal| refusal.contains("is traced by process")));
    tracer.end();
}

#[test]
fn a_refusal_says_why_and_the_session_goes_on() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    let mut reused = setting.write("knob", "1");
    reused.pid.start_time += 1;
    for (command, kind) in [
        (setting.write("nothing", "1"), ActuatorRefusalKind::NotFound),
        (setting.write("own", "1"), ActuatorRefusalKind::Refused),
        (reused, ActuatorRefusalKind::Ended),
    ] {
        assert_eq!(refusal(session.set(command)).kind, kind);
    }
    let too_large = refusal(session.set(setting.write("byte", "300")));
    assert_eq!(
        too_large.message,
        "300 does not fit into u8, which holds 0 to 255"
    );
    session.set(setting.write("knob", "12")).unwrap();
    assert_eq!(setting.program.sees("knob"), "12");
}

#[test]
fn when_the_agent_dies_every_change_is_taken_back() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "11")).unwrap();
    session.set(setting.write("rate", "9")).unwrap();
    session.confirm(setting.pid(), 1).unwrap();
    drop(session);
    assert!(process.wait().unwrap().success());
    assert_eq!(setting.program.sees("rate"), "1.5");
    setting.ends_with("10", Status::Reverted);
}

#[test]
fn with_keep_only_what_was_confirmed_stays() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, mut process) = setting.session(true, &[]);
    session.set(setting.write("knob", "11")).unwrap();
    session.set(setting.write("rate", "9")).unwrap();
    session.confirm(setting.pid(), 1).unwrap();
    let summary = session.shutdown().unwrap();
    process.wait().unwrap();
    assert_eq!(
        summary.kept.iter().map(|kept| kept.change).collect::<Vec<_>>(),
        [1]
    );
    assert_eq!(summary.reverted[0].1.symbol, "rate");
    assert_eq!(
        (setting.program.sees("knob"), setting.program.sees("rate")),
        ("11".into(), "1.5".into())
    );
    let (mut later, _process) = setting.session(false, &[]);
    assert_eq!(
        later.revert_all(&[setting.pid()]).unwrap().reverted.len(),
        1,
        "the command that reverts it"
    );
    assert_eq!(setting.program.sees("knob"), "10");
}

#[test]
fn the_signals_that_end_a_session_do_not_end_the_actuator() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "11")).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        kill_process(RawPid::from_child(&process), signal).unwrap();
    }
    assert_eq!(setting.reads(&mut session), Some(Value::I32(11)));
    drop(session);
    assert!(process.wait().unwrap().success());
    assert_eq!(setting.program.sees("knob"), "10");
}

#[test]
fn a_second_session_is_shown_the_writer_but_may_read() {
    let setting = or_skip!(Setting::new());
    let (mut first, _first) = setting.session(false, &[]);
    first.set(setting.write("knob", "11")).unwrap();
    let (mut second, _second) = setting.session(false, &[]);
    let refusal = refusal(second.set(setting.write("knob", "12")));
    assert_eq!(refusal.kind, ActuatorRefusalKind::Busy);
    let writer = format!("process {} of ", first.actuator);
    assert!(refusal.message.contains(&writer), "{refusal}");
    assert_eq!(setting.reads(&mut second), Some(Value::I32(11)));
}

#[test]
fn a_program_that_ended_does_not_keep_the_session_from_ending() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, mut process) = setting.session(false, &[]);
    let write = setting.write("knob", "11");
    session.set(write.clone()).unwrap();
    setting.program.end();
    assert_eq!(refusal(session.set(write)).kind, ActuatorRefusalKind::Ended);
    let summary = session.shutdown().unwrap();
    assert!(summary.reverted.is_empty() && summary.failed.is_empty() && summary.kept.is_empty());
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_remembered_variable_is_forgotten_with_its_library() {
    let mut setting = or_skip!(Setting::with_library());
    let (mut session, _process) = setting.session(false, &[]);
    let mut read = setting.read("knob");
    read.value_type = Some(ValueType::I32);
    for _ in 0..2 {
        assert_eq!(session.get(read.clone()).unwrap().value(), Some(Value::I32(1)));
    }
    setting.program.say("close");
    assert_eq!(refusal(session.get(read)).kind, ActuatorRefusalKind::NotFound);
}

#[test]
fn a_line_that_is_too_long_ends_the_session_with_everything_taken_back() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "11")).unwrap();
    let mut long = setting.write("knob", "12");
    long.why = vec!["1".repeat(tuner::actuator::REQUEST_BYTES_MAX)];
    refused!(session.set(long), ClientError::Io(_));
    drop(session);
    process.wait().unwrap();
    assert_eq!(setting.program.sees("knob"), "10");
}
