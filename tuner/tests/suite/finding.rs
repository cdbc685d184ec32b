//! Paths, C++ and Fortran names, and debug information in all places.

use std::path::PathBuf;

use plan::{Value, ValueType};
use tuneagent_e2e::needs::skip;
use tuneagent_e2e::require_or_return;
use tuner::{Location, VariableError, WritablePlace, WritablePlaceError, WriterError};

use crate::programs::{FLAGS, Program, Workshop, fails, fails_with, source_path, to};
use crate::underload::{call, try_call};

/// Builds the program of two files with these flags.
pub(crate) fn paths(workshop: &Workshop, flags: &[&str]) -> PathBuf {
    let other = source_path("other.c");
    let other = other.to_str().unwrap();
    workshop.build("paths.c", "paths", &[&["-g", other], flags].concat())
}

fn read(program: &Program, name: &str) -> Result<String, VariableError> {
    let location = program.find(name)?;
    let bytes = location.read(program.space().memory())?;
    let value = location
        .value_type()
        .and_then(|of| Value::from_bytes(of, bytes).ok());
    Ok(value.map_or_else(|| bytes.to_string(), |value| value.to_string()))
}

fn write(workshop: &Workshop, program: &Program, location: &Location, value: Value) -> u64 {
    let place = WritablePlace::validate(location, None).unwrap();
    let mut writer = program.writer(workshop.path()).unwrap();
    writer.set(&place, to(value)).unwrap().change.unwrap()
}

/// Writes to each path, checks the program's view under the given name, and reverts.
fn each_is_written(workshop: &Workshop, program: &mut Program, cases: &[(&str, &str)]) {
    for (path, name) in cases {
        let location = program
            .find(path)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let change = write(workshop, program, &location, Value::I32(77));
        assert_eq!(program.sees(name), "77", "{path}");
        let mut writer = program.writer(workshop.path()).unwrap();
        writer.revert(change).unwrap();
    }
}

const PARTS: [(&str, &str); 14] = [
    ("cfg.solver.chunk", "64"),
    ("cfg.solver.tolerance", "0.5"),
    ("cfg.first", "1"),
    ("cfg.whole", "7"),
    ("cfg.parts[0]", "7"),
    ("limits[2]", "30"),
    ("grid[1][2]", "6"),
    ("grid[0,1]", "2"),
    ("table[1].chunk", "2"),
    ("head->value", "1"),
    ("head->next->value", "2"),
    ("head.next.value", "2"),
    ("*counter", "9"),
    ("counter[0]", "9"),
];

#[test]
fn fields_elements_and_what_pointers_lead_to_are_read() {
    let workshop = or_skip!(Workshop::open());
    for (how, flags) in FLAGS {
        let program = or_skip!(Program::start(&paths(&workshop, flags), &[]));
        for (path, expected) in PARTS {
            assert_eq!(read(&program, path).unwrap(), expected, "{path}, {how}");
        }
    }
}

#[test]
fn debug_information_is_found_where_it_was_put() {
    let workshop = or_skip!(Workshop::open());
    let read_all = |how: &str| {
        let program = Program::start(&workshop.path().join("paths"), &[])?;
        for (path, expected) in PARTS {
            let found = read(&program, path).unwrap_or_else(|error| panic!("{how}: {path}: {error}"));
            assert_eq!(found, expected, "{how}: {path}");
        }
        let limit = read(&program, "other.c:limit").unwrap_or_else(|error| panic!("{how}: {error}"));
        assert_eq!(limit, "6", "{how}");
        Some(())
    };
    // Split by the compiler: separate files beside the program, and one file with all of them.
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        paths(&workshop, &[version, "-gsplit-dwarf"]);
        if read_all(&format!("{version}, dwo")).is_none() {
            return;
        }
        let files: Vec<PathBuf> = std::fs::read_dir(workshop.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "dwo"))
            .collect();
        assert_eq!(files.len(), 2, "{files:?}");
        // The dwp tool of binutils does not support later versions.
        if version != "-gdwarf-4" {
            continue;
        }
        if workshop.run("dwp", &["-e", "paths", "-o", "paths.dwp"]).is_none() {
            return;
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        read_all(&format!("{version}, dwp")).unwrap();
        std::fs::remove_file(workshop.path().join("paths.dwp")).unwrap();
    }
    // Separated with objcopy and found by the debug link, with a build id and with a checksum.
    for id in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        paths(&workshop, &[id]);
        for arguments in [
            &["--only-keep-debug", "paths", "paths.debug"][..],
            &["--strip-all", "--add-gnu-debuglink=paths.debug", "paths"],
        ] {
            if workshop.run("objcopy", arguments).is_none() {
                return;
            }
        }
        read_all(id).unwrap();
    }
    // A different file with the same name must be rejected.
    let debug = workshop.path().join("paths.debug");
    let mut bytes = std::fs::read(&debug).unwrap();
    bytes.push(0);
    std::fs::write(&debug, bytes).unwrap();
    let program = Program::start(&workshop.path().join("paths"), &[]).unwrap();
    refused!(program.find("cfg"), VariableError::NotFound { .. });
}

