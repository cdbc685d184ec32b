//! The bytes that a name refers to, verified by the program's own view after a write.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use plan::{Value, ValueType};
use tuner::{Location, VariableError, WritablePlace, WritablePlaceError, WriterError};

use crate::programs::{Program, Workshop, fails, variables_with};

fn library(workshop: &Workshop, flags: &[&str]) {
    workshop.library("libknob.so", 1, "library_view", flags);
}

fn user(workshop: &Workshop, flags: &[&str]) -> PathBuf {
    workshop.build("user.c", "user", &[&["-L.", "-lknob"], flags].concat())
}

fn write(workshop: &Workshop, program: &Program, location: &Location, value: i32) {
    let place = WritablePlace::validate(location, Some(ValueType::I32)).unwrap();
    program.set(workshop.path(), &place, Value::I32(value));
}

#[test]
fn a_variable_that_the_program_copied_is_written_in_the_copy() {
    let workshop = or_skip!(Workshop::open());
    library(&workshop, &["-g"]);
    for flags in [&["-no-pie"][..], &["-pie"]] {
        let mut program = or_skip!(Program::start(&user(&workshop, flags), &[]));
        let location = program.find("knob").unwrap();
        assert_eq!(location.module.file_name(), "user", "{flags:?}");
        assert!(location.is_confirmed, "the library's GOT says so too");
        assert_eq!(
            location.value_type(),
            Some(ValueType::I32),
            "from the library's debug information"
        );
        write(&workshop, &program, &location, 42);
        assert_eq!(program.say("?"), "program=42 library=42");
        assert_eq!(
            program.find_in("libknob", "knob").unwrap().address,
            location.address
        );
    }
}

/// Starts a program whose variable is in this module, writes it, and checks that the program and the library
/// see the value.
fn is_written_in(workshop: &Workshop, program: &mut Program, module: &str) -> Location {
    let location = program.find("knob").unwrap();
    assert_eq!(location.module.file_name(), module);
    write(workshop, program, &location, 42);
    assert_eq!(program.say("?"), "program=42 library=42");
    location
}

#[test]
fn a_variable_that_the_program_reaches_through_its_got_is_written_in_the_library() {
    let workshop = or_skip!(Workshop::open());
    library(&workshop, &[]);
    let mut program = or_skip!(Program::start(&user(&workshop, &["-fPIC"]), &[]));
    assert!(is_written_in(&workshop, &mut program, "libknob.so").is_confirmed);
}

#[test]
fn a_variable_that_the_program_defines_too_is_the_programs() {
    let workshop = or_skip!(Workshop::open());
    library(&workshop, &[]);
    let mut program = or_skip!(Program::start(&user(&workshop, &["-DDEFINES=7"]), &[]));
    is_written_in(&workshop, &mut program, "user");
}

#[test]
fn a_library_that_uses_its_own_in_spite_of_the_programs_makes_two_variables() {
    let workshop = or_skip!(Workshop::open());
    for flags in [&["-Wl,-Bsymbolic"][..], &["-fvisibility=protected"]] {
        library(&workshop, flags);
        let mut program = or_skip!(Program::start(&user(&workshop, &["-DDEFINES=7"]), &[]));
        assert!(
            matches!(program.find("knob"), Err(VariableError::Ambiguous { .. })),
            "{flags:?}"
        );
        let of_library = program.find_in("libknob", "knob").unwrap();
        write(&workshop, &program, &of_library, 42);
        assert_eq!(program.say("?"), "program=7 library=42", "{flags:?}");
        write(&workshop, &program, &program.find_in("user", "knob").unwrap(), 43);
        assert_eq!(program.say("?"), "program=43 library=42");
    }
}

#[test]
fn of_two_libraries_the_one_that_is_searched_first_or_preloaded_has_the_variable() {
    let workshop = or_skip!(Workshop::open());
    library(&workshop, &[]);
    let first = workshop.library("libfirst.so", 9, "other_view", &[]);
    let both = ["-L.", "-fPIC", "-Wl,--no-as-needed", "-lfirst", "-lknob"];
    let path = workshop.build("user.c", "both", &both);
    let searched_first = or_skip!(Program::start(&path, &[]));
    let path = user(&workshop, &["-fPIC"]);
    let preloaded = or_skip!(Program::start_with(&path, &[], &[("LD_PRELOAD", &first)]));
    for mut program in [searched_first, preloaded] {
        assert_eq!(program.say("?"), "program=9 library=9");
        is_written_in(&workshop, &mut program, "libfirst.so");
    }
}

