//! Reading of processes, modules, functions and types.

use std::fs;
use std::process::{Command, Stdio};

use plan::{Value, ValueType};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use tuneagent_e2e::lines::succeed;
use tuneagent_e2e::needs::skip;
use tuneagent_e2e::require_or_return;
use tuner::dwarf::{self, ValueKind};
use tuner::{AddressSpace, Image, LinkAddress, Pid, Process, ProcessError, WritablePlace};

use crate::programs::{AT_A_CHOSEN_ADDRESS, FLAGS, Program, Workshop, fails, to};

#[test]
fn a_process_shows_what_it_is() {
    let workshop = or_skip!(Workshop::open());
    let path = workshop.build("variables.c", "a (b) c", &[]);
    let program = or_skip!(Program::start(&path, &[]));
    let process = program.process();
    assert_eq!(process.name, "a (b) c");
    assert_eq!(process.executable, fs::canonicalize(&path).unwrap());
    assert_eq!(process.arguments, [path.to_string_lossy()]);
    assert_eq!(process.parent, std::process::id().cast_signed());
    assert!(
        process
            .environment()
            .unwrap()
            .iter()
            .any(|line| line.starts_with("LD_LIBRARY_PATH="))
    );
    assert!(process.is_alive());
}

#[test]
fn a_process_that_ended_is_reported_and_its_number_is_not_taken_for_it() {
    let workshop = or_skip!(Workshop::open());
    let mut program = or_skip!(Program::start(
        &workshop.build("variables.c", "variables", &[]),
        &[]
    ));
    let process = program.process();
    let other = Pid {
        start_time: process.pid.start_time + 1,
        ..process.pid
    };
    assert!(!other.is_alive());
    refused!(other.open(), ProcessError::Ended { .. });
    program.end();
    assert!(!process.is_alive());
    refused!(process.pid.open(), ProcessError::Ended { .. });
    assert!(
        matches!(AddressSpace::read(&process, &program.images), Err(error) if error.to_string().contains("process"))
    );
}

#[test]
fn a_zombie_is_refused() {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id().cast_signed();
    // Waits for the end without reaping the process.
    let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_raw(pid).unwrap());
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(id, options).unwrap();
    refused!(Process::open(pid), ProcessError::Zombie { .. });
    child.wait().unwrap();
}

#[test]
fn a_thread_of_the_kernel_is_refused() {
    // kthreadd has pid 2, except inside a pid namespace.
    match Process::open(2) {
        Err(ProcessError::KernelThread { name, .. }) => assert_eq!(name, "kthreadd"),
        _ => skip("process 2 is not a kernel thread here"),
    }
}

#[test]
fn the_program_comes_first_then_its_libraries_in_the_linkers_order() {
    let workshop = or_skip!(Workshop::open());
    workshop.library("libknob.so", 1, "library_view", &[]);
    let path = workshop.build("user.c", "user", &["-L.", "-lknob"]);
    let program = or_skip!(Program::start(&path, &[]));
    let space = program.space();
    let names: Vec<&str> = space.modules.iter().map(|module| module.file_name()).collect();
    assert_eq!(names[..2], ["user", "libknob.so"], "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("libc.so")));
    assert!(space.modules[0].is_executable);
    assert!(space.modules[1].build_id().is_some());
    assert_eq!(
        space.modules[1].probe_path().unwrap(),
        fs::canonicalize(workshop.path().join("libknob.so")).unwrap()
    );
}

#[test]
fn a_file_that_was_written_to_since_it_was_read_is_not_probed() {
    let workshop = or_skip!(Workshop::open());
    let path = workshop.build("variables.c", "variables", &[]);
    let program = or_skip!(Program::start(&path, &[]));
    let space = program.space();
    let module = space.executable().unwrap();
    assert!(module.probe_path().is_ok());
    // Overwritten in place, as some installers do, so the inode is the same.
    drop(program);
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, &[0]).unwrap();
    fails(module.probe_path(), "was written to since it was read");
}

#[test]
fn a_file_that_is_mapped_as_data_is_no_second_module() {
    let workshop = or_skip!(Workshop::open());
    let library = workshop.library("libknob.so", 1, "library_view", &[]);
    let path = workshop.build("user.c", "user", &["-L.", "-lknob", "-fPIC"]);
    let program = or_skip!(Program::start(&path, &[&library]));
    let space = program.space();
    let starts = space
        .maps
        .iter()
        .filter(|map| map.offset.0 == 0 && map.to_string().contains("libknob"));
    assert_eq!(starts.count(), 2, "it is loaded, and mapped as data");
    assert_eq!(space.modules_called("libknob").count(), 1);
    assert!(space.unreadable.is_empty(), "{:?}", space.unreadable);
}