#[test]
fn debug_information_of_the_distribution_is_found_by_build_id() {
    let workshop = or_skip!(Workshop::open());
    let program = or_skip!(Program::start(&paths(&workshop, &[]), &[]));
    let space = program.space();
    let libc = space
        .modules
        .iter()
        .find(|module| module.file_name().starts_with("libc.so"))
        .unwrap();
    let id = libc.build_id().unwrap().to_string();
    let debug = format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    if !std::path::Path::new(&debug).exists() {
        return skip("the C library's debug information (libc6-dbg) is not installed");
    }
    // A static variable of the C library by its source file; the library's symbol table does not have it.
    let location = program.find("malloc.c:mp_.trim_threshold").unwrap();
    assert_eq!(location.value_type(), Some(ValueType::U64));
    assert_eq!(
        read(&program, "malloc.c:mp_.trim_threshold").unwrap(),
        (128 << 10).to_string()
    );
}

#[test]
fn a_pointer_without_a_star_is_refused_with_the_name_of_what_it_points_to() {
    let workshop = or_skip!(Workshop::open());
    let program = or_skip!(Program::start(&paths(&workshop, &[]), &[]));
    fails_with(
        program.place("counter", None),
        "`counter` is a pointer: name the value that it points to, `*counter`",
    );
}

#[test]
fn parts_and_what_pointers_lead_to_are_written_and_taken_back() {
    let workshop = or_skip!(Workshop::open());
    let mut program = or_skip!(Program::start(&paths(&workshop, &[]), &[]));
    let cases = [
        ("cfg.solver.chunk", Value::I32(65), "chunk", "65", "64"),
        ("limits[2]", Value::I32(31), "limit2", "31", "30"),
        ("grid[1][2]", Value::F64(7.5), "grid12", "7.5", "6"),
        ("table[1].chunk", Value::I32(3), "table1", "3", "2"),
        ("cfg.parts[1]", Value::U8(9), "part1", "9", "0"),
        ("head->next->value", Value::I64(22), "value", "22", "2"),
        ("*counter", Value::I32(10), "counter", "10", "9"),
        ("paths.c:limit", Value::I32(50), "limit", "50", "5"),
        ("other.c:limit", Value::I32(60), "other", "60", "6"),
    ];
    for (path, value, name, new, old) in cases {
        let location = program.find(path).unwrap();
        let change = write(&workshop, &program, &location, value);
        assert_eq!(program.sees(name), new, "{path}");
        let mut writer = program.writer(workshop.path()).unwrap();
        writer.revert(change).unwrap();
        assert_eq!(program.sees(name), old, "{path}");
    }
}

#[test]
fn a_value_behind_a_pointer_is_written_where_it_is_now_and_never_where_it_was() {
    let workshop = or_skip!(Workshop::open());
    let mut program = or_skip!(Program::start(&paths(&workshop, &[]), &[]));
    let location = program.find("head->next->value").unwrap();
    let before = location.address;
    program.say("move");
    // The location is from before the move; the validated place follows the current pointers.
    let place = WritablePlace::validate(&location, None).unwrap();
    assert_ne!(place.location().address, before);
    let change = write(&workshop, &program, &location, Value::I64(22));
    assert_eq!(program.sees("value"), "22");
    // Moved between check and write: nothing is written.
    let place = WritablePlace::validate(&location, None).unwrap();
    program.say("move");
    let mut writer = program.writer(workshop.path()).unwrap();
    fails(
        writer.set(&place, to(Value::I64(23))),
        "the program changed a pointer that leads to it",
    );
    assert_eq!(program.sees("value"), "22");
    // Moved since the write: a revert would write into memory with another use.
    refused!(writer.revert(change), WriterError::Moved { .. });
    assert_eq!(program.sees("value"), "22");
}

