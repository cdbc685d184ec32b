//! Typed errors without a write: a debugger, an end during the change, a full disk for the journal, a program
//! with additional rights. (Types, sizes and sections are in `writing`, names in `binding`, zombies in
//! `looking`.)

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use plan::{Moment, Value};
use tuneagent_e2e::needs::skip;
use tuneagent_e2e::require_or_return;
use tuneagent_e2e::wait::{SOON, wait_until};
use tuner::journal::{JournalError, Reason, RevertOutcome, StateDir, Status};
use tuner::{
    AddressSpace, Hooks, MemoryError, Process, ProcessError, SpaceError, WritablePlaceError, Writer,
    WriterError,
};

use crate::{
    programs::{Program, Workshop, to, variables, with_lent},
    underload::{Load, QUIET, call, insert, remove, replace, take_back, try_patch},
};

/// A process that is killed on drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_under_gdb_or_strace_is_refused_until_they_let_go() {
    let (workshop, mut program) = or_skip!(variables());
    let pid = program.pid().to_string();
    let debuggers: [(&str, Vec<&str>); 2] = [
        ("strace", vec!["-o", "/dev/null", "-p", &pid]),
        ("gdb", vec!["--batch", "-nx", "-p", &pid, "-ex", "shell cat"]),
    ];
    for (name, arguments) in debuggers {
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::piped());
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            skip(&format!("there is no {name}"));
            continue;
        };
        let mut debugger = Ended(child);
        let tracer = debugger.0.id().cast_signed();
        let mut has_given_up = false;
        wait_until("the tracer", SOON, || {
            has_given_up = debugger.0.try_wait().unwrap().is_some();
            Ok(has_given_up || program.process().tracer().unwrap() == Some(tracer))
        })
        .unwrap();
        if has_given_up {
            skip(&format!("{name} may not debug a process that is not its child"));
            continue;
        }
        match program.place("knob", None) {
            Err(WritablePlaceError::Traced { tracer: found, .. }) => assert_eq!(found, tracer, "{name}"),
            result => panic!("{name}: {result:?}"),
        }
        // strace ends by a signal, gdb at the end of its input; both detach then.
        drop(debugger.0.stdin.take());
        if name == "strace" {
            let raw = rustix::process::Pid::from_child(&debugger.0);
            rustix::process::kill_process(raw, rustix::process::Signal::INT).unwrap();
        }
        debugger.0.wait().unwrap();
        wait_until("the tracer to let go", SOON, || {
            Ok(program.process().tracer().unwrap().is_none())
        })
        .unwrap();
        assert_eq!(program.sees("knob"), "10", "{name}");
    }
    let mut writer = program.writer(workshop.path()).unwrap();
    writer
        .set(&program.place("knob", None).unwrap(), to(Value::I32(20)))
        .unwrap();
    assert_eq!(program.sees("knob"), "20");
}

#[test]
fn a_process_that_ends_during_the_action_is_reported_and_the_journal_knows_that_nothing_was_written() {
    let (workshop, program) = or_skip!(variables());
    let place = program.place("knob", None).unwrap();
    let hooks = Hooks {
        after_intent: || with_lent(Program::end),
        ..Hooks::default()
    };
    let mut writer = program.writer_with(workshop.path(), hooks).unwrap();
    let _lent = program.lend();
    refused!(
        writer.set(&place, to(Value::I32(20))),
        WriterError::Write(tuner::WriteError::Memory(MemoryError::Gone { .. }))
    );
    assert_eq!(writer.changes()[0].status, Status::Failed);
}

