//! Function calls at a sync point, by the thread that reaches it.

use std::{io::Write as _, time::Duration};

use plan::{Action, Argument, CallRequest};
use tuner::actuator::{ActCommand, ArmActCommand};
use tuner::journal::{Mechanism, Reason, StateDir, Status};
use tuner::{ActionOutcome, ActionReceipt, Pid};

use crate::target::{Actuator, Busy, Target, alone_as_root, changes, percentile, wait_until};

fn call(pid: Pid, place: &str, value: i64) -> ArmActCommand {
    let request = CallRequest {
        function: "set_knob".into(),
        arguments: vec![Argument::Integer(value)],
        returns: None,
        wait_ms: 20_000,
        thread: None,
        inverse: plan::Inverse::Unstated,
    };
    ArmActCommand {
        act: ActCommand {
            pid,
            action: Action::Call(request),
            reason: Reason::default(),
        },
        at: place.parse().unwrap(),
        within_ms: 60_000,
        answer_ns_max: None,
    }
}

fn called(actuator: &mut Actuator, command: ArmActCommand) -> Result<ActionReceipt, String> {
    let ticket = actuator
        .client()
        .arm_act(command)
        .map_err(|error| error.to_string())?;
    let mut result = None;
    wait_until("the call is over", || {
        let acted = actuator.client().collect().unwrap().acted;
        result = acted.into_iter().find(|(of, _)| *of == ticket);
        result.is_some()
    });
    result.unwrap().1.map_err(|refusal| refusal.to_string())
}

/// The effect of every call must be seen first right after its sync point.
fn all_at_the_right_iteration(case: &str, moment: &str, pace: &str, place: &str) {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(moment, pace);
    let mut actuator = Actuator::start(directory.path(), true);
    let mut holds = Vec::new();
    let count = changes() / 4;
    for value in 1..=count {
        let receipt = called(&mut actuator, call(target.pid(), place, value)).unwrap();
        let ActionOutcome::Returned { result, .. } = &receipt.outcome else {
            panic!("{receipt:?}");
        };
        assert_eq!(
            *result,
            (value - 1).to_string(),
            "it found what the call before had left"
        );
        let passage = receipt.passage.unwrap();
        assert_eq!(
            (receipt.mechanism, passage.thread),
            (Mechanism::Stop, target.running.pid())
        );
        holds.push(passage.hold_ns);
        wait_until("the change is seen", || {
            target.reads("right") + target.reads("wrong") >= value
        });
    }
    holds.sort_unstable();
    let _ = writeln!(
        std::io::stderr(),
        "{case}: {count} calls, {} at a wrong iteration; stopped p50 {} us, most {} us",
        target.reads("wrong"),
        percentile(&holds, 50) / 1000,
        holds[holds.len() - 1] / 1000,
    );
    assert_eq!((target.reads("right"), target.reads("wrong")), (count, 0));
    let journal = StateDir::at(directory.path().to_owned())
        .history(target.pid())
        .unwrap();
    let last = journal.changes().pop().unwrap();
    assert_eq!(
        (
            last.status,
            last.intent.action.sync().unwrap().to_string().as_str()
        ),
        (Status::Done, place)
    );
    target.goes_on();
}

#[test]
fn a_call_at_an_entry_is_made_at_the_right_iteration() {
    if let Some(_alone) = alone_as_root() {
        all_at_the_right_iteration("busy program", "entry", "busy", "entry:step");
        all_at_the_right_iteration("sleeping program", "entry", "sleep", "entry:step");
    }
}

#[test]
fn a_call_at_a_return_is_made_at_the_right_iteration_of_a_busy_machine() {
    if let Some(_alone) = alone_as_root() {
        let _busy = Busy::machine();
        all_at_the_right_iteration("busy machine, at a return", "return", "busy", "return:leave");
    }
}

#[test]
fn the_program_goes_on_whenever_we_are_killed_while_it_calls() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start("entry", "busy");
    for round in 0..changes() / 4 {
        let mut actuator = Actuator::start(directory.path(), true);
        actuator
            .client()
            .arm_act(call(target.pid(), "entry:step", round + 1))
            .unwrap();
        // Sets the time of the kill, between the first hit and the receipt; not a synchronisation.
        std::thread::sleep(Duration::from_micros(round.unsigned_abs() * 137 % 5_000));
        actuator.signal(rustix::process::Signal::KILL);
        drop(actuator);
        target.goes_on();
    }
    // The next actuator settles unfinished calls and can make calls.
    let mut actuator = Actuator::start(directory.path(), true);
    called(&mut actuator, call(target.pid(), "entry:step", -1)).unwrap();
    wait_until("the last one is seen", || target.reads("knob") as i32 == -1);
    target.goes_on();
}