#[test]
fn paths_that_lead_nowhere_are_refused_with_valid_ones() {
    let workshop = or_skip!(Workshop::open());
    let program = or_skip!(Program::start(&paths(&workshop, &[]), &[]));
    let cases = [
        (
            "cfg.solver.chonk",
            "struct solver has no field `chonk`; it has name, chunk, tolerance, bits",
        ),
        ("cfg.first.x", "short int is not a struct and has no field `x`"),
        ("cfg[1]", "config_t is not an array and has no element `[1]`"),
        ("limits[4]", "element 4 is outside of int[4], which has 0 to 3"),
        ("limits[-1]", "element -1 is outside of int[4]"),
        (
            "grid[1]",
            "double[2][3] needs an index for each of its 2 dimensions",
        ),
        ("*cfg.first", "short int is not a pointer"),
        ("cfg.solver.bits", "the field `bits` is 3 bits of a word"),
        ("nowhere->value", "pointer 1 of 1 on the way to it is null"),
        (
            "head->next->next->value",
            "pointer 3 of 3 on the way to it is null",
        ),
        ("limit", "means 2 different variables"),
        ("nothing.c:limit", "has not loaded `nothing.c`"),
        ("own.chunk", "is thread-local"),
        ("cfg.", "a field's name is missing at column 4"),
    ];
    for (path, expected) in cases {
        fails(program.find(path), expected);
    }
    let error = program.find("limit").unwrap_err().to_string();
    assert!(
        error.contains("static in") && error.contains("other.c") && error.contains("paths.c"),
        "{error}"
    );
    // Read-only data is not written through any path.
    for path in ["fixed.chunk", "to_fixed->chunk"] {
        let error = WritablePlace::validate(&program.find(path).unwrap(), None).unwrap_err();
        assert!(
            matches!(error, WritablePlaceError::ReadOnly { .. }),
            "{path}: {error}"
        );
    }
    let program = or_skip!(Program::start(
        &workshop.build("paths.c", "bare", &[source_path("other.c").to_str().unwrap()]),
        &[],
    ));
    refused!(
        program.find("cfg.solver"),
        VariableError::NoDebugInformation { .. }
    );
    // The symbol table has the source files of static variables.
    assert_eq!(program.find("other.c:limit").unwrap().size, 4);
}

#[test]
fn names_of_cpp_are_written_as_in_the_source() {
    require_or_return!(Cxx);
    let workshop = or_skip!(Workshop::open());
    for (_, flags) in FLAGS {
        let path = workshop.build("classes.cc", "classes", flags);
        let mut program = or_skip!(Program::start(&path, &[]));
        let cases = [
            ("app::Solver::limit", "limit"),
            ("Solver::limit", "limit"),
            ("solver.depth", "depth"),
            ("alias.depth", "depth"),
            ("app::count", "count"),
            ("other::count", "other"),
            ("app::(anonymous namespace)::hidden", "hidden"),
            ("solver.id", "id"),
        ];
        each_is_written(&workshop, &mut program, &cases);
        refused!(program.find("own"), VariableError::ThreadLocal { .. });
    }
}

#[test]
fn names_of_fortran_are_written_in_any_case() {
    require_or_return!(Fortran);
    let workshop = or_skip!(Workshop::open());
    let path = workshop.build("modules.f90", "modules", &["-g"]);
    let mut program = or_skip!(Program::start(&path, &[]));
    let cases = [
        ("config::solver%chunk", "chunk"),
        ("CONFIG::Solver.Chunk", "chunk"),
        ("config::limits[3]", "limits3"),
        ("Config::grid[1,3]", "grid13"),
        ("params::steps", "steps"),
        ("PARAMS.Steps", "steps"),
    ];
    each_is_written(&workshop, &mut program, &cases);
    assert_eq!(read(&program, "params::tolerance").unwrap(), "0.25");
    let cases = [
        (
            "config::limits[1]",
            "element 1 is outside of integer(kind=4)[2:5], which has 2 to 5",
        ),
        ("config::sizes[1]", "is laid out by the running program"),
        (
            "params::nothing",
            "the common block has no field `nothing`; it has tolerance, steps",
        ),
    ];
    for (path, expected) in cases {
        fails(program.find(path), expected);
    }
}

