//! Writes, refusals and reverts of values.

use std::os::unix::process::CommandExt;

use plan::{Value, ValueType};
use rustix::fs::{FlockOperation, flock};
use tuner::journal::{Outcome, RevertOutcome, StateDir, Status};
use tuner::{Hooks, LockError, MemoryError, WritablePlaceError, WriteError, WriterError};

use crate::programs::{
    Program, Workshop, fails_with, say_to_lent, to, variables, variables_with, writes_back,
};

/// `variables` without debug information, so that only the symbol table is available.
fn without_types() -> Option<(Workshop, Program)> {
    variables_with(&[])
}

#[test]
fn the_program_sees_every_kind_of_value_that_was_written() {
    let (workshop, mut program) = or_skip!(variables());
    let mut writer = program.writer(workshop.path()).unwrap();
    let cases = [
        ("knob", Value::I32(-42), "-42"),
        ("rate", Value::F64(0.25), "0.25"),
        ("ratio", Value::F32(8.0), "8"),
        ("flag", Value::Bool(true), "1"),
        ("byte", Value::U8(255), "255"),
        ("narrow", Value::I16(-30000), "-30000"),
        ("wide", Value::U64(u64::MAX), "18446744073709551615"),
        ("zeroed", Value::I32(3), "3"),
        ("hidden", Value::I32(77), "77"),
    ];
    for (name, value, seen) in cases {
        let receipt = writer
            .set(&program.place(name, None).unwrap(), to(value))
            .unwrap();
        assert_eq!(receipt.outcome, Outcome::Applied, "{name}");
        assert_eq!(receipt.new, value.to_bytes());
        assert_eq!(program.sees(name), seen);
    }
    assert_eq!(writer.changes().len(), cases.len());
    assert!(
        writer
            .revert_all(|_| true)
            .unwrap()
            .iter()
            .all(|attempt| attempt.result.is_ok())
    );
    assert_eq!(
        program.say("?"),
        "knob=10 rate=1.5 ratio=0.5 flag=0 byte=7 narrow=-2 wide=1 zeroed=0 hidden=5 fixed=3 shade=0 own=1"
    );
}

#[test]
fn no_reader_sees_half_a_word() {
    const WRITES: u32 = 500;
    let workshop = or_skip!(Workshop::open());
    let built = workshop.build("words.c", "words", &["-g", "-pthread"]);
    let mut program = or_skip!(Program::start(&built, &[]));
    let place = program.place("word", Some(ValueType::U64)).unwrap();
    let mut writer = program.writer(workshop.path()).unwrap();
    for number in 0..WRITES {
        // All eight bytes differ from those before.
        let value = [u64::MAX, 0][number as usize % 2];
        writer.set(&place, to(Value::U64(value))).unwrap();
    }
    let counts = program.say("?");
    let counts: Vec<u32> = counts.split(' ').map(|count| count.parse().unwrap()).collect();
    assert!((1..=WRITES).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[1], 0, "of {} values seen, torn", counts[0]);
}

#[test]
fn an_enum_takes_an_integer_of_its_size_when_the_type_is_stated() {
    let (workshop, mut program) = or_skip!(variables());
    fails_with(
        program.place("shade", None),
        "`shade` is an enum, which is written as a number: state the type (set --type, in a rule `as`), one of i32, u32",
    );
    let place = program.place("shade", Some(ValueType::U32)).unwrap();
    program.set(workshop.path(), &place, Value::U32(1));
    assert_eq!(program.sees("shade"), "1");
}

#[test]
fn without_debug_information_the_size_decides_and_the_type_must_be_stated() {
    let (workshop, mut program) = or_skip!(without_types());
    fails_with(
        program.place("byte", None),
        "the type of `byte` is not known: state the type (set --type, in a rule `as`), one of bool, i8, u8",
    );
    let place = program.place("byte", Some(ValueType::I8)).unwrap();
    program.set(workshop.path(), &place, Value::I8(9));
    assert_eq!(program.sees("byte"), "9");
}

#[test]
fn a_struct_or_an_array_is_refused_with_its_parts_whatever_type_is_stated() {
    let (_workshop, program) = or_skip!(variables());
    for stated in [None, Some(ValueType::I64), Some(ValueType::I32)] {
        for (name, why) in [
            (
                "pair",
                "`pair` is a struct: name one of its members (`pair.eps`, `pair.n`)",
            ),
            ("array", "`array` is int[4]: name one of its elements"),
        ] {
            fails_with(program.place(name, stated), why);
        }
    }
}

