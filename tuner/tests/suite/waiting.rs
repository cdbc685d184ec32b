//! Changes at a sync point: writes, refusals, reverts, and the journal's entries. The rendezvous is that of
//! the testee and holds no thread; the agent's tests use the real one, as root.

use std::path::PathBuf;
use std::process::Child;

use plan::{Action, ValueType};
use tuneagent_e2e::wait::{SOON, wait_for, wait_until};
use tuner::actuator::{
    ActCommand, ActuatorClient, ArmCommand, ChangeNumber, ClientError, RevertSummary, SetCommand,
};
use tuner::journal::{Mechanism, Reason, RevertOutcome, Status};
use tuner::{Receipt, RevertReceipt};

use crate::actuator::{Setting, refusal};
use crate::programs::writes_back;

fn at_main(set: SetCommand) -> ArmCommand {
    ArmCommand {
        set,
        at: "entry:main".parse().unwrap(),
        within_ms: 30_000,
        answer_ns_max: None,
        by_stop: false,
    }
}

/// Waits for the only receipt.
fn collect(session: &mut ActuatorClient) -> Result<Receipt, String> {
    let receipt = wait_for("a receipt", SOON, || {
        let mut collected = session.collect().unwrap();
        let receipt = collected.finished.pop();
        assert!(receipt.is_none() || collected.finished.is_empty() && collected.left == 0);
        Ok(receipt)
    });
    receipt.unwrap().1.map_err(|refusal| refusal.message)
}

fn scripted(setting: &Setting, how: &str) -> (ActuatorClient, Child) {
    setting.session(false, &["sync", how])
}

/// A session for which the place is reached while the file `gate` exists.
fn gated(setting: &Setting) -> (PathBuf, ActuatorClient, Child) {
    let gate = setting.state().join("gate");
    let (session, process) = scripted(setting, gate.to_str().unwrap());
    (gate, session, process)
}

/// Numbers and outcomes of reverts, in their order.
fn outcomes(summary: &RevertSummary) -> Vec<(u64, RevertOutcome)> {
    let of = |(_, one): &(_, RevertReceipt)| (one.change, one.outcome.clone());
    summary.reverted.iter().map(of).collect()
}

#[test]
fn a_change_that_met_its_sync_point_is_written_and_the_journal_says_how() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, mut process) = scripted(&setting, "done");
    session.arm(at_main(setting.write("knob", "11"))).unwrap();
    let receipt = collect(&mut session).unwrap();
    assert_eq!(
        (receipt.mechanism, receipt.hold_ns),
        (Mechanism::Rendezvous, 25_000)
    );
    assert_eq!(setting.program.sees("knob"), "11");
    let change = setting.history().change(1).unwrap();
    assert_eq!(
        (change.status, change.hold.unwrap().passage.unwrap().misses),
        (Status::Applied, 2)
    );
    assert_eq!(change.intent.action.sync().unwrap().to_string(), "entry:main");
    drop(session);
    assert!(process.wait().unwrap().success());
    setting.ends_with("10", Status::Reverted);
}

#[test]
fn a_change_without_an_answer_is_never_written() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = scripted(&setting, "missed");
    session.arm(at_main(setting.write("knob", "11"))).unwrap();
    assert_eq!(
        collect(&mut session),
        Err(
            "entry:main was reached 6 times; holding the process there failed 4 times: nothing was written"
                .to_owned()
        )
    );
    setting.ends_with("10", Status::Failed);
}

#[test]
fn a_change_at_an_unknown_iteration_is_reverted_and_reported() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = scripted(&setting, "late");
    session.arm(at_main(setting.write("knob", "11"))).unwrap();
    let refusal = collect(&mut session).unwrap_err();
    assert!(
        refusal.contains("had to be let go from entry:main") && refusal.ends_with("it was reverted"),
        "{refusal}"
    );
    setting.ends_with("10", Status::Reverted);
}

