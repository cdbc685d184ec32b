//! Programs with seccomp filters: allowed actions, refused actions, and that the programs survive.

use std::time::Duration;

use plan::{Argument, CallRequest, Moment, Value, ValueType};
use tuneagent_e2e::needs::skip;
use tuner::journal::{JournalChange, Reason, Status};
use tuner::{ActionError, Stopped, Writer, WriterError};

use crate::programs::{Program, Workshop, fails, to};
use crate::underload::{argument, call, insert, patch, replace, result, take_back, try_call, try_patch};

/// What a filter permits: its mode; whether memory can be mapped; whether functions can be called whose
/// system calls are unknown.
type Permits = (&'static str, Result<(), &'static str>, Result<(), &'static str>);

const ERRNO: &str = "fails (errno 1) the system call mmap";
const KILL: &str = "kills the program at the system call mmap";
const TRAP: &str = "sends SIGSYS at the system call mmap";
const STRICT: &str = "strict seccomp mode";

const TABLE: [Permits; 7] = [
    ("none", Ok(()), Ok(())),
    ("denies", Ok(()), Ok(())),
    ("errno", Err(ERRNO), Err(ERRNO)),
    ("kill", Err(KILL), Err("kills the program at")),
    ("trap", Err(TRAP), Err("sends SIGSYS at")),
    ("selective", Ok(()), Err("kills the program at some system calls")),
    ("strict", Err(STRICT), Err(STRICT)),
];

struct Filtered {
    workshop: Workshop,
    program: Program,
}

impl Filtered {
    fn start(mode: &str) -> Option<Filtered> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        if !rustix::process::geteuid().is_root() || !status.contains("\nSeccomp:\t0\n") {
            skip("only root, without a filter of its own, reads the filters of others");
            return None;
        }
        let workshop = Workshop::open()?;
        let path = workshop.build("filtered.c", "filtered", &["-pthread", "-g"]);
        workshop.build("other.c", "libother.so", &["-shared", "-fPIC"]);
        let program = Program::start(&path, &[mode.as_ref()])?;
        Some(Filtered { workshop, program })
    }

    fn writer(&self) -> Writer {
        self.program.writer(self.workshop.path()).unwrap()
    }

    /// Checks that the program runs and that its answer contains `part`.
    fn answers(&mut self, part: &str) {
        let answer = self.program.say("?");
        assert!(answer.contains(part), "`{part}` is not in `{answer}`");
    }

    fn library(&self) -> String {
        let path = self.workshop.path().join("libother.so");
        path.to_string_lossy().into_owned()
    }
}

/// Checks that a result is as expected: success, or a refusal with this reason. Returns the change.
fn done(what: &str, result: Result<u64, WriterError>, expected: Result<(), &str>) -> Option<u64> {
    match (result, expected) {
        (Ok(change), Ok(())) => Some(change),
        (Err(WriterError::Action(error)), Err(part)) => {
            let is_refusal = matches!(*error, ActionError::Seccomp { .. } | ActionError::NoWay { .. });
            assert!(is_refusal && error.to_string().contains(part), "{what}: {error}");
            None
        }
        (result, expected) => panic!("{what}: {result:?} instead of {expected:?}"),
    }
}

fn changed(writer: &mut Writer, request: &plan::PatchRequest) -> Result<u64, WriterError> {
    try_patch(writer, request).map(|receipt| receipt.change)
}

/// Reverts the change, if there is one.
fn back(writer: &mut Writer, change: Option<u64>) {
    if let Some(change) = change {
        take_back(writer, change);
    }
}