#[test]
fn a_library_that_was_deleted_after_it_was_loaded_is_found_with_checkpoint_restore() {
    // Only root may use /proc/PID/map_files.
    require_or_return!(Root);
    let workshop = or_skip!(Workshop::open());
    let library = workshop.library("libknob.so", 1, "library_view", &[]);
    let path = workshop.build("user.c", "user", &["-L.", "-lknob", "-fPIC"]);
    let program = or_skip!(Program::start(&path, &[]));
    fs::remove_file(&library).unwrap();
    workshop.library("libknob.so", 2, "library_view", &[]);
    // Drops capabilities of this thread only. Without CAP_CHECKPOINT_RESTORE and CAP_SYS_ADMIN the file
    // cannot be opened, and the error names the former.
    let all = capabilities(None).unwrap();
    for (dropped, is_found) in [
        (
            CapabilitySet::CHECKPOINT_RESTORE | CapabilitySet::SYS_ADMIN,
            false,
        ),
        (CapabilitySet::SYS_ADMIN, true),
    ] {
        let effective = all.effective - dropped;
        set_capabilities(None, CapabilitySets { effective, ..all }).unwrap();
        let space = program.space();
        assert_eq!(
            space.modules_called("libknob").count(),
            usize::from(is_found),
            "{dropped:?}"
        );
        let said = space
            .unreadable
            .iter()
            .any(|error| error.to_string().contains("CAP_CHECKPOINT_RESTORE"));
        assert_eq!(said, !is_found, "{:?}", space.unreadable);
    }
    set_capabilities(None, all).unwrap();
    let space = program.space();
    let module = space.modules_called("libknob").next().unwrap();
    assert!(module.deleted);
    let probe = module.probe_path().unwrap();
    assert!(
        probe.starts_with("/proc"),
        "the plain path is another file now: {}",
        probe.display()
    );
    assert_eq!(
        fs::metadata(probe).unwrap().len(),
        module.image.file().metadata().unwrap().len()
    );
    assert_eq!(program.find("knob").unwrap().module.path, module.path);
}

#[test]
fn a_function_is_found_where_the_file_has_it() {
    let workshop = or_skip!(Workshop::open());
    for flags in [&["-pie"][..], &["-no-pie"], &["-Wl,-z,noseparate-code"]] {
        let path = workshop.build("variables.c", "variables", flags);
        let program = or_skip!(Program::start(&path, &[]));
        let space = program.space();
        let module = space.executable().unwrap();
        let functions = module.image.functions(&["main", "knob", "nothing"]).unwrap();
        assert_eq!(functions.len(), 1, "{functions:?}");
        let main = &functions[0];
        let mut loaded = [0; 16];
        space
            .memory()
            .read(module.address(main.address), &mut loaded)
            .unwrap();
        let file = fs::read(&path).unwrap();
        assert_eq!(file[main.offset.0 as usize..][..16], loaded, "{flags:?}");
    }
}

#[test]
fn a_program_at_a_chosen_address_has_its_symbols_where_its_file_lists_them() {
    let workshop = or_skip!(Workshop::open());
    let path = workshop.build("variables.c", "variables", &AT_A_CHOSEN_ADDRESS);
    let program = or_skip!(Program::start(&path, &[]));
    let listing = succeed(Command::new("nm").arg(&path)).unwrap();
    let listed = |name: &str| {
        let mut rows = listing.lines().map(|row| row.split(' ').collect::<Vec<_>>());
        let row = rows.find(|row| row.last() == Some(&name)).unwrap();
        u64::from_str_radix(row[0], 16).unwrap()
    };
    let space = program.space();
    let (module, main) = space.function(&"main".into()).unwrap();
    let found = [
        module.address(main.address).0,
        program.find("knob").unwrap().address.0,
    ];
    assert_eq!(found, ["main", "knob"].map(listed));
    assert!(found.iter().all(|address| address >> 20 == 0x100), "{found:x?}");
}

