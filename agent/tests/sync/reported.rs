//! Journal entries and output of a change at a sync point, by command and by rule.

use std::io::Write as _;

use probe::KernelRendezvous;
use probe::kernel::LinkChoice;
use tuner::journal::{Mechanism, StateDir, Status};
use tuner::rendezvous::Rendezvous;

use crate::target::{Actuator, Target, alone_as_root, at, set, tuneagent, wait_until};

#[test]
fn a_probe_writes_by_itself_where_it_may_and_else_the_thread_is_held() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start("entry", "busy");
    let mut actuator = Actuator::start(directory.path(), true);
    let rendezvous = KernelRendezvous::new(LinkChoice::Best).unwrap();
    for value in 1..=20 {
        let receipt = actuator
            .set(at("entry:step", set(target.pid(), "wide", value)))
            .unwrap();
        match rendezvous.store_refusal() {
            Some(reason) => {
                assert!(
                    reason.starts_with("the kernel does not permit probes to write into a program"),
                    "{reason}"
                );
                assert_eq!(receipt.mechanism, Mechanism::Rendezvous);
                assert!(receipt.hold_ns > 0);
            }
            None => assert_eq!(receipt.mechanism, Mechanism::Store),
        }
        wait_until("it is seen", || {
            target.reads("right") + target.reads("wrong") == value
        });
    }
    assert_eq!((target.reads("wide"), target.reads("wrong")), (20, 0));
    let _ = writeln!(
        std::io::stderr(),
        "a probe that writes: {:?}",
        rendezvous.store_refusal()
    );
}

#[test]
fn the_journal_says_how_a_change_met_its_sync_point_and_it_is_taken_back_there() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start("entry", "busy");
    let mut actuator = Actuator::start(directory.path(), false);
    let receipt = actuator
        .set(at("entry:step", set(target.pid(), "knob", 7)))
        .unwrap();
    let history = || StateDir::at(directory.path()).history(target.pid()).unwrap();
    let change = history().change(receipt.change.unwrap()).unwrap();
    assert_eq!(change.intent.action.sync(), Some(&"entry:step".parse().unwrap()));
    let how = change.hold.unwrap();
    assert_eq!((how.mechanism, how.passage), (receipt.mechanism, receipt.passage));
    // The end of the session reverts the change, and the program sees this at the same place.
    drop(actuator);
    assert_eq!(history().changes()[0].status, Status::Reverted);
    wait_until("both are seen", || {
        target.reads("right") + target.reads("wrong") == 2
    });
    assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
}

#[test]
fn a_point_that_is_not_reached_is_given_up_and_nothing_is_written() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    // This program never calls step.
    let target = Target::start("return", "busy");
    let mut actuator = Actuator::start(directory.path(), true);
    let mut command = at("entry:step", set(target.pid(), "knob", 7));
    command.within_ms = 50;
    assert_eq!(
        actuator.set(command.clone()),
        Err("the program did not reach entry:step within 50 ms: nothing was written".to_owned())
    );
    // The same when the order is withdrawn.
    command.within_ms = 60_000;
    let ticket = actuator.client().arm(command).unwrap();
    actuator.client().disarm(ticket).unwrap();
    assert!(
        actuator
            .result(ticket)
            .unwrap_err()
            .ends_with("nothing was written")
    );
    assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
    let history = StateDir::at(directory.path()).history(target.pid()).unwrap();
    assert!(
        history
            .changes()
            .iter()
            .all(|change| change.status == Status::Failed)
    );
}

#[test]
fn places_that_are_none_are_refused_with_what_to_say_instead() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start("entry", "busy");
    let mut actuator = Actuator::start(directory.path(), true);
    let mut refusal = |place| actuator.set(at(place, set(target.pid(), "knob", 7))).unwrap_err();
    assert!(refusal("entry:no_such_function").contains("defines a function no_such_function"));
    assert!(refusal("entry:memcpy").contains("memcpy"));
    assert!(refusal("entry:libc:no_such_function").contains("no_such_function"));
    assert_eq!(target.reads("knob"), 0);
}

#[test]
fn a_set_by_hand_at_a_place_says_how_the_program_was_held() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start("entry", "busy");
    let pid = target.running.pid().to_string();
    let (code, said) = tuneagent(directory.path(), &["set", &pid, "knob=7", "--at", "entry:step"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("knob 0 -> 7 (i32), change 1, at entry:step, held in the kernel for "),
        "{said}"
    );
    let (code, journal) = tuneagent(directory.path(), &["journal", &pid]);
    assert_eq!(code, 0, "{journal}");
    assert!(
        journal.contains("at entry:step, held in the kernel for "),
        "{journal}"
    );
    let (code, said) = tuneagent(directory.path(), &["undo", &pid]);
    assert_eq!(code, 0, "{said}");
    wait_until("both are seen", || {
        target.reads("right") + target.reads("wrong") == 2
    });
    assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
    let (code, said) = tuneagent(directory.path(), &["set", &pid, "knob=7", "--at", "step"]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("`step` is not a sync point: expected entry:FUNCTION"),
        "{said}"
    );
}

const RULE: &str = "rule: knob-by-step
about: sets the knob where the program may take it
roles:
  target: exe != \"\"
probes:
  pass: {role: target, entry: step}
windows:
  pulse: {every: 500ms}
tune:
  - finding: the knob is not 5
    set: knob
    role: target
    value: 5
    range: 0 <= value <= 9
    when: count(pass) > 0
    WHEN
";

#[test]
fn a_rule_with_a_place_changes_the_program_there_and_one_for_all_together_does_not() {
    let Some(_alone) = alone_as_root() else { return };
    for (when, said, knob) in [
        ("at: {entry: step}", "1 change written and read back", 5),
        (
            "together: pulse",
            "`pulse` is a time: processes have no place in the program in common there",
            0,
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let rule = directory.path().join("knob.yaml");
        std::fs::write(&rule, RULE.replace("WHEN", when)).unwrap();
        let target = Target::start("entry", "busy");
        let (pid, rule) = (
            target.running.pid().to_string(),
            rule.to_string_lossy().into_owned(),
        );
        let (code, text) = tuneagent(
            directory.path(),
            &format!("attach {pid} --rules none {rule} --apply --plain --duration 4s")
                .split(' ')
                .collect::<Vec<_>>(),
        );
        assert_eq!(code, 0, "{text}");
        assert!(text.contains(said), "{text}");
        // The change was reverted at the end, at the same place.
        let history = StateDir::at(directory.path()).history(target.pid()).unwrap();
        assert_eq!(history.changes().len(), usize::from(knob != 0), "{text}");
        wait_until("all is seen", || {
            target.reads("right") + target.reads("wrong") == if knob == 0 { 0 } else { 2 }
        });
        assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
    }
}