impl Filtered {
    /// Actions with function calls: a call, a library, an inserted call.
    fn functions(&mut self, writer: &mut Writer, (mode, _, functions): Permits) {
        let called = try_call(writer, call("extra(5)", None));
        let called = called.map(|receipt| {
            assert_eq!(result(&receipt), "5");
            receipt.change
        });
        let called = done(&format!("{mode}: call"), called, functions);
        let loaded = writer.load(&self.library(), 20_000, Reason::default());
        let loaded = loaded.map(|receipt| receipt.change);
        back(writer, done(&format!("{mode}: load"), loaded, functions));
        let inserted = changed(writer, &insert("extra(5)", "tick", Moment::Entry));
        let inserted = done(&format!("{mode}: insert"), inserted, functions);
        let calls = [called, inserted].into_iter().flatten().count();
        self.answers(&format!("called={} ", 5 * calls));
        back(writer, inserted);
    }

    /// An action that maps memory.
    fn mapping(&mut self, writer: &mut Writer, (mode, mapping, _): Permits) {
        let changed = self::changed(writer, &argument("tick", 0, "original + 99"));
        let changed = done(&format!("{mode}: argument"), changed, mapping);
        let before = self.ticks();
        assert_eq!(self.ticks() - before, changed.map_or(2, |_| 200), "{mode}");
        back(writer, changed);
    }

    fn ticks(&mut self) -> u64 {
        let answer = self.program.say("?");
        let word = answer.split(' ').find_map(|word| word.strip_prefix("ticks="));
        word.unwrap_or_else(|| panic!("`{answer}`")).parse().unwrap()
    }

    /// Actions without system calls in the program.
    fn without_calls(&mut self, writer: &mut Writer, mode: &str) {
        if mode != "strict" {
            let change = patch(writer, &replace("f", "g")).change;
            self.answers("f=7 ");
            take_back(writer, change);
        }
        let place = self.program.place("knob", Some(ValueType::I32)).unwrap();
        let set = writer.set(&place, to(Value::I32(11))).unwrap();
        self.answers("f=4 ");
        self.answers(" knob=11");
        take_back(writer, set.change.unwrap());
    }
}

#[test]
fn a_program_with_a_filter_is_changed_as_far_as_that_permits_and_lives_on() {
    for permits in TABLE {
        let mode = permits.0;
        let mut filtered = or_skip!(Filtered::start(mode));
        let mut writer = filtered.writer();
        filtered.functions(&mut writer, permits);
        filtered.mapping(&mut writer, permits);
        filtered.without_calls(&mut writer, mode);
        let changes = writer.changes();
        let in_force = |change: &&JournalChange| change.status == Status::Applied;
        assert_eq!(changes.iter().filter(in_force).count(), 0, "{mode}");
        filtered.answers(" knob=10");
    }
}

#[test]
fn a_thread_that_sleeps_is_not_killed_for_going_on_with_it() {
    for mode in ["kill", "trap", "denies"] {
        let mut filtered = or_skip!(Filtered::start(mode));
        for _ in 0..10 {
            let stopped = Stopped::all(&filtered.program.process(), Duration::from_secs(20)).unwrap();
            assert_eq!(stopped.threads().len(), 2, "{mode}");
            drop(stopped);
            filtered.answers("f=4 ");
        }
    }
}

#[test]
fn by_hand_a_function_is_called_where_a_filter_kills_at_other_calls() {
    let mut filtered = or_skip!(Filtered::start("selective"));
    let mut writer = filtered.writer();
    writer.despite_seccomp = true;
    let request = CallRequest {
        arguments: vec![Argument::Integer(5)],
        ..call("extra(0)", None)
    };
    assert_eq!(result(&try_call(&mut writer, request).unwrap()), "5");
    let inserted = changed(&mut writer, &insert("extra(5)", "tick", Moment::Entry)).unwrap();
    filtered.answers("called=10 ");
    // The revert needs no permission of its own.
    writer.despite_seccomp = false;
    take_back(&mut writer, inserted);
    filtered.answers("called=10 ");
    // A call that the filter would kill is never made.
    let mut filtered = or_skip!(Filtered::start("kill"));
    let mut writer = filtered.writer();
    writer.despite_seccomp = true;
    fails(
        try_call(&mut writer, call("extra(5)", None)),
        "kills the program at the system call mmap",
    );
    filtered.answers("called=0 ");
}
