//! Contents of the journal, access to it, and its state after a crash.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use plan::Value;
use tuner::WriterError;
use tuner::journal::{Journal, JournalError, StateDir};

use crate::programs::{to, variables};

#[test]
fn the_journal_is_private_and_has_everything_about_a_change() {
    let (workshop, program) = or_skip!(variables());
    let state = workshop.path().join("state");
    let place = program.place("knob", None).unwrap();
    let mut request = to(Value::I32(20));
    request.rule = Some("openmpi-busy-wait".to_owned());
    program.writer(&state).unwrap().set(&place, request).unwrap();
    let path = StateDir::at(&state).journal_path(program.process().pid);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&state)), (0o600, 0o700));
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    let intent = &lines[0];
    assert_eq!(intent["record"], "intent");
    assert_eq!(intent["change"], 1);
    assert_eq!(intent["symbol"], "knob");
    assert_eq!(intent["type"], "i32");
    assert_eq!(
        (intent["old"].as_str(), intent["new"].as_str()),
        (Some("0a000000"), Some("14000000"))
    );
    assert_eq!(intent["rule"], "openmpi-busy-wait");
    assert_eq!(intent["target"]["pid"]["number"], program.pid());
    assert_eq!(intent["build_id"].as_str().unwrap().len(), 40);
    assert_eq!(lines[1]["outcome"], "applied");
}

#[test]
fn a_journal_with_a_torn_line_goes_on_behind_it() {
    let (workshop, program) = or_skip!(variables());
    let state = workshop.path();
    let place = program.place("knob", None).unwrap();
    program.set(state, &place, Value::I32(20));
    let path = StateDir::at(state).journal_path(program.process().pid);
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(br#"{"record":"intent","change":2,"#).unwrap();
    assert!(
        StateDir::at(state)
            .history(program.process().pid)
            .unwrap()
            .unreadable[0]
            .is_torn
    );
    let receipt = program.set(state, &place, Value::I32(30));
    assert_eq!(receipt.change, Some(2));
    let history = StateDir::at(state).history(program.process().pid).unwrap();
    assert_eq!((history.changes().len(), history.unreadable.len()), (2, 1));
}

#[test]
fn two_journals_of_one_process_never_give_a_number_twice() {
    let (workshop, program) = or_skip!(variables());
    let state = StateDir::at(workshop.path());
    let place = program.place("knob", None).unwrap();
    program
        .writer(state.path())
        .unwrap()
        .set(&place, to(Value::I32(20)))
        .unwrap();
    let pid = program.process().pid;
    let intent = state.history(pid).unwrap().changes()[0].intent.clone();
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let append = || {
            let mut journal = Journal::open(&state, pid).unwrap();
            (0..50)
                .map(|_| journal.announce(intent.clone()).unwrap())
                .collect::<Vec<u64>>()
        };
        let threads = [scope.spawn(append), scope.spawn(append)];
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (2..=101).collect::<Vec<u64>>());
    // The history in memory, from own lines and lines of other writers, must equal that of the file.
    let mut journals = [0, 1].map(|_| Journal::open(&state, pid).unwrap());
    for turn in [0, 1, 1, 0, 0] {
        journals[turn].announce(intent.clone()).unwrap();
        assert_eq!(*journals[turn].history(), state.history(pid).unwrap());
    }
}

#[test]
fn a_state_directory_that_others_may_write_is_refused() {
    let (workshop, program) = or_skip!(variables());
    let state = workshop.path().join("open");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    refused!(
        program.writer(&state),
        WriterError::Journal(JournalError::Unsafe { .. })
    );
}
