//! The end of a session in every state, and what is shown.

use std::io;

use super::vocabulary::*;
use crate::changes::made::SHOWN_MAX;

/// What a session that was too short for a verdict says.
const LAST_AS_LONG: &str = "a verdict takes 3 s to 3.38 min: let the session last longer";

#[test]
fn a_stop_before_anything_ends_the_actuator() {
    let mut it = new();
    gives!(it, stop(), s(1) => [ChangeEffect::Finish]);
    it.on(reverts(&[], &[]), s(1));
    assert_eq!(at_last(&it), "nothing was changed");
}

#[test]
fn a_stop_with_an_order_under_way_takes_its_receipt_and_it_is_put_back() {
    let mut it = after!(new(); decided(1, [R0]), ms(0); stop(), s(1));
    gives!(it, written(1, 0, 1), s(1) => [say_done(1), applied(1)]);
    it.on(reverts(&[change(R0, 1)], &[]), s(1));
    assert_eq!(outcomes(&it), ["reverted"]);
    assert_eq!(at_last(&it), "1 change reverted");
}

#[test]
fn the_newest_change_of_a_process_is_known_until_after_its_end() {
    let it = after!(new(); decided(1, [R0]), s(0); written(1, 0, 1), s(0); decided(2, [R0]), s(1));
    let newest = |it: &Changes, rank| it.last_made(rank).map(|change| (change.number, change.rule));
    assert_eq!(
        newest(&it, R0),
        Some((1, "r".to_owned())),
        "the second has no receipt"
    );
    assert_eq!(newest(&it, R1), None);
    let it = after!(it; written(2, 0, 2), s(1); ChangeEvent::Ended(R0), s(2));
    assert_eq!(newest(&it, R0), Some((2, "r".to_owned())));
}

#[test]
fn a_stop_with_an_unjudged_change_says_so_and_it_is_put_back() {
    for (ending, reason) in [
        (
            Ending::Session,
            format!("the session ended after 2 of 5 windows; {LAST_AS_LONG}"),
        ),
        (
            Ending::Program,
            "the program ended after 2 of 5 windows".to_owned(),
        ),
    ] {
        let mut it = with_one_change();
        let rule = "r".to_owned();
        let said = ChangeEffect::Say(ChangeNotice::NotJudged { rule, reason });
        gives!(it, stop_on_trial(ending, &[1]), s(1) => [said, ChangeEffect::Finish]);
        it.on(reverts(&[change(R0, 1)], &[]), s(1));
        assert_eq!(
            (outcomes(&it), verdicts(&it)),
            (vec!["reverted".to_owned()], vec!["not judged"])
        );
    }
}

#[test]
fn a_stop_while_a_change_is_reverted_to_compare_says_that_it_was_not_judged() {
    let mut it = after!(with_one_change(); compared(1), ms(2); reverted(R0, 1), ms(3));
    let reason = format!("the session ended while the change was reverted to compare; {LAST_AS_LONG}");
    let rule = "r".to_owned();
    let said = ChangeEffect::Say(ChangeNotice::NotJudged { rule, reason });
    gives!(it, stop(), s(1) => [said, ChangeEffect::Finish]);
    it.on(reverts(&[], &[]), s(1));
    assert_eq!(verdicts(&it), ["not judged"]);
    let guard = it.views(&[])[0].guard.clone().unwrap();
    assert_eq!(
        guard.text,
        format!(
            "not judged: the session ended while the change was reverted to compare; {LAST_AS_LONG}; first comparison: pace: 1 -> 2"
        )
    );
}

#[test]
fn a_change_that_is_being_reverted_to_compare_at_the_stop_was_not_judged() {
    let mut it = after!(with_one_change(); compared(1), ms(2); stop(), s(1));
    it.on(reverts(&[change(R0, 1)], &[]), s(1));
    assert_eq!(verdicts(&it), ["not judged"]);
    let guard = it.views(&[])[0].guard.clone().unwrap();
    let reason = format!("the session ended while the change was reverted to compare; {LAST_AS_LONG}");
    assert_eq!(
        guard.text,
        format!("not judged: {reason}; first comparison: pace: 1 -> 2")
    );
}

#[test]
fn a_change_that_is_made_while_the_session_stops_is_not_on_trial() {
    let mut it = after!(new(); decided(1, [R0]), ms(0); stop(), s(1); written(1, 0, 1), s(1));
    let trial = TrialProgress {
        decision: DecisionId(1),
        seen: 0,
        over: 5,
    };
    let guard = it.views(&[trial])[0].guard.clone().unwrap();
    assert_eq!(guard.text, "not judged: the session ended after 0 of 5 windows");
    it.on(reverts(&[change(R0, 1)], &[]), s(1));
    assert_eq!(at_last(&it), "1 change reverted");
}