#[test]
fn memory_that_must_not_be_written_is_refused_and_unchanged() {
    let (_workshop, mut program) = or_skip!(without_types());
    let before = program.say("?");
    let refused = |name, value_type| program.place(name, Some(value_type)).unwrap_err();
    let error = refused("fixed", ValueType::I32);
    assert!(error.to_string().contains("section .rodata"), "{error}");
    is!(
        refused("constant_pointer", ValueType::U64),
        WritablePlaceError::ReadOnly { .. }
    );
    is!(
        refused("knob", ValueType::I64),
        WritablePlaceError::WrongSize { .. }
    );
    is!(
        refused("array", ValueType::I32),
        WritablePlaceError::WrongSize { .. }
    );
    assert_eq!(program.say("?"), before);
}

#[test]
fn a_type_that_the_debug_information_contradicts_is_refused() {
    let (_workshop, program) = or_skip!(variables());
    let refused = |name, value_type| program.place(name, Some(value_type)).unwrap_err();
    for (name, stated, why) in [
        ("knob", ValueType::F32, "`knob` is i32, not f32"),
        (
            "pointer",
            ValueType::U64,
            "`pointer` is a pointer of 8 bytes, not u64",
        ),
        ("flag", ValueType::U8, "`flag` is bool, not u8"),
        ("wide", ValueType::I64, "`wide` is u64, not i64"),
    ] {
        let error = refused(name, stated);
        assert!(matches!(error, WritablePlaceError::WrongType { .. }), "{error:?}");
        assert_eq!(error.to_string(), why);
    }
}

#[test]
fn a_place_that_is_not_aligned_is_refused() {
    let (_workshop, program) = or_skip!(without_types());
    let mut location = program.find("packed").unwrap();
    // The location of a field in the packed struct.
    location.size = 4;
    location.address.0 += 1;
    location.link_address.0 += 1;
    refused!(
        tuner::WritablePlace::validate(&location, Some(ValueType::I32)),
        WritablePlaceError::Misaligned { .. }
    );
}

#[test]
fn a_claimed_place_outside_of_writable_data_is_refused() {
    let (_workshop, program) = or_skip!(without_types());
    let mut location = program.find("knob").unwrap();
    let space = program.space();
    let main = space.executable().unwrap().image.functions(&["main"]).unwrap()[0].address;
    location.link_address = main;
    location.address = location.module.address(main);
    location.size = 1;
    let error = tuner::WritablePlace::validate(&location, Some(ValueType::U8)).unwrap_err();
    assert!(
        matches!(error, WritablePlaceError::ReadOnly { .. }),
        "code: {error}"
    );
    location.module.bias.0 += 0x1000;
    assert!(
        tuner::WritablePlace::validate(&location, Some(ValueType::U8)).is_err(),
        "another bias"
    );
}

#[test]
fn a_value_is_written_only_over_the_one_that_is_expected() {
    let (workshop, mut program) = or_skip!(variables());
    let mut writer = program.writer(workshop.path()).unwrap();
    let place = program.place("knob", None).unwrap();
    let mut request = to(Value::I32(20));
    request.expect_old = Some(Value::I32(11));
    refused!(
        writer.set(&place, request.clone()),
        WriterError::Write(WriteError::Unexpected { .. })
    );
    assert_eq!(program.sees("knob"), "10");
    assert!(writer.changes().is_empty(), "nothing was announced");
    request.expect_old = Some(Value::I32(10));
    assert_eq!(writer.set(&place, request).unwrap().change, Some(1));
    assert_eq!(program.sees("knob"), "20");
}

#[test]
fn a_value_that_the_program_writes_at_the_last_instant_is_left_alone() {
    let (workshop, program) = or_skip!(variables());
    let place = program.place("knob", None).unwrap();
    let hooks = Hooks {
        after_intent: || drop(say_to_lent("set 33")),
        ..Hooks::default()
    };
    let mut writer = program.writer_with(workshop.path(), hooks).unwrap();
    let _lent = program.lend();
    let wanted = format!(
        "`knob` of process {} holds 33, not 10 as expected: the program changed it meanwhile; left alone",
        place.pid()
    );
    fails_with(writer.set(&place, to(Value::I32(20))), &wanted);
    assert!(say_to_lent("?").starts_with("knob=33 "));
    assert_eq!(
        writer.changes()[0].status,
        Status::Failed,
        "it was announced, and is known not to be written"
    );
}

