//! Tests the conversion of an actuator's reverts at its end.

use tuner::actuator::RevertSummary as Said;
use tuner::{Pid, RevertReceipt};

use super::*;

fn pid(number: i32) -> Pid {
    Pid {
        number,
        start_time: 1,
    }
}

fn refusal(kind: ActuatorRefusalKind) -> Refusal {
    Refusal {
        kind,
        message: "why".to_owned(),
    }
}

fn number(pid_number: i32) -> ChangeNumber {
    ChangeNumber {
        pid: pid(pid_number),
        change: 1,
    }
}

fn reverted_as(outcome: RevertOutcome) -> RevertReceipt {
    RevertReceipt {
        change: 1,
        symbol: "knob".to_owned(),
        outcome,
    }
}

#[test]
fn a_failed_revert_is_a_failure_unless_its_process_has_ended() {
    let reverted = |outcome| Said {
        reverted: vec![(pid(7), reverted_as(outcome))],
        ..Said::default()
    };
    let failed = |kind| Said {
        failed: vec![(number(7), refusal(kind))],
        ..Said::default()
    };
    let refused = |kind| Said {
        refused: vec![(pid(7), refusal(kind))],
        ..Said::default()
    };
    for (said, wanted) in [
        (Said::default(), false),
        (reverted(RevertOutcome::Reverted), false),
        (reverted(RevertOutcome::Failed("stuck".to_owned())), true),
        (failed(ActuatorRefusalKind::Busy), true),
        (failed(ActuatorRefusalKind::Ended), false),
        (refused(ActuatorRefusalKind::NotPermitted), true),
        (refused(ActuatorRefusalKind::Ended), false),
    ] {
        assert_eq!(actuator_end(&said).has_failed, wanted, "{said:?}");
    }
}

#[test]
fn a_process_of_which_nothing_could_be_put_back_is_named_with_the_reason() {
    let said = Said {
        refused: vec![
            (pid(7), refusal(ActuatorRefusalKind::NotPermitted)),
            (pid(8), refusal(ActuatorRefusalKind::Ended)),
        ],
        ..Said::default()
    };
    let why = || "why".to_owned();
    assert_eq!(
        actuator_end(&said).refused,
        [(pid_here(pid(7)), why()), (pid_here(pid(8)), why())]
    );
}

fn not_tried(pid_number: i32, has_ended: bool) -> NotTried {
    NotTried {
        change: here(pid(pid_number), 1),
        why: ErrorText::new("why"),
        has_ended,
    }
}

#[test]
fn the_changes_get_what_was_reverted_what_failed_and_what_is_kept() {
    let said = Said {
        reverted: vec![(pid(7), reverted_as(RevertOutcome::Reverted))],
        failed: vec![
            (number(8), refusal(ActuatorRefusalKind::Ended)),
            (number(9), refusal(ActuatorRefusalKind::Busy)),
        ],
        kept: vec![number(10)],
        ..Said::default()
    };
    let wanted = MachineReverts {
        reverted: vec![(here(pid(7), 1), RevertResult::Reverted)],
        failed: vec![not_tried(8, true), not_tried(9, false)],
        kept: vec![here(pid(10), 1)],
    };
    assert_eq!(actuator_end(&said).reverts, wanted);
}