#[test]
fn a_stop_leaves_what_is_confirmed_and_was_to_stay() {
    let it = after!(with_one_change(); kept(1), ms(2); stop(), s(1); reverts(&[], &[change(R0, 1)]), s(1));
    assert_eq!(outcomes(&it), ["written"]);
    assert_eq!(
        at_last(&it),
        "1 change left in place until app ends. Revert it: tuneagent undo 7"
    );
}

#[test]
fn a_stop_while_a_revert_is_under_way_takes_its_answer() {
    let mut it = after!(with_one_change(); taken_back(1), ms(2); stop(), s(1));
    gives!(it, reverted(R0, 1), s(1) => [say_guard("reverted")]);
    it.on(reverts(&[], &[]), s(1));
    assert_eq!(at_last(&it), "1 change reverted");
}

#[test]
fn a_stop_while_a_revert_waits_to_be_retried_orders_nothing_more_and_its_verdict_holds_once_it_is_back() {
    let mut it = after!(with_one_change(); taken_back(1), s(0); stuck(R0, 1), s(0); stop(), s(1));
    gives!(it, ChangeEvent::Tick, s(2) => []);
    assert_eq!(verdicts(&it), ["not reverted"]);
    it.on(reverts(&[change(R0, 1)], &[]), s(2));
    assert_eq!(verdicts(&it), ["reverted"]);
    assert_eq!(outcomes(&it), ["reverted"]);
}

#[test]
fn a_stop_while_ranks_wait_for_their_meeting_takes_their_receipts() {
    let mut it = after!(new(); decided_together(1, [R0, R1]), ms(0); stop(), s(1);
        hindered(1, 0, "the session ended"), s(1));
    let effects = it.on(hindered(1, 1, "the session ended"), s(1));
    assert_eq!(
        effects,
        [not_now(1, "the session ended"), say_not_done("the session ended")]
    );
    it.on(reverts(&[], &[]), s(1));
    assert_eq!(at_last(&it), "nothing was changed");
}

#[test]
fn a_refused_decision_after_a_stop_is_left_to_the_actuator() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0); written(1, 0, 1), ms(1); stop(), s(1));
    gives!(it, refused(1, 1, "read-only"), s(1) => [not_applied(1, "read-only"), say_not_done("read-only")]);
    it.on(reverts(&[change(R0, 1)], &[]), s(1));
    assert_eq!(at_last(&it), "1 change reverted");
}

#[test]
fn a_failed_revert_is_reported() {
    let not_permitted = io::Error::from_raw_os_error(1);
    let mut it = after!(with_two_changes(); stop(), s(1));
    let actuator_end = MachineReverts {
        reverted: vec![(change(R0, 1), failed("busy", true))],
        failed: vec![NotTried {
            change: change(R1, 1),
            why: ErrorText::new("it cannot be stopped").caused_by(&not_permitted),
            has_ended: false,
        }],
        kept: vec![change(R1, 1)],
    };
    it.on(ChangeEvent::ActuatorEnded(MachineId::HERE, actuator_end), s(1));
    assert_eq!(
        outcomes(&it),
        [
            "not reverted: busy",
            "not reverted: it cannot be stopped: Operation not permitted (os error 1)"
        ]
    );
    assert_eq!(
        at_last(&it),
        "2 changes could not be reverted (tuneagent journal has the reason)"
    );
}

#[test]
fn a_change_that_ended_with_its_process_is_reported_so() {
    let it = after!(with_two_changes(); ChangeEvent::Ended(R0), ms(2); stop(), s(1);
        reverts(&[change(R1, 1)], &[]), s(1));
    assert_eq!(at_last(&it), "1 change reverted; 1 change ended with app");
}

#[test]
fn a_process_that_has_ended_is_no_failure_of_an_unknown_change() {
    let mut it = after!(new(); stop(), s(1));
    for has_ended in [true, false] {
        let actuator_end = MachineReverts {
            failed: vec![NotTried {
                change: change(FAR, 3),
                why: ErrorText::new("it has ended"),
                has_ended,
            }],
            ..MachineReverts::default()
        };
        it.on(ChangeEvent::ActuatorEnded(MachineId::HERE, actuator_end), s(1));
        let expected = match has_ended {
            true => "nothing was changed",
            false => "1 change could not be reverted (tuneagent journal has the reason)",
        };
        assert_eq!(at_last(&it), expected);
    }
}

#[test]
fn an_order_that_was_never_answered_is_reported_at_the_end() {
    let mut it = after!(new(); decided(1, [R0]), ms(0));
    gives!(it, ChangeEvent::Tick, s(600) => [], "its time is the rules' business");
    it.on(stop(), s(601));
    let rule = "r".to_owned();
    let said = ChangeEffect::Say(ChangeNotice::NoAnswer { rule });
    gives!(it, reverts(&[], &[]), s(601) => [said]);
    assert!(!it.is_waiting(DecisionId(1)));
}