#[test]
fn a_value_that_is_there_already_is_not_written_again() {
    let (workshop, program) = or_skip!(variables());
    let mut writer = program.writer(workshop.path()).unwrap();
    let place = program.place("knob", None).unwrap();
    let receipt = writer.set(&place, to(Value::I32(10))).unwrap();
    assert_eq!((receipt.change, receipt.outcome), (None, Outcome::Applied));
    assert!(writer.changes().is_empty());
}

#[test]
fn a_value_of_another_type_or_process_is_refused_by_the_writer() {
    let (workshop, program) = or_skip!(variables());
    let other = or_skip!(Program::start(&workshop.path().join("variables"), &[]));
    let mut writer = program.writer(workshop.path()).unwrap();
    let place = program.place("knob", None).unwrap();
    refused!(
        writer.set(&place, to(Value::U32(1))),
        WriterError::OtherType { .. }
    );
    let foreign = other.place("knob", None).unwrap();
    refused!(
        writer.set(&foreign, to(Value::I32(1))),
        WriterError::OtherProcess { .. }
    );
}

#[test]
fn values_that_the_program_changed_since_are_kept_and_reported() {
    let (workshop, mut program) = or_skip!(variables());
    let mut writer = program.writer(workshop.path()).unwrap();
    let place = program.place("knob", None).unwrap();
    writer.set(&place, to(Value::I32(20))).unwrap();
    program.say("set 33");
    let reverted = writer.revert(1).unwrap();
    assert_eq!(
        reverted.outcome,
        RevertOutcome::ChangedSince(Value::I32(33).to_bytes())
    );
    assert_eq!(program.sees("knob"), "33");
    assert_eq!(writer.changes()[0].status, Status::ChangedSince);
    refused!(writer.revert(1), WriterError::NotInForce { .. });
}

#[test]
fn changes_of_one_variable_are_taken_back_newest_first() {
    let (workshop, mut program) = or_skip!(variables());
    let mut writer = program.writer(workshop.path()).unwrap();
    let place = program.place("knob", None).unwrap();
    for value in [20, 30, 40] {
        writer.set(&place, to(Value::I32(value))).unwrap();
    }
    fails_with(
        writer.revert(1),
        "change 1 is not in force: change 2 replaced it; revert that first",
    );
    writer.revert(3).unwrap();
    assert_eq!(program.sees("knob"), "30");
    let order: Vec<u64> = writer
        .revert_all(|_| true)
        .unwrap()
        .iter()
        .map(|attempt| attempt.change)
        .collect();
    assert_eq!(order, [2, 1]);
    assert_eq!(program.sees("knob"), "10");
    refused!(writer.revert(9), WriterError::NoSuchChange { change: 9, .. });
}

#[test]
fn changes_that_followed_each_other_are_taken_back_by_one_write_as_far_as_they_are_wanted() {
    let (workshop, mut program) = or_skip!(variables());
    let state = workshop.path();
    let mut writer = program.writer(state).unwrap();
    let place = program.place("knob", None).unwrap();
    for value in [20, 30, 40] {
        writer.set(&place, to(Value::I32(value))).unwrap();
    }
    let mut revert = |first: u64| {
        let attempts = writer.revert_all(|change| change.intent.change >= first).unwrap();
        let reverted = attempts.into_iter().map(|attempt| attempt.result.unwrap());
        let reverted: Vec<_> = reverted
            .map(|reverted| (reverted.change, reverted.outcome))
            .collect();
        (reverted, program.sees("knob"), writes_back(state, place.pid()))
    };
    let back = RevertOutcome::Reverted;
    assert_eq!(
        revert(2),
        (vec![(3, back.clone()), (2, back.clone())], "20".to_owned(), 1)
    );
    assert_eq!(revert(1), (vec![(1, back)], "10".to_owned(), 2));
}

