//! The actuator is killed during actions, or ends around a write. The program must continue with correct
//! results, the journal must agree with the memory, and the next writer must revert everything.

use std::time::Duration;

use plan::{Action, Literal, Moment};
use tuneagent_e2e::needs::is_long;
use tuner::Address;
use tuner::actuator::{ActCommand, ActuatorClient, ClientError, SetCommand};
use tuner::journal::{ActionRecord, Reason, Status};

use crate::{
    actuator::{Setting, session},
    underload::{Load, QUIET, argument, call, insert, invertible, remove, replace, take_back},
};

/// Initial level of each thread.
const LEVELS: &str = "levels=3,3,3,3,";

pub(crate) fn actions(load: &Load) -> Vec<Action> {
    vec![
        Action::Call(call("back_i32(7)", None)),
        Action::Call(call("allocate(5000)", None)),
        Action::Call(call("tick()", None)),
        Action::Call(invertible("set_level(9)", "set_level(was)", Some("level_now()"))),
        Action::Load {
            path: load.library(),
            wait_ms: 20_000,
        },
        Action::Patch(replace("sort_a", "sort_b")),
        Action::Patch(replace("part_work", "part_other")),
        Action::Patch(insert("note(5, 0.5, \"noted\")", "step", Moment::Entry)),
        Action::Patch(insert("note(5, 0.5, \"noted\")", "two_returns", Moment::Return)),
        Action::Patch(remove("log_state", None)),
        Action::Patch(argument("send_block", 2, "original * 2")),
        Action::Affinity(plan::Affinity::Cpus("0".parse().unwrap())),
    ]
}

/// Carries out the action, or sets the variable if there is none.
pub(crate) fn act(
    session: &mut ActuatorClient,
    load: &Load,
    action: Option<&Action>,
) -> Result<u64, ClientError> {
    let pid = load.program.process().pid;
    let Some(action) = action.cloned() else {
        let set = SetCommand {
            pid,
            variable: "knob".to_owned(),
            module: None,
            value: Literal::Integer(2),
            value_type: None,
            expect_old: Some(Literal::Integer(1)),
            why: Vec::new(),
            rule: None,
        };
        return Ok(session.set(set)?.change.unwrap_or_default());
    };
    let reason = Reason::default();
    let receipt = session.act(ActCommand { pid, action, reason })?;
    Ok(receipt.change)
}

/// Whether a change is in force in the program, at least in part. `None` if this cannot be seen.
fn is_held(load: &mut Load, action: &ActionRecord) -> Option<bool> {
    if action.inverse().is_some() {
        return Some(load.program.say("levels") != LEVELS);
    }
    let has = |address: Address, new: &[u8]| {
        let mut found = vec![0; new.len()];
        load.program.space().memory().read(address, &mut found).unwrap();
        found == new
    };
    match action {
        ActionRecord::Set(set) => Some(has(set.address, set.new.as_slice())),
        ActionRecord::Patch(patch) => {
            let mut sites = patch.sites.iter();
            Some(sites.any(|site| has(site.address, &site.new.0)))
        }
        ActionRecord::Load(library) => {
            let space = load.program.space();
            Some(space.modules.iter().any(|module| module.path == library.symbol))
        }
        ActionRecord::Affinity(_) | ActionRecord::Call(_) => None,
    }
}

