//! Unloaded libraries, pages made read-only, and exec between the last check and the store: no other memory
//! keeps the value, and no failure is reported as a success.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plan::{Value, ValueType};
use tuneagent_e2e::needs::is_long;
use tuner::journal::{Outcome, Status};
use tuner::{
    Hooks, MemoryError, StrayWrite, WritablePlace, WritablePlaceError, WriteError, Writer, WriterError,
};

use crate::programs::{Lent, Program, Workshop, say_to_lent, to};

fn writer(workshop: &Workshop, program: Program, before_store: fn()) -> (Writer, Lent) {
    let hooks = Hooks {
        before_store,
        ..Hooks::default()
    };
    let writer = program.writer_with(workshop.path(), hooks).unwrap();
    (writer, program.lend())
}

/// Two libraries with the same layout and different build ids.
fn libraries(workshop: &Workshop) -> [PathBuf; 2] {
    ["liba.so", "libb.so"].map(|name| {
        let name_of_its_own = format!("-Wl,-soname,{name}");
        workshop.library(name, 1, "view", &[&name_of_its_own])
    })
}

fn opener(workshop: &Workshop) -> Option<(Program, WritablePlace)> {
    let [first, next] = libraries(workshop);
    let opener = workshop.build("opener.c", "opener", &["-ldl"]);
    let program = Program::start_with(&opener, &[&first], &[("NEXT", &next)])?;
    let place = program.place("knob", Some(ValueType::I32)).unwrap();
    Some((program, place))
}

#[test]
fn a_value_that_went_into_another_library_is_put_back_and_never_reported_as_written() {
    let workshop = or_skip!(Workshop::open());
    let (program, place) = or_skip!(opener(&workshop));
    let (mut writer, _lent) = writer(&workshop, program, || drop(say_to_lent("swap")));
    refused!(
        writer.set(&place, to(Value::I32(20))),
        WriterError::Write(WriteError::WentElsewhere {
            found: StrayWrite::Restored,
            ..
        })
    );
    assert_eq!(say_to_lent("views"), "1");
    assert_eq!(writer.changes()[0].status, Status::Failed);
}

#[test]
fn nothing_is_written_where_a_library_was() {
    let workshop = or_skip!(Workshop::open());
    let (mut program, place) = or_skip!(opener(&workshop));
    assert_eq!(program.say("swap"), "1");
    let mut writer = program.writer(workshop.path()).unwrap();
    refused!(
        writer.set(&place, to(Value::I32(20))),
        WriterError::Write(WriteError::Unloaded(_))
    );
    assert_eq!(program.say("views"), "1");
    // The same if nothing is mapped there, detected before the store or by it.
    let (program, place) = or_skip!(opener(&workshop));
    let (mut writer, _lent) = self::writer(&workshop, program, || drop(say_to_lent("close")));
    refused!(writer.set(&place, to(Value::I32(20))), WriterError::Write(_));
    assert_eq!(writer.changes()[0].status, Status::Failed);
}

/// The write method itself would override the page protection.
#[test]
fn memory_made_read_only_after_its_validation_is_not_written() {
    let workshop = or_skip!(Workshop::open());
    let path = workshop.build("protects.c", "protects", &["-g"]);
    let mut program = or_skip!(Program::start(&path, &[]));
    let mut writer = program.writer(workshop.path()).unwrap();
    let place = program.place("guarded", None).unwrap();
    writer.set(&place, to(Value::I32(6))).unwrap();
    assert_eq!(program.say("protect"), "6");
    refused!(
        writer.set(&place, to(Value::I32(7))),
        WriterError::Write(WriteError::WritablePlace(WritablePlaceError::ReadOnly { .. }))
    );
    assert_eq!(program.say("?"), "6");
}

#[test]
fn a_program_that_is_begun_between_check_and_store_gets_nothing() {
    let workshop = or_skip!(Workshop::open());
    // Without PIE the variables have the same addresses before and after exec.
    let path = workshop.build("variables.c", "variables", &["-g", "-no-pie"]);
    let program = or_skip!(Program::start(&path, &[]));
    let place = program.place("knob", None).unwrap();
    let (mut writer, _lent) = writer(&workshop, program, || assert_eq!(say_to_lent("exec"), "ready"));
    refused!(
        writer.set(&place, to(Value::I32(20))),
        WriterError::Write(WriteError::Memory(MemoryError::Gone { .. }))
    );
    assert!(say_to_lent("?").starts_with("knob=10 "));
}

/// A race for a given time. Another library may hold the value until it is restored; each such write must be
/// reported as a failure.
#[test]
fn a_write_that_met_another_library_is_never_a_success() {
    let workshop = or_skip!(Workshop::open());
    let [first, second] = libraries(&workshop);
    let swapper = workshop.build("swapper.c", "swapper", &["-ldl"]);
    let rounds = if is_long() {
        Duration::from_secs(20)
    } else {
        Duration::from_millis(500)
    };
    for pause_us in ["100", "1000", "5000"] {
        let mut program = or_skip!(Program::start(&swapper, &[&first, &second, pause_us.as_ref()]));
        let mut writer = program.writer(workshop.path()).unwrap();
        // During dlopen and dlclose the library is not found.
        let found =
            || WritablePlace::validate(&program.find_in("liba.so", "knob").ok()?, Some(ValueType::I32)).ok();
        let place = std::iter::repeat_with(found)
            .take(10_000)
            .flatten()
            .next()
            .unwrap();
        // The library is always mapped at the same address.
        let (mut tries, mut written, mut elsewhere, begin) = (0, 0, 0, Instant::now());
        while begin.elapsed() < rounds {
            tries += 1;
            match writer.set(&place, to(Value::I32(77))) {
                Ok(receipt) => written += usize::from(receipt.outcome == Outcome::Applied),
                Err(WriterError::Write(WriteError::WentElsewhere { .. })) => elsewhere += 1,
                Err(_) => {}
            }
        }
        program.close();
        let line = program.line();
        let wrong: usize = line.strip_prefix("wrong ").unwrap().parse().unwrap();
        let counted = format!(
            "pause {pause_us} us: {tries} tries, {written} written, {elsewhere} not; another library was seen with the value {wrong} times"
        );
        eprintln!("{counted}");
        assert!(wrong <= elsewhere, "{counted}");
    }
}