/// A separate file system that is small enough to fill.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        fs::create_dir(at).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "tuneagent-test"])
            .arg(at);
        let mounted = mount.stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip("a file system can be mounted by root alone");
            return None;
        }
        Some(SmallDisk(at.to_owned()))
    }

    /// Writes until no byte is free.
    fn fill(at: &Path) {
        let bytes = [0; 4096];
        let mut file = fs::File::create(at.join("filler")).unwrap();
        while std::io::Write::write_all(&mut file, &bytes).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Pads the journal to the end of its page, so that the next line needs a new one.
fn pad(journal: &Path) {
    let length = fs::metadata(journal).unwrap().len() as usize;
    let mut file = fs::OpenOptions::new().append(true).open(journal).unwrap();
    let mut line = vec![b' '; (4096 - length % 4096) - 1];
    line.push(b'\n');
    std::io::Write::write_all(&mut file, &line).unwrap();
}

/// A program, and a small file system for its journal.
fn on_a_small_disk() -> Option<(Workshop, Program, SmallDisk)> {
    let (workshop, program) = variables()?;
    let disk = SmallDisk::mount(&workshop.path().join("small"))?;
    Some((workshop, program, disk))
}

#[test]
fn on_a_full_disk_nothing_is_written_and_nothing_is_taken_back() {
    let (_workshop, mut program, disk) = or_skip!(on_a_small_disk());
    let place = program.place("knob", None).unwrap();
    let mut writer = program.writer(&disk.0).unwrap();
    writer.set(&place, to(Value::I32(20))).unwrap();
    pad(&StateDir::at(&disk.0).journal_path(program.process().pid));
    SmallDisk::fill(&disk.0);
    for result in [
        writer.set(&place, to(Value::I32(30))).map(drop),
        writer.revert(1).map(drop),
    ] {
        refused!(result, WriterError::Journal(JournalError::Full { .. }));
    }
    assert_eq!(program.sees("knob"), "20");
    // With free space the same writer continues.
    fs::remove_file(disk.0.join("filler")).unwrap();
    take_back(&mut writer, 1);
    assert_eq!(program.sees("knob"), "10");
    drop(writer);
}

#[test]
fn on_a_full_disk_no_action_is_taken_and_none_is_taken_back() {
    let mut load = or_skip!(Load::start());
    let disk = or_skip!(SmallDisk::mount(&load.workshop.path().join("small")));
    let mut writer = load.program.writer(&disk.0).unwrap();
    let reason = Reason::default;
    writer.patch(&replace("sort_a", "sort_b"), reason()).unwrap();
    pad(&StateDir::at(&disk.0).journal_path(load.program.process().pid));
    SmallDisk::fill(&disk.0);
    let outcomes = [
        writer.call(call("tick()", None), reason()).map(drop),
        writer.load(&load.library(), 20_000, reason()).map(drop),
        writer
            .patch(&remove("log_state", Some("step")), reason())
            .map(drop),
        writer.affinity(&"0".parse().unwrap(), reason()).map(drop),
        writer.revert(1).map(drop),
    ];
    for outcome in outcomes {
        refused!(outcome, WriterError::Journal(JournalError::Full { .. }));
    }
    assert_eq!(load.runs(), QUIET.replace("a=1 b=0", "a=0 b=1"));
    assert_eq!(load.program.say("ticks"), "ticks=0");
    fs::remove_file(disk.0.join("filler")).unwrap();
    take_back(&mut writer, 1);
    drop(writer);
    assert_eq!(load.runs(), QUIET);
    load.has_its_first_code("nothing was left of what was refused");
}

thread_local! {
    static PLACE: RefCell<PathBuf> = RefCell::new(PathBuf::new());
}

/// A writer whose disk is full after the first write into the program.
fn writer_on_a_filling_disk(program: &Program, disk: &SmallDisk) -> Writer {
    PLACE.set(StateDir::at(&disk.0).journal_path(program.process().pid));
    let hooks = Hooks {
        after_write: || {
            PLACE.with_borrow(|journal| {
                pad(journal);
                SmallDisk::fill(journal.parent().unwrap());
            });
        },
        ..Hooks::default()
    };
    program.writer_with(&disk.0, hooks).unwrap()
}

#[test]
fn a_disk_that_fills_while_code_is_changed_leaves_what_the_next_writer_settles() {
    let mut load = or_skip!(Load::start());
    let disk = or_skip!(SmallDisk::mount(&load.workshop.path().join("small")));
    let inserted = insert("note(5, 0.5, \"noted\")", "step", Moment::Entry);
    let mut writer = writer_on_a_filling_disk(&load.program, &disk);
    refused!(
        try_patch(&mut writer, &inserted),
        WriterError::Journal(JournalError::Full { .. })
    );
    assert_eq!(writer.changes()[0].status, Status::Pending);
    drop(writer);
    assert_eq!(load.runs(), QUIET.replace("noted=0", "noted=1"));
    fs::remove_file(disk.0.join("journal/filler")).unwrap();
    let mut next = load.program.writer(&disk.0).unwrap();
    assert_eq!(next.changes()[0].status, Status::Applied, "the memory told");
    assert_eq!(next.revert(1).unwrap().outcome, RevertOutcome::Reverted);
    drop(next);
    load.is_as_at_first();
}

#[test]
fn a_disk_that_fills_between_intent_and_outcome_leaves_what_the_next_writer_settles() {
    let (_workshop, mut program, disk) = or_skip!(on_a_small_disk());
    let place = program.place("knob", None).unwrap();
    let mut writer = writer_on_a_filling_disk(&program, &disk);
    refused!(
        writer.set(&place, to(Value::I32(20))),
        WriterError::Journal(JournalError::Full { .. })
    );
    assert_eq!(
        writer.changes()[0].status,
        Status::Pending,
        "written, and not yet known to be"
    );
    drop(writer);
    fs::remove_file(disk.0.join("journal/filler")).unwrap();
    let mut next = program.writer(&disk.0).unwrap();
    assert_eq!(next.changes()[0].status, Status::Applied, "the memory told");
    next.revert(1).unwrap();
    assert_eq!(program.sees("knob"), "10");
    drop(next);
}

#[test]
fn a_program_with_rights_that_its_user_does_not_have_is_never_looked_into() {
    require_or_return!(Root);
    let workshop = or_skip!(Workshop::open());
    let program = workshop.build("variables.c", "variables", &["-g"]);
    let set_uid = Command::new("chmod").arg("4755").arg(&program).status();
    assert!(set_uid.unwrap().success());
    let open = Command::new("chmod").arg("755").arg(workshop.path()).status();
    assert!(open.unwrap().success());
    let unprivileged = workshop.build("variables.c", "unprivileged", &["-g"]);
    let lent = ["--inh-caps=-all,+sys_nice", "--ambient-caps=-all,+sys_nice"];
    let none = ["--inh-caps=-all", "--ambient-caps=-all"];
    // A set-uid program of root, started by another user; a program with an inherited capability; and a
    // program with neither.
    for (program, capabilities, is_refused) in [
        (&program, none, true),
        (&unprivileged, lent, true),
        (&unprivileged, none, false),
    ] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.args(capabilities).arg(program);
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut started = Ended(child);
        let mut greeting = [0; 6];
        std::io::Read::read_exact(started.0.stdout.as_mut().unwrap(), &mut greeting).unwrap();
        let process = Process::open(started.0.id().cast_signed()).unwrap();
        match AddressSpace::read(&process, &tuner::Images::new()) {
            Err(SpaceError::Memory(MemoryError::Process(ProcessError::Privileged { .. }))) if is_refused => {}
            Ok(_) if !is_refused => {}
            result => panic!("{result:?}"),
        }
    }
    // Started by root, a set-uid program of root has no additional rights.
    let plain = Program::start(&program, &[]).unwrap();
    assert!(plain.place("knob", None).is_ok());
}