#[test]
fn types_come_from_the_debug_information() {
    let workshop = or_skip!(Workshop::open());
    for (how, flags) in FLAGS {
        let program = or_skip!(Program::start(
            &workshop.build("variables.c", "variables", flags),
            &[]
        ));
        let value_type = |name| program.find(name).unwrap().value_type();
        assert_eq!(value_type("knob"), Some(ValueType::I32), "{how}");
        assert_eq!(value_type("rate"), Some(ValueType::F64));
        assert_eq!(value_type("ratio"), Some(ValueType::F32));
        assert_eq!(value_type("flag"), Some(ValueType::Bool));
        assert_eq!(value_type("byte"), Some(ValueType::U8));
        assert_eq!(value_type("narrow"), Some(ValueType::I16));
        assert_eq!(value_type("wide"), Some(ValueType::U64));
        assert_eq!(value_type("hidden"), Some(ValueType::I32), "static, and volatile");
        let kind = |name| program.find(name).unwrap().variable_type().unwrap().kind;
        assert_eq!(kind("shade"), ValueKind::Enum);
        assert_eq!(kind("pointer"), ValueKind::Pointer);
        assert_eq!(kind("array"), ValueKind::Compound);
    }
}

#[test]
fn parameters_are_shown_with_their_registers_as_far_as_they_can() {
    let workshop = or_skip!(Workshop::open());
    let file = workshop.build("variables.c", "variables", &["-g"]);
    let image = Image::read(std::fs::File::open(file).unwrap()).unwrap();
    let function = image.functions(&["mixed"]).unwrap().remove(0);
    let parameters = dwarf::parameters(&image, function.address).unwrap().unwrap();
    let reported: Vec<(u8, ValueKind, u64)> = parameters
        .iter()
        .map(|parameter| (parameter.register, parameter.of.kind, parameter.of.size))
        .collect();
    // The double is in a floating-point register and does not advance the index of integer registers.
    let expected = [
        (0, ValueKind::Signed, 4),
        (0, ValueKind::Float, 8),
        (1, ValueKind::Unsigned, 1),
        (2, ValueKind::Pointer, 8),
    ];
    assert_eq!(reported, expected);
    let nothing = dwarf::parameters(&image, LinkAddress(1)).unwrap();
    assert_eq!(nothing, None);
}

#[test]
fn a_file_is_read_once_until_it_is_written_and_a_new_one_of_its_name_is_another() {
    let workshop = or_skip!(Workshop::open());
    workshop.library("libknob.so", 1, "library_view", &[]);
    let user = workshop.build("user.c", "user", &["-L.", "-lknob"]);
    let program = or_skip!(Program::start(&user, &[]));
    let library = workshop.path().join("libknob.so");
    let image = || {
        let space = program.space();
        let module = space.modules_called("libknob.so").next().unwrap();
        std::sync::Arc::clone(&module.image)
    };
    let first = image();
    assert!(std::sync::Arc::ptr_eq(&first, &image()));
    // The same file with another modification time must be read again.
    let file = fs::File::options().append(true).open(&library).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let written = image();
    assert!(!std::sync::Arc::ptr_eq(&first, &written));
    // Another file with this name; the program still uses the old one.
    let other = workshop.build("part.c", "other.so", &["-shared", "-fPIC"]);
    fs::rename(other, &library).unwrap();
    assert!(std::sync::Arc::ptr_eq(&written, &image()));
}

#[test]
fn a_scrambled_list_of_the_dynamic_linker_leads_to_the_right_write_or_to_none() {
    let workshop = or_skip!(Workshop::open());
    let path = workshop.build("scrambled.c", "scrambled", &["-Wl,-z,now", "-g"]);
    let mut program = or_skip!(Program::start(&path, &[]));
    let (mut was, mut written) = (10, 0);
    for seed in 11..311 {
        assert_eq!(program.say(&seed.to_string()), "scrambled");
        let process = program.process();
        let set = AddressSpace::read(&process, &program.images)
            .ok()
            .and_then(|space| {
                // Without a write, too: lookups may return errors only.
                let _ = (space.functions(&["step"]), space.is_linked());
                let mut writer = program.writer(workshop.path()).ok()?;
                let place = WritablePlace::validate(&space.variable(&"knob".into()).ok()?, None).ok()?;
                writer.set(&place, to(Value::I32(seed))).ok()
            });
        if set.is_some() {
            (was, written) = (seed, written + 1);
        }
        assert_eq!(program.sees("knob"), was.to_string(), "seed {seed}");
    }
    assert!((100..300).contains(&written), "{written} of 300 were written");
    program.end();
}