#[test]
fn a_change_is_announced_anew_when_the_program_wrote_the_variable_while_it_waited() {
    let mut setting = or_skip!(Setting::new());
    let (gate, mut session, _process) = gated(&setting);
    session.arm(at_main(setting.write("knob", "11"))).unwrap();
    assert_eq!(session.collect().unwrap().left, 1);
    setting.program.say("set 33");
    std::fs::write(&gate, "").unwrap();
    let receipt = collect(&mut session).unwrap();
    assert_eq!(receipt.change, Some(2));
    assert_eq!(setting.program.sees("knob"), "11");
    assert_eq!(
        (setting.status(1), setting.status(2)),
        (Status::Failed, Status::Applied)
    );
    assert_eq!(
        session.revert(setting.pid(), 2).unwrap().outcome,
        RevertOutcome::Reverted
    );
    assert_eq!(setting.program.sees("knob"), "33");
}

#[test]
fn a_library_unloaded_while_a_change_waited_is_not_written() {
    let mut setting = or_skip!(Setting::with_library());
    let (gate, mut session, _process) = gated(&setting);
    let mut write = setting.write("knob", "11");
    write.value_type = Some(ValueType::I32);
    session.arm(at_main(write)).unwrap();
    setting.program.say("close");
    std::fs::write(&gate, "").unwrap();
    let refusal = collect(&mut session).unwrap_err();
    assert!(
        refusal.ends_with("is no longer where it was: nothing was written"),
        "{refusal}"
    );
    assert_eq!(setting.status(1), Status::Failed);
}

#[test]
fn a_library_is_unloaded_after_the_variables_in_it_were_taken_back_at_their_sync_point() {
    let setting = or_skip!(Setting::new());
    let library = setting.workshop.library("liba.so", 1, "view", &[]);
    let library = library.to_string_lossy().into_owned();
    let (mut session, _process) = scripted(&setting, "done");
    let load = Action::Load {
        path: library.clone(),
        wait_ms: 20_000,
    };
    let command = ActCommand {
        pid: setting.pid(),
        action: load,
        reason: Reason::default(),
    };
    assert_eq!(session.act(command).unwrap().change, 1);
    let mut write = setting.write("knob", "11");
    write.module = Some(library);
    write.value_type = Some(ValueType::I32);
    session.arm(at_main(write)).unwrap();
    assert_eq!(collect(&mut session).unwrap().change, Some(2));
    let summary = session.revert_all(&[setting.pid()]).unwrap();
    assert_eq!(
        outcomes(&summary),
        [2, 1].map(|number| (number, RevertOutcome::Reverted))
    );
}

#[test]
fn a_waiting_change_is_dropped_by_command_at_its_deadline_and_at_the_end_of_the_session() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, mut process) = scripted(&setting, "/no/such/gate");
    let ticket = session.arm(at_main(setting.write("knob", "11"))).unwrap();
    session.disarm(ticket).unwrap();
    let error = collect(&mut session).unwrap_err();
    assert!(
        error.starts_with("the program had not reached entry:main after ")
            && error.ends_with(" ms, when the change was withdrawn: nothing was written"),
        "{error}"
    );
    let mut short = at_main(setting.write("knob", "11"));
    short.within_ms = 1;
    session.arm(short).unwrap();
    assert_eq!(
        collect(&mut session),
        Err("the program did not reach entry:main within 1 ms: nothing was written".to_owned())
    );
    session.arm(at_main(setting.write("knob", "11"))).unwrap();
    drop(session);
    assert!(process.wait().unwrap().success());
    assert_eq!(setting.program.sees("knob"), "10");
    assert!((1..=3).all(|change| setting.status(change) == Status::Failed));
}

#[test]
fn a_change_that_cannot_be_reverted_at_its_sync_point_stays_and_is_reported() {
    let mut setting = or_skip!(Setting::new());
    let (gate, mut session, mut process) = gated(&setting);
    std::fs::write(&gate, "").unwrap();
    session.arm(at_main(setting.write("knob", "11"))).unwrap();
    collect(&mut session).unwrap();
    std::fs::remove_file(&gate).unwrap();
    let summary = session.shutdown().unwrap();
    assert!(process.wait().unwrap().success());
    let [(1, RevertOutcome::Failed(why))] = &outcomes(&summary)[..] else {
        panic!("{summary:?}")
    };
    assert!(
        why.starts_with("the program did not reach entry:main within ")
            && why.ends_with(" s: nothing was written"),
        "{why}"
    );
    assert_eq!(summary.kept.len(), 1);
    setting.ends_with("11", Status::Applied);
}

