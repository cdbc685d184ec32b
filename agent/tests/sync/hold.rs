//! Effects of a hold and a stop on the thread, and that both end.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use probe::KernelRendezvous;
use probe::kernel::LinkChoice;
use tuner::VariableName;
use tuner::journal::{StateDir, Status};
use tuner::rendezvous::{HoldRequest, Progress, Rendezvous, Then, ThreadAtSync};

use crate::target::{Actuator, Target, alone_as_root, at, set, wait_until};

/// Arms a sync point in this process, with the test's own action.
fn armed(
    rendezvous: &mut KernelRendezvous,
    target: &Target,
    misses_max: u64,
    action: impl FnOnce(&ThreadAtSync) -> Then + Send + 'static,
) -> tuner::rendezvous::HoldTicket {
    let request = HoldRequest {
        point: target.point("entry:step"),
        answer_ns_max: 50_000_000,
        action_ns_max: 50_000_000,
        misses_max,
        store: None,
        key: None,
    };
    rendezvous.arm(&request, Box::new(action)).unwrap()
}

fn over(rendezvous: &mut KernelRendezvous, ticket: tuner::rendezvous::HoldTicket) -> Progress {
    let mut progress = None;
    wait_until("the action is over", || {
        progress =
            Some(rendezvous.progress(ticket)).filter(|progress| !matches!(progress, Progress::Pending(_)));
        progress.is_some()
    });
    progress.unwrap()
}

#[test]
fn the_thread_executes_nothing_of_the_program_while_it_is_held() {
    let Some(_alone) = alone_as_root() else { return };
    // With both kinds of links.
    for links in LinkChoice::ALL {
        let target = Target::start("entry", "busy");
        let mut rendezvous = KernelRendezvous::new(links).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (space, thread) = (target.space.clone(), target.running.pid());
        let location = space.variable(&VariableName::from("iteration")).unwrap();
        let ticket = armed(&mut rendezvous, &target, 1, move |held| {
            let read = || location.read(space.memory()).unwrap();
            let before = read();
            let until = Instant::now() + Duration::from_millis(5);
            while Instant::now() < until {}
            sender.send((before == read(), held.thread == thread)).unwrap();
            Then::Nothing
        });
        let progress = over(&mut rendezvous, ticket);
        assert_eq!(receiver.recv().unwrap(), (true, true));
        let Progress::Done(passage) = progress else {
            panic!("{progress:?}");
        };
        assert_eq!((passage.hits, passage.misses), (1, 0));
        assert!(passage.hold_ns >= 5_000_000, "{passage:?}");
        target.goes_on();
    }
}

#[test]
fn an_action_that_takes_too_long_is_reported_and_the_program_goes_on_at_the_bound() {
    let Some(_alone) = alone_as_root() else { return };
    let target = Target::start("entry", "busy");
    let mut rendezvous = KernelRendezvous::new(LinkChoice::Best).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    // An action that blocks until the test ends it, as if the actuator hung.
    let ticket = armed(&mut rendezvous, &target, 1, move |_| {
        let _ = receiver.recv();
        Then::Nothing
    });
    wait_until("it is held", || target.reads("iteration") > 0);
    target.goes_on();
    let progress = rendezvous.progress(ticket);
    assert!(
        matches!(progress, Progress::Pending(_)),
        "the action is not over: {progress:?}"
    );
    drop(sender);
    let progress = over(&mut rendezvous, ticket);
    let Progress::Late(passage) = progress else {
        panic!("{progress:?}");
    };
    assert!(passage.hold_ns >= 100_000_000, "{passage:?}");
}

#[test]
fn an_action_that_is_taken_back_is_not_called() {
    let Some(_alone) = alone_as_root() else { return };
    let target = Target::start("return", "busy");
    let mut rendezvous = KernelRendezvous::new(LinkChoice::Best).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    // This program never calls step.
    let ticket = armed(&mut rendezvous, &target, 1, move |_| {
        sender.send(()).unwrap();
        Then::Nothing
    });
    let progress = rendezvous.disarm(ticket);
    assert!(
        matches!(progress, Progress::Pending(passage) if passage.hits == 0),
        "{progress:?}"
    );
    assert!(receiver.recv().is_err(), "the action is gone without having run");
}

/// A program that is held repeatedly, with a stopped actuator that does not answer.
fn held_without_an_answer(directory: &Path) -> (Target, Actuator) {
    use rustix::process::Signal;
    // The time limit of a hold; holds follow each other closely.
    let bound = Duration::from_millis(50);
    let target = Target::start("entry", "busy");
    let mut actuator = Actuator::start(directory, false);
    let program = rustix::process::Pid::from_raw(target.running.pid().cast_signed()).unwrap();
    rustix::process::kill_process(program, Signal::STOP).unwrap();
    let mut command = at("entry:step", set(target.pid(), "knob", 7));
    command.answer_ns_max = Some(u64::try_from(bound.as_nanos()).unwrap());
    actuator.client().arm(command).unwrap();
    actuator.signal(Signal::STOP);
    wait_until("the actuator stands still", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", actuator.child.id())).unwrap();
        stat.contains(") T ")
    });
    rustix::process::kill_process(program, Signal::CONT).unwrap();
    let (mut last, mut since) = (-1, Instant::now());
    wait_until("the program is held", || {
        let now = target.reads("iteration");
        if std::mem::replace(&mut last, now) != now {
            since = Instant::now();
        }
        now > 0 && since.elapsed() > bound / 3
    });
    (target, actuator)
}

#[test]
fn an_actuator_killed_while_the_program_is_held_lets_it_go_on_at_the_bound() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (target, actuator) = held_without_an_answer(directory.path());
    actuator.signal(rustix::process::Signal::KILL);
    target.runs_freely();
    assert_eq!(
        (target.reads("knob"), target.reads("right"), target.reads("wrong")),
        (0, 0, 0)
    );
}

#[test]
fn an_agent_that_dies_while_the_program_is_held_leaves_the_old_value() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (target, mut actuator) = held_without_an_answer(directory.path());
    drop(actuator.client.take());
    actuator.signal(rustix::process::Signal::CONT);
    // The actuator answers the current hold, finds the connection closed, and reverts the change at the same
    // place.
    assert!(actuator.child.wait().unwrap().success());
    target.goes_on();
    assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
    let history = StateDir::at(directory.path()).history(target.pid()).unwrap();
    assert!(
        history
            .changes()
            .iter()
            .all(|change| matches!(change.status, Status::Reverted | Status::Failed))
    );
}
