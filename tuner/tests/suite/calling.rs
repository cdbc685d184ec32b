//! Calls at a sync point: cases in which they are not made, and the journal's entries. The rendezvous is that
//! of the testee and holds no thread; the agent's tests use the real one, as root.

use plan::{Action, CallRequest};
use tuneagent_e2e::wait::{SOON, wait_for};
use tuner::ActionReceipt;
use tuner::actuator::{ActCommand, ActuatorClient, ArmActCommand};
use tuner::journal::{Reason, Status};

use crate::actuator::{Setting, refusal};
use crate::programs::fails;
use crate::underload;

fn at_main(setting: &Setting, action: Action, within_ms: u64) -> ArmActCommand {
    ArmActCommand {
        act: ActCommand {
            pid: setting.pid(),
            action,
            reason: Reason::default(),
        },
        at: "entry:main".parse().unwrap(),
        within_ms,
        answer_ns_max: None,
    }
}

fn call(text: &str) -> Action {
    Action::Call(CallRequest {
        wait_ms: 1_000,
        ..underload::call(text, None)
    })
}

fn collect(session: &mut ActuatorClient) -> Result<ActionReceipt, String> {
    let receipt = wait_for("a receipt", SOON, || {
        let mut collected = session.collect().unwrap();
        let receipt = collected.acted.pop();
        assert!(receipt.is_none() || collected.acted.is_empty() && collected.left == 0);
        Ok(receipt)
    });
    receipt.unwrap().1.map_err(|refusal| refusal.message)
}

#[test]
fn a_call_is_not_made_if_its_point_is_missed_and_the_journal_has_the_reason() {
    let said = [
        (
            "missed",
            "entry:main was reached 3 times; holding the process there failed 2 times: nothing was called",
        ),
        (
            "never",
            "the program did not reach entry:main within 100 ms: nothing was called",
        ),
        // The held thread does not exist in the program.
        ("done", "thread 7 of process"),
    ];
    for (how, wanted) in said {
        let setting = or_skip!(Setting::new());
        let (mut session, _process) = setting.session(false, &["sync", how]);
        session.arm_act(at_main(&setting, call("getpid()"), 100)).unwrap();
        fails(collect(&mut session), wanted);
        assert_eq!(setting.status(1), Status::Failed, "{how}");
    }
}

#[test]
fn a_call_that_waits_is_let_go_by_word_and_with_the_session() {
    let setting = or_skip!(Setting::new());
    let (mut session, mut process) = setting.session(false, &["sync", "never"]);
    let ticket = session
        .arm_act(at_main(&setting, call("getpid()"), 60_000))
        .unwrap();
    session.disarm(ticket).unwrap();
    let error = collect(&mut session).unwrap_err();
    assert!(
        error.starts_with("the program had not reached entry:main after ")
            && error.ends_with(" ms, when the change was withdrawn: nothing was called"),
        "{error}"
    );
    session
        .arm_act(at_main(&setting, call("getpid()"), 60_000))
        .unwrap();
    drop(session);
    assert!(process.wait().unwrap().success());
    assert_eq!(
        (setting.status(1), setting.status(2)),
        (Status::Failed, Status::Failed)
    );
}

#[test]
fn only_a_call_has_a_place_and_only_where_something_can_hold_the_program() {
    let setting = or_skip!(Setting::new());
    let refused = |session: &mut ActuatorClient, action| {
        refusal(session.arm_act(at_main(&setting, action, 100))).message
    };
    let (mut session, _process) = setting.session(false, &["sync", "never"]);
    let affinity = Action::Affinity(plan::Affinity::Cpus("0".parse().unwrap()));
    assert_eq!(
        refused(&mut session, affinity),
        "only a call has a place in the program"
    );
    assert!(refused(&mut session, call("nobody()")).contains("has no function `nobody`"));
    drop(session);
    let (mut session, _process) = setting.session(false, &[]);
    let message = refused(&mut session, call("getpid()"));
    assert!(message.starts_with("cannot act at a sync point: "), "{message}");
}