#[test]
fn a_static_program_has_its_variables_too() {
    let workshop = or_skip!(Workshop::open());
    for flags in [&["-static"][..], &["-static-pie"]] {
        let path = workshop.build("variables.c", "variables", flags);
        let mut program = or_skip!(Program::start(&path, &[]));
        write(&workshop, &program, &program.find("knob").unwrap(), 42);
        assert_eq!(program.sees("knob"), "42", "{flags:?}");
    }
}

fn twins(workshop: &Workshop) -> [PathBuf; 2] {
    [("liba.so", 1), ("libb.so", 2)].map(|(name, value)| workshop.library(name, value, "view", &[]))
}

#[test]
fn two_libraries_that_know_nothing_of_each_other_make_the_name_ambiguous() {
    let workshop = or_skip!(Workshop::open());
    let [a, b] = twins(&workshop);
    let path = workshop.build("opener.c", "opener", &["-ldl"]);
    let both: [&Path; 2] = [&a, &b];
    let mut program = or_skip!(Program::start(&path, &both));
    let error = program.find("knob").unwrap_err();
    assert!(
        matches!(&error, VariableError::Ambiguous { places, .. } if places.len() == 2),
        "{error}"
    );
    assert!(
        error.to_string().contains("liba.so at 0x") && error.to_string().contains("libb.so at 0x"),
        "{error}"
    );
    let location = program.find_in("libb.so", "knob").unwrap();
    assert!(location.is_confirmed);
    write(&workshop, &program, &location, 42);
    assert_eq!(program.say("?"), "1 42");
}

#[test]
fn a_library_loaded_later_is_found_when_it_is_the_only_one() {
    let workshop = or_skip!(Workshop::open());
    let [a, _] = twins(&workshop);
    let path = workshop.build("opener.c", "opener", &["-ldl"]);
    let mut program = or_skip!(Program::start(&path, &[&a]));
    write(&workshop, &program, &program.find("knob").unwrap(), 42);
    assert_eq!(program.say("?"), "42");
}

#[test]
fn a_static_variable_of_the_program_is_not_passed_over_for_a_librarys() {
    let workshop = or_skip!(Workshop::open());
    let [a, _] = twins(&workshop);
    let path = workshop.build("opener.c", "opener", &["-ldl", "-DPRIVATE=5"]);
    let mut program = or_skip!(Program::start(&path, &[&a]));
    fails(program.find("knob"), "(static in opener.c)");
    write(
        &workshop,
        &program,
        &program.find_in("opener", "knob").unwrap(),
        42,
    );
    assert_eq!(program.say("?"), "1 private=42");
}

#[test]
fn a_name_that_is_no_variable_is_refused_with_what_it_is() {
    let (_workshop, program) = or_skip!(variables_with(&[]));
    refused!(program.find("own"), VariableError::ThreadLocal { .. });
    refused!(program.find("nothing"), VariableError::NotFound { .. });
    refused!(
        program.find_in("libnone", "knob"),
        VariableError::NoSuchModule { .. }
    );
    let error = program.find("main").unwrap_err();
    assert!(
        error.to_string().ends_with("is not a variable but a function"),
        "{error}"
    );
}

#[test]
fn a_library_with_a_changed_file_is_not_written() {
    let workshop = or_skip!(Workshop::open());
    library(&workshop, &[]);
    let program = or_skip!(Program::start(&user(&workshop, &["-fPIC"]), &[]));
    let location = program.find("knob").unwrap();
    let id = location.module.build_id().unwrap().to_string();
    let path = workshop.path().join("libknob.so");
    let bytes = std::fs::read(&path).unwrap();
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let place = bytes.windows(20).position(|bytes| hexadecimal(bytes) == id);
    let place = place.unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[!bytes[place]], place as u64).unwrap();
    refused!(
        WritablePlace::validate(&location, Some(ValueType::I32)),
        WritablePlaceError::ModuleGone { .. }
    );
}

#[test]
fn a_variable_goes_with_its_library() {
    let workshop = or_skip!(Workshop::open());
    let [a, _] = twins(&workshop);
    let path = workshop.build("opener.c", "opener", &["-ldl"]);
    let mut program = or_skip!(Program::start(&path, &[&a]));
    let location = program.find("knob").unwrap();
    write(&workshop, &program, &location, 42);
    program.say("close");
    refused!(program.find("knob"), VariableError::NotFound { .. });
    refused!(
        WritablePlace::validate(&location, Some(ValueType::I32)),
        WritablePlaceError::ModuleGone { .. }
    );
    let mut writer = program.writer(workshop.path()).unwrap();
    refused!(writer.revert(1), WriterError::ModuleGone { change: 1, .. });
}
