//! The files: what a session writes, and logs of other sessions.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    rc::Rc,
};

use proptest::{collection::vec, prelude::*, sample::Index, test_runner::Config};

use super::*;

/// A log that is written into this text.
fn log(written: &Rc<RefCell<String>>, result: Result<(), io::ErrorKind>) -> Log {
    let written = Rc::clone(written);
    let complete = move |text: &[u8]| {
        *written.borrow_mut() = String::from_utf8_lossy(text).into_owned();
        result.map_err(io::Error::from)
    };
    let file = LogFile::new("session.jsonl".to_owned(), complete);
    Log::new(Some(file), || {
        LogHeader::new("app".to_owned(), ORIGIN, Vec::new(), Time(0))
    })
}

fn note(log: &mut Log, text: String) {
    let mut members = Members::new(ORIGIN, Vec::new(), Time(0));
    log.on(&mut members, MemberEvent::NotMeasured(text), Time(0));
}

#[test]
fn a_log_is_written_once_also_by_a_session_that_fails() {
    let written = Rc::default();
    let mut it = log(&written, Ok(()));
    note(&mut it, "x".to_owned());
    assert_eq!(*written.borrow(), "");
    drop(it);
    assert_eq!(steps(&written.take()).0.len(), 1);
    let mut it = log(&written, Ok(()));
    it.complete().unwrap();
    assert!(is_log(written.take().as_bytes()));
    drop(it);
    assert_eq!(*written.borrow(), "");
    let mut none = Log::default();
    note(&mut none, "x".to_owned());
    none.complete().unwrap();
}

#[test]
fn an_incomplete_log_is_an_error() {
    let written = Rc::default();
    let said = log(&written, Err(io::ErrorKind::StorageFull)).complete();
    assert_eq!(
        said.unwrap_err().to_string(),
        "session.jsonl could not be written: no storage space"
    );
    let mut it = log(&written, Ok(()));
    note(&mut it, "x".repeat(LOG_BYTES_MAX));
    let expected = "1 event left out of session.jsonl: it would have more than 16777216 bytes";
    assert_eq!(it.complete().unwrap_err().to_string(), expected);
}

fn recorded(name: &str) -> (PathBuf, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let file = folder.join(format!("{name}.jsonl"));
    let text = fs::read_to_string(&file).unwrap();
    (file, text)
}

proptest! {
    #![proptest_config(Config { cases: 32, failure_persistence: None, ..Config::default() })]

    /// The file may come from another user.
    #[test]
    fn a_log_that_was_changed_anywhere_is_replayed_or_refused(
        changes in vec((any::<Index>(), prop_oneof![Just("9"), Just("0"), Just("\""), Just("18446744073709551615")]), 1..4),
    ) {
        let (_, text) = recorded("optimal-workers");
        let mut characters: Vec<String> = text.chars().map(String::from).collect();
        for (index, with) in changes {
            let index = index.index(characters.len());
            characters[index] = with.to_owned();
        }
        let changed = characters.concat();
        let (steps, result) = steps(&changed);
        prop_assert_eq!(result.ok().map(|replayed| replayed.events).unwrap_or(steps.len()), steps.len());
    }
}

/// Recorded sessions: LAMMPS repaired, a model's program under MPICH, and one of OpenMP.
#[test]
fn recorded_sessions_replay_to_the_same_effects() {
    for name in ["openmpi-busy-wait", "optimal-workers", "openmp-team-size"] {
        let (file, text) = recorded(name);
        let (steps, result) = steps(&text);
        let replayed = result.unwrap_or_else(|error| panic!("{}:{error}", file.display()));
        assert_eq!((replayed.events, replayed.dropped), (steps.len(), 0));
        let parts = |part| steps.iter().filter(|step| step.part == part).count();
        assert!(parts(LogPart::Members) > 0 && parts(LogPart::Leaving) > 0);
        let events = |event: &str| {
            let of = steps.iter().filter(|step| step.part == LogPart::Changes);
            of.filter(|step| step.event.get(event).is_some()).count()
        };
        for event in [
            "decided",
            "receipt",
            "judged",
            "stop",
            "actuator_ended",
            "summary",
        ] {
            assert!(events(event) > 0, "{name} has no {event}");
        }
        assert!(
            text.contains(&format!("\"rule\":\"{name}\"")),
            "{name} did nothing"
        );
        assert!(text.len() < 100_000, "{name} is too large");
    }
}