/// Makes three changes at a sync point.
fn changed_three_times(setting: &Setting) -> (PathBuf, ActuatorClient, Child) {
    let (gate, mut session, process) = gated(setting);
    std::fs::write(&gate, "").unwrap();
    for (number, value) in [(1, "11"), (2, "12"), (3, "13")] {
        session.arm(at_main(setting.write("knob", value))).unwrap();
        assert_eq!(collect(&mut session).unwrap().change, Some(number));
    }
    (gate, session, process)
}

#[test]
fn changes_that_followed_each_other_are_taken_back_in_one_passage_of_their_sync_point() {
    let mut setting = or_skip!(Setting::new());
    let (_, session, mut process) = changed_three_times(&setting);
    let summary = session.shutdown().unwrap();
    assert!(process.wait().unwrap().success());
    assert_eq!(
        outcomes(&summary),
        [3, 2, 1].map(|number| (number, RevertOutcome::Reverted))
    );
    assert_eq!(summary.kept, []);
    assert_eq!(setting.program.sees("knob"), "10");
    assert!((1..=3).all(|change| setting.status(change) == Status::Reverted));
    assert_eq!(writes_back(setting.state(), setting.pid()), 1);
}

#[test]
fn changes_that_are_requested_by_their_numbers_are_taken_back_in_one_passage() {
    let mut setting = or_skip!(Setting::new());
    let (_, mut session, _process) = changed_three_times(&setting);
    let pid = setting.pid();
    let mut revert = |changes: &[u64]| {
        let numbers: Vec<_> = changes
            .iter()
            .map(|change| ChangeNumber { pid, change: *change })
            .collect();
        let outcome = |one: Result<RevertReceipt, ClientError>| {
            one.map(|reverted| reverted.outcome)
                .map_err(|error| error.to_string())
        };
        session
            .revert_each(&numbers)
            .0
            .into_iter()
            .map(outcome)
            .collect::<Vec<_>>()
    };
    let over = |change| {
        Err(format!(
            "change {change} is not in force: it was reverted already"
        ))
    };
    assert_eq!(
        revert(&[2, 3]),
        [Ok(RevertOutcome::Reverted), Ok(RevertOutcome::Reverted)]
    );
    assert_eq!(setting.program.sees("knob"), "11");
    assert_eq!(revert(&[3, 1]), [over(3), Ok(RevertOutcome::Reverted)]);
    assert_eq!(setting.program.sees("knob"), "10");
    assert_eq!(writes_back(setting.state(), setting.pid()), 2);
}

#[test]
fn a_crash_while_several_are_taken_back_in_one_passage_is_settled_by_the_memory() {
    for (found, statuses) in [
        // Without a hit, the last change is still in force, and all can be reverted.
        (
            "13",
            [
                Status::Superseded { by: 2 },
                Status::Superseded { by: 3 },
                Status::Applied,
            ],
        ),
        // After the hit, the value before the first change is back.
        ("10", [Status::Reverted; 3]),
        (
            "33",
            [
                Status::Superseded { by: 2 },
                Status::Applied,
                Status::ChangedSince,
            ],
        ),
    ] {
        let mut setting = or_skip!(Setting::new());
        let (gate, session, mut process) = changed_three_times(&setting);
        std::fs::remove_file(&gate).unwrap();
        let leaving = std::thread::spawn(move || session.shutdown());
        wait_until("the revert", SOON, || {
            Ok(setting.status(3) == Status::RevertPending)
        })
        .unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(leaving.join().unwrap().is_err());
        if found != "13" {
            setting.program.say(&format!("set {found}"));
        }
        assert_eq!(setting.program.sees("knob"), found);
        let writer = setting.program.writer(setting.state()).unwrap();
        let settled: Vec<Status> = writer.changes().iter().map(|change| change.status).collect();
        assert_eq!(settled, statuses, "{found}");
    }
}

#[test]
fn without_a_rendezvous_a_change_with_a_place_is_refused_and_nothing_is_written() {
    let mut setting = or_skip!(Setting::new());
    let (mut session, _process) = setting.session(false, &[]);
    assert_eq!(
        refusal(session.arm(at_main(setting.write("knob", "11")))).message,
        "cannot act at a sync point: no rule of this session needed a place when it began, so it gave up the right to probe"
    );
    setting.ends_with("10", Status::Failed);
}
