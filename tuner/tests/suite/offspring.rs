//! Processes that are forked while a change is in force have it in their memory: it is taken back there too.

use tuner::journal::{RevertOutcome, StateDir, Status};
use tuner::process::Process;

use crate::actuator::Setting;

#[test]
fn a_value_is_taken_back_in_what_was_forked_while_it_was_in_force() {
    let Some(mut setting) = Setting::forking() else {
        return;
    };
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "20")).unwrap();
    let child: i32 = setting.program.say("fork").parse().unwrap();
    let child = Process::open(child).unwrap().pid;
    assert_eq!(setting.program.say("child"), "20");
    let undone = session.undo(setting.pid(), 1).unwrap();
    assert_eq!(undone.outcome, RevertOutcome::Reverted);
    assert_eq!(
        (setting.program.say("own"), setting.program.say("child")),
        ("10".into(), "10".into())
    );
    let history = StateDir::at(setting.state()).history(child).unwrap();
    let inherited = history.change(1).unwrap();
    assert_eq!(inherited.status, Status::Reverted);
    let why = format!(
        "it was forked from process {} while change 1 was in force there",
        setting.pid()
    );
    assert_eq!(inherited.intent.why, [why]);

    // At the end of the session, in one that was forked meanwhile; the other has a value of its own.
    session.set(setting.write("knob", "30")).unwrap();
    setting.program.say("fork");
    assert_eq!(setting.program.say("child"), "30");
    let farewell = session.shutdown().unwrap();
    assert_eq!(
        (farewell.undone.len(), farewell.failed.len()),
        (2, 0),
        "{farewell:?}"
    );
    assert_eq!(
        (setting.program.say("own"), setting.program.say("child")),
        ("10".into(), "10".into())
    );
    assert!(process.wait().unwrap().success());
}

#[test]
fn what_is_to_stay_stays_in_what_was_forked_too() {
    let Some(mut setting) = Setting::forking() else {
        return;
    };
    let (mut session, mut process) = setting.session(true, &[]);
    session.set(setting.write("knob", "20")).unwrap();
    session.confirm(setting.pid(), 1).unwrap();
    setting.program.say("fork");
    let farewell = session.shutdown().unwrap();
    assert_eq!(
        (farewell.undone.len(), farewell.kept.len()),
        (0, 1),
        "{farewell:?}"
    );
    assert_eq!(setting.program.say("child"), "20");
    assert!(process.wait().unwrap().success());
}

/// It is at the same place, is called the same and holds the same, by chance.
#[test]
fn a_child_that_began_a_program_anew_has_a_value_of_its_own() {
    let Some(mut setting) = Setting::forking() else {
        return;
    };
    setting.program.say("set 11");
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "10")).unwrap();
    setting.program.say("fork");
    assert_eq!(setting.program.say("exec"), "10");
    let farewell = session.shutdown().unwrap();
    assert_eq!(
        (farewell.undone.len(), farewell.failed.len()),
        (1, 0),
        "{farewell:?}"
    );
    assert_eq!(
        (setting.program.say("own"), setting.program.say("child")),
        ("11".into(), "10".into())
    );
    assert!(process.wait().unwrap().success());
}