#[test]
fn a_machine_that_says_farewell_answers_for_itself_alone() {
    let mut it = after!(new(); decided(1, [R0, FAR]), ms(0); stop(), s(1));
    assert_eq!(it.on(reverts(&[], &[]), s(1)).len(), 1);
    assert!(it.is_waiting(DecisionId(1)), "the other machine has not answered");
    gives!(it, written(1, 1, 4), s(2) => [say_done(1), applied(1)]);
}

#[test]
fn nothing_is_decided_kept_or_given_up_after_a_stop() {
    let mut it = after!(with_one_change(); decided(2, [R0]), ms(2); stop(), s(1));
    let reason = "the session has ended";
    gives!(it, decided(3, [R0]), s(1) => [say_not_done(reason), not_applied(3, reason)]);
    gives!(it, kept(1), s(1) => [say_guard("kept")]);
    gives!(it, ChangeEvent::GaveUp(DecisionId(2)), s(1) => []);
    gives!(it, removed("r", false), s(1) => []);
}

#[test]
fn a_repair_that_a_revert_left_in_place_and_the_end_kept_stays() {
    let it = after!(with_one_change(); taken_back(1), s(0); stuck(R0, 1), s(0); stop(), s(1);
        reverts(&[], &[change(R0, 1)]), s(1));
    assert!(at_last(&it).starts_with("1 change left in place"));
}

// What is shown.

#[test]
fn the_newest_changes_are_shown_and_the_others_counted() {
    let mut it = new();
    let all = SHOWN_MAX as u64 + 3;
    for number in 1..=all {
        it.on(decided(number, [R0]), ms(number));
        it.on(written(number, 0, number), ms(number));
    }
    let views = it.views(&[]);
    assert_eq!((views[0].number, views.len(), it.not_shown()), (4, SHOWN_MAX, 3));
    assert_eq!(
        it.in_force_of("r").count(),
        all as usize,
        "what is not shown is in force all the same"
    );
}

#[test]
fn how_far_a_trial_is_stands_beside_what_was_made() {
    let mut it = with_one_change();
    let (decision, seen, over) = (DecisionId(1), 2, 5);
    let views = it.views(&[TrialProgress { decision, seen, over }]);
    let guard = views[0].guard.clone().unwrap();
    assert_eq!(
        (guard.verdict, guard.text.as_str()),
        (GuardVerdict::OnTrial, "on trial: 2 of 5 windows")
    );
    it.on(kept(1), ms(2));
    let views = it.views(&[TrialProgress { decision, seen, over }]);
    assert_eq!(
        views[0].guard.as_ref().map(|guard| guard.verdict),
        Some(GuardVerdict::Kept)
    );
}

#[test]
fn while_a_change_is_made_again_the_first_result_stands_beside_how_far_its_trial_is() {
    let mut it = with_one_change();
    for (number, seen) in [(2, 0), (3, 1)] {
        it.on(compared(number - 1), ms(2));
        it.on(reverted(R0, number - 1), ms(3));
        it.on(again(number, [R0]), ms(4));
        it.on(written(number, 0, number), ms(5));
        let decision = DecisionId(number);
        let views = it.views(&[TrialProgress {
            decision,
            seen,
            over: 1,
        }]);
        let guard = views[0].guard.clone().unwrap();
        let text = format!("on trial: {seen} of 1 windows; first comparison: pace: 1 -> 2");
        assert_eq!((guard.verdict, guard.text), (GuardVerdict::OnTrial, text));
    }
    it.on(kept(3), ms(6));
    assert_eq!(verdicts(&it), ["kept"]);
}

#[test]
fn a_change_that_was_not_made_has_no_trial() {
    let it = after!(new(); decided(1, [R0]), ms(0); refused(1, 0, "read-only"), ms(1));
    let (decision, seen, over) = (DecisionId(1), 2, 5);
    assert_eq!(it.views(&[TrialProgress { decision, seen, over }])[0].guard, None);
}

#[test]
fn notices_are_lines_that_say_what_they_always_said() {
    let mut it = after!(with_one_change(); taken_back(1), s(0));
    let mut lines: Vec<String> = Vec::new();
    for event in [stuck(R0, 1), reverted(R0, 1)] {
        for effect in it.on(event, s(1)) {
            if let ChangeEffect::Say(notice) = effect {
                lines.push(notice.to_string());
            }
        }
    }
    let process = pid(R0);
    assert_eq!(
        lines,
        [
            format!("revert   change 1 of process {process} is not reverted: busy; it is tried again"),
            "guard    pace: 1 -> 2; not reverted: busy".to_owned(),
            format!("revert   change 1 of process {process}: reverted now"),
            "guard    pace: 1 -> 2; reverted".to_owned(),
        ]
    );
}
