//! At the right iteration, whichever way it is written.

use std::io::Write as _;

use tuner::writer::Mechanism;

use crate::target::{Actuator, Busy, Target, alone, at, changes, is_root, percentile, set, wait_until};

/// Changes `knob` again and again at the point (4 bytes: never by the probe itself); all of them must be seen first right behind it, and nearly all at the first hit.
fn all_at_the_right_iteration(case: &str, moment: &str, pace: &str, place: &str) {
    all_by(Mechanism::Rendezvous, case, moment, pace, place);
}

fn all_by(mechanism: Mechanism, case: &str, moment: &str, pace: &str, place: &str) {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(directory.path(), moment, pace);
    let mut actuator = Actuator::start(directory.path(), true);
    let (mut holds, mut at_first, mut misses) = (Vec::new(), 0, 0);
    let count = changes();
    for value in 1..=count {
        let mut command = at(place, set(target.pid(), "knob", value));
        command.by_stop = mechanism == Mechanism::Stop;
        let receipt = actuator.set(command).unwrap();
        let passage = receipt.passage.unwrap();
        assert!(passage.real_time && passage.thread == target.child.id());
        assert_eq!(receipt.mechanism, mechanism);
        holds.push(passage.hold_ns);
        at_first += i64::from(passage.hits == 1);
        misses += passage.misses;
        wait_until("the change is seen", || {
            target.reads("right") + target.reads("wrong") >= value
        });
    }
    holds.sort_unstable();
    let _ = writeln!(
        std::io::stderr(),
        "{case}: {count} changes, {} at a wrong iteration, {at_first} at the first hit, {misses} misses; held p50 {} us, p99 {} us, \
         most {} us",
        target.reads("wrong"),
        percentile(&holds, 50) / 1000,
        percentile(&holds, 99) / 1000,
        holds[holds.len() - 1] / 1000,
    );
    assert_eq!((target.reads("right"), target.reads("wrong")), (count, 0));
    // A hundred are too few to hold a machine to one in a hundred on which others work.
    let most_missed = if count >= 1000 { count / 100 } else { count / 20 };
    assert!(
        count - at_first <= most_missed,
        "{at_first} of {count} at the first hit"
    );
}

#[test]
fn a_set_at_an_entry_is_at_the_right_iteration_of_a_busy_program_as_root() {
    if is_root() {
        let _alone = alone();
        all_at_the_right_iteration("idle machine, busy program", "entry", "busy", "entry:step");
    }
}

#[test]
fn a_set_at_an_entry_is_at_the_right_iteration_of_a_sleeping_program_as_root() {
    if is_root() {
        let _alone = alone();
        all_at_the_right_iteration("idle machine, sleeping program", "entry", "sleep", "entry:step");
    }
}

#[test]
fn a_set_at_an_entry_is_at_the_right_iteration_on_a_busy_machine_as_root() {
    if is_root() {
        let _alone = alone();
        let _busy = Busy::machine();
        all_at_the_right_iteration("busy machine, busy program", "entry", "busy", "entry:step");
        all_at_the_right_iteration("busy machine, sleeping program", "entry", "sleep", "entry:step");
    }
}

#[test]
fn a_set_at_a_return_is_at_the_right_iteration_as_root() {
    if is_root() {
        let _alone = alone();
        all_at_the_right_iteration("at a return", "return", "busy", "return:leave");
    }
}

/// In this process, with an action of the test's own.

#[test]
fn a_set_while_the_thread_is_stopped_is_at_the_right_iteration_as_root() {
    if is_root() {
        let _alone = alone();
        let by_stop = |case, moment, pace, place| all_by(Mechanism::Stop, case, moment, pace, place);
        by_stop("stopped at an entry", "entry", "busy", "entry:step");
        by_stop(
            "stopped at an entry, sleeping program",
            "entry",
            "sleep",
            "entry:step",
        );
        by_stop("stopped at a return", "return", "busy", "return:leave");
        let _busy = Busy::machine();
        by_stop("stopped at an entry, busy machine", "entry", "busy", "entry:step");
    }
}