#[test]
fn names_of_rust_are_paths_however_the_compiler_spells_them() {
    let workshop = or_skip!(Workshop::open());
    let spellings: [&[&str]; 2] = [&[], &["-Csymbol-mangling-version=v0"]];
    for flags in spellings {
        let path = workshop.build("settings.rs", "settings", flags);
        let mut program = or_skip!(Program::start(&path, &[]));
        let cases = [
            ("limits::LIMITS.threads", "threads"),
            ("settings::limits::LIMITS.threads", "threads"),
            ("limits::DEPTH.v.value", "depth"),
            ("settings::COUNT", "count"),
        ];
        each_is_written(&workshop, &mut program, &cases);
        assert_eq!(read(&program, "limits::LIMITS.share").unwrap(), "0.5");
        let functions = program.space();
        for (name, instances) in [("Solver::step", 1), ("settings::say", 2)] {
            let found = functions.every_function(&name.into()).unwrap();
            assert_eq!(found.len(), instances, "{name}");
        }
    }
}

#[test]
fn every_copy_of_a_library_is_listed_refused_and_to_be_had_when_all_are_selected() {
    let workshop = or_skip!(Workshop::open());
    // As NumPy and SciPy each include a copy of OpenBLAS.
    let [a, b] = [("libblas_a.so", 1), ("libblas_b.so", 2)]
        .map(|(name, value)| workshop.library(name, value, "view", &["-g"]));
    let path = workshop.build("opener.c", "opener", &["-ldl"]);
    let mut program = or_skip!(Program::start(&path, &[&a, &b]));
    let error = program.find("knob").unwrap_err().to_string();
    assert!(error.contains("means 2 different variables"), "{error}");
    assert!(
        error.contains("libblas_a.so at 0x") && error.contains("4 bytes"),
        "{error}"
    );
    assert!(error.contains("as in `libblas_"), "{error}");
    let all = program.space().every_variable(&"knob".into()).unwrap();
    assert_eq!(all.len(), 2);
    for location in &all {
        write(&workshop, &program, location, Value::I32(42));
    }
    assert_eq!(program.say("?"), "42 42");
    assert_eq!(read(&program, "libblas_b:knob").unwrap(), "42");
}

#[test]
fn a_name_resolves_to_one_function_or_to_the_reason_why_not() {
    require_or_return!(Cxx);
    let workshop = or_skip!(Workshop::open());
    let program = or_skip!(Program::start(
        &workshop.build("classes.cc", "classes", &["-g"]),
        &[]
    ));
    let space = program.space();
    let symbol = |name: &str| {
        space
            .function(&name.into())
            .map(|(_, function)| function.names[0].clone())
    };
    assert_eq!(symbol("app::Solver::step(int)").unwrap(), "_ZN3app6Solver4stepEi");
    assert_eq!(symbol("Solver::step(double)").unwrap(), "_ZN3app6Solver4stepEd");
    assert_eq!(
        symbol("free_function").unwrap(),
        "_Z13free_functionRN3app6SolverEi"
    );
    assert_eq!(symbol("twice").unwrap(), "_Z5twiceIiET_S0_");
    assert_eq!(symbol("classes:main").unwrap(), "main");
    let error = symbol("Solver::step").unwrap_err().to_string();
    assert!(error.contains("means 2 functions"), "{error}");
    assert!(
        error.contains("app::Solver::step(int) in") && error.contains("app::Solver::step(double) in"),
        "{error}"
    );
    assert_eq!(space.every_function(&"Solver::step".into()).unwrap().len(), 2);
    fails(symbol("Solver::stop"), "has a function `Solver::stop`");
    paths(&workshop, &["-O2"]);
    let program = or_skip!(Program::start(&workshop.path().join("paths"), &[]));
    let error = program.space().function(&"half".into()).unwrap_err().to_string();
    assert!(
        error.contains("`half` was inlined and has no code of its own: into step at"),
        "{error}"
    );
    assert!(error.contains("probe step instead"), "{error}");
    // An action says the same of it, not that there is no such function.
    let mut writer = program.writer(workshop.path()).unwrap();
    let called = try_call(&mut writer, call("half(1)", None));
    fails(called, "`half` was inlined and has no code of its own");
}