#[test]
fn a_later_session_takes_back_what_an_earlier_one_left() {
    let (workshop, mut program) = or_skip!(variables());
    let place = program.place("knob", None).unwrap();
    let state = workshop.path();
    program.set(state, &place, Value::I32(20));
    let mut later = program.writer(state).unwrap();
    assert_eq!(later.newest_before, 1);
    assert_eq!(later.revert(1).unwrap().outcome, RevertOutcome::Reverted);
    assert_eq!(program.sees("knob"), "10");
    let history = StateDir::at(state).history(program.process().pid).unwrap();
    assert_eq!(history.changes()[0].status, Status::Reverted);
    assert_eq!(StateDir::at(state).histories().unwrap().len(), 1);
}

#[test]
fn nothing_is_written_after_the_process_ended_or_runs_another_program() {
    let (workshop, mut program) = or_skip!(variables());
    let state = workshop.path();
    let mut writer = program.writer(state).unwrap();
    let place = program.place("knob", None).unwrap();
    let location = program.find("knob").unwrap();
    assert_eq!(program.say("exec"), "ready");
    // Pid and start time are unchanged; the handle belongs to the old address space.
    assert!(program.process().is_alive());
    refused!(
        writer.set(&place, to(Value::I32(20))),
        WriterError::Memory(MemoryError::Gone { .. })
    );
    assert_eq!(program.sees("knob"), "10");
    program.end();
    refused!(
        tuner::WritablePlace::validate(&location, None),
        WritablePlaceError::Process(_)
    );
    refused!(
        writer.set(&place, to(Value::I32(20))),
        WriterError::Memory(MemoryError::Gone { .. })
    );
}

#[test]
fn a_change_is_not_taken_back_in_another_program_of_the_same_process() {
    let (workshop, mut program) = or_skip!(variables());
    let mut writer = program.writer(workshop.path()).unwrap();
    writer
        .set(&program.place("knob", None).unwrap(), to(Value::I32(20)))
        .unwrap();
    assert_eq!(program.say("exec"), "ready");
    // The same file again: with address randomisation it has another address, without it another value.
    match writer.revert(1) {
        Err(WriterError::ModuleGone { .. }) => {}
        Ok(reverted) => assert!(
            matches!(reverted.outcome, RevertOutcome::ChangedSince(_)),
            "{reverted:?}"
        ),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(program.sees("knob"), "10");
}

#[test]
fn a_second_writer_is_shown_the_first() {
    let (workshop, program) = or_skip!(variables());
    let first = program.writer(workshop.path()).unwrap();
    // Another user would have another state directory; the lock belongs to the process.
    let elsewhere = tempfile::tempdir().unwrap();
    match program.writer(elsewhere.path()).unwrap_err() {
        WriterError::Lock(LockError::Held {
            holder: Some(holder), ..
        }) => {
            assert_eq!(holder.pid, std::process::id().cast_signed());
            assert_eq!(holder.user, tuner::user_name(rustix::process::getuid().as_raw()));
        }
        error => panic!("{error}"),
    }
    drop(first);
    program.writer(elsewhere.path()).unwrap();
}

/// A file that every user can open could be locked by every user.
#[test]
fn a_user_without_access_to_a_process_cannot_keep_others_from_writing() {
    let (workshop, program) = or_skip!(variables());
    let directory = std::fs::File::open(format!("/proc/{}", program.pid())).unwrap();
    flock(&directory, FlockOperation::NonBlockingLockExclusive).unwrap();
    let writer = program.writer(workshop.path()).unwrap();
    if !rustix::process::getuid().is_root() {
        return;
    }
    // The lock is on a file that other users cannot open.
    let locked = format!("/proc/{}/mem", program.pid());
    let mut command = std::process::Command::new("flock");
    command.args(["--nonblock", &locked, "true"]);
    assert_eq!(command.status().unwrap().code(), Some(1), "held by {writer:?}");
    drop(writer);
    assert!(command.status().unwrap().success());
    assert_eq!(
        command.uid(65_534).gid(65_534).status().unwrap().code(),
        Some(66),
        "it cannot be opened"
    );
}

#[test]
fn a_stopped_program_is_written_too() {
    let (workshop, mut program) = or_skip!(variables());
    let pid = rustix::process::Pid::from_raw(program.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let place = program.place("knob", None).unwrap();
    program.set(workshop.path(), &place, Value::I32(20));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert_eq!(program.sees("knob"), "20");
}