/// Checks the state that the next writer finds, and that it reverts everything.
pub(crate) fn check(load: &mut Load, what: &str) {
    let seen = load.runs();
    assert!(seen.ends_with("errors=0"), "{what}: {seen}");
    let mut writer = load.writer();
    for change in writer.changes() {
        let is_call =
            matches!(change.intent.action, ActionRecord::Call(_)) && change.intent.action.inverse().is_none();
        let settled = match change.status {
            Status::Done => is_call,
            Status::Applied | Status::Superseded { .. } => !is_call,
            Status::Failed | Status::Reverted => true,
            Status::Pending | Status::RevertPending | Status::ChangedSince => false,
        };
        assert!(settled, "{what}: {change:?}");
    }
    // Only for the last change, because later changes may use the same bytes as earlier ones.
    if let Some(last) = writer.changes().last()
        && let Some(held) = is_held(load, &last.intent.action)
    {
        assert_eq!(last.status == Status::Applied, held, "{what}: {last:?}");
    }
    for attempt in writer.revert_all(|_| true).unwrap() {
        attempt.result.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    drop(writer);
    assert_eq!(load.runs(), QUIET, "{what}");
    assert_eq!(load.program.say("levels"), LEVELS, "{what}");
    load.has_its_first_code(what);
}

#[test]
fn an_actuator_killed_between_any_two_steps_leaves_a_program_that_is_right() {
    let mut load = or_skip!(Load::start());
    let actions = actions(&load);
    for action in actions.iter().map(Some).chain([None]) {
        for instant in ["after-intent", "underway", "after-write"] {
            // From the second time on, the instant is in the revert or in a later step.
            for count in 1..=4 {
                let (mut session, mut process) = session(load.state(), false, &[instant, &count.to_string()]);
                let changed = act(&mut session, &load, action);
                if let Ok(change) = changed {
                    let _ = session.revert(load.program.process().pid, change);
                }
                drop(session);
                let killed = !process.wait().unwrap().success();
                check(&mut load, &format!("{action:?} {instant} {count}"));
                if !killed {
                    break;
                }
            }
        }
    }
}

#[test]
fn an_actuator_killed_at_any_instant_leaves_a_program_that_is_right() {
    let mut load = or_skip!(Load::start());
    let actions = actions(&load);
    let rounds = if is_long() { 200 } else { 20 };
    // A fixed pseudo-random sequence; the instants that it hits vary.
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let action = actions.get(round % (actions.len() + 1));
        let (mut session, mut process) = session(load.state(), false, &[]);
        let delay = Duration::from_micros(random % 60_000);
        let pid = load.program.process().pid;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while let Ok(change) = act(&mut session, &load, action) {
                    let stays =
                        matches!(action, Some(Action::Call(call)) if call.inverse == plan::Inverse::Unstated);
                    if session.revert(pid, change).is_err() && !stays {
                        break;
                    }
                }
            });
            std::thread::sleep(delay);
            process.kill().unwrap();
            process.wait().unwrap();
        });
        check(&mut load, &format!("{action:?} after {delay:?}"));
    }
}

/// Kills the actuator at an instant of its `count`-th write or revert.
fn crash(
    setting: &Setting,
    instant: &str,
    count: &str,
    then: impl Fn(&mut ActuatorClient) -> Result<(), ClientError>,
) {
    let (mut session, mut process) = setting.session(false, &[instant, count]);
    refused!(then(&mut session), ClientError::Ended);
    assert!(!process.wait().unwrap().success());
}

#[test]
fn a_crash_between_intent_and_write_is_found_to_have_written_nothing() {
    let mut setting = or_skip!(Setting::new());
    crash(&setting, "after-intent", "1", |session| {
        session.set(setting.write("knob", "11")).map(drop)
    });
    assert_eq!(
        setting.status(1),
        Status::Pending,
        "the journal alone cannot know"
    );
    assert_eq!(setting.program.sees("knob"), "10");
    let writer = setting.program.writer(setting.state()).unwrap();
    assert_eq!(writer.changes()[0].status, Status::Failed);
}

#[test]
fn a_crash_between_write_and_outcome_is_found_to_have_written_and_is_taken_back() {
    let mut setting = or_skip!(Setting::new());
    crash(&setting, "after-write", "1", |session| {
        session.set(setting.write("knob", "11")).map(drop)
    });
    assert_eq!(setting.status(1), Status::Pending);
    assert_eq!(setting.program.sees("knob"), "11");
    let mut writer = setting.program.writer(setting.state()).unwrap();
    assert_eq!(writer.changes()[0].status, Status::Applied);
    take_back(&mut writer, 1);
    assert_eq!(setting.program.sees("knob"), "10");
}

#[test]
fn a_crash_while_taking_back_is_settled_by_the_memory_too() {
    for (instant, seen, status) in [
        ("after-intent", "11", Status::Applied),
        ("after-write", "10", Status::Reverted),
    ] {
        let mut setting = or_skip!(Setting::new());
        crash(&setting, instant, "2", |session| {
            session.set(setting.write("knob", "11"))?;
            session.revert(setting.pid(), 1).map(drop)
        });
        assert_eq!(setting.status(1), Status::RevertPending);
        assert_eq!(setting.program.sees("knob"), seen);
        let writer = setting.program.writer(setting.state()).unwrap();
        assert_eq!(writer.changes()[0].status, status, "{instant}");
    }
}

#[test]
fn after_a_crash_a_value_that_the_program_changed_is_neither() {
    let mut setting = or_skip!(Setting::new());
    crash(&setting, "after-write", "1", |session| {
        session.set(setting.write("knob", "11")).map(drop)
    });
    setting.program.say("set 33");
    let writer = setting.program.writer(setting.state()).unwrap();
    assert_eq!(writer.changes()[0].status, Status::ChangedSince);
    assert_eq!(setting.program.sees("knob"), "33");
}
