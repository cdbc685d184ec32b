//! Verdicts of guards, reverts and its retries, removal of rules.

use plan::GuardEffect;

use super::vocabulary::*;

// The guard keeps.

#[test]
fn a_guard_that_keeps_confirms_each_change() {
    let mut it = with_two_changes();
    found(&mut it, "6 ranks");
    gives!(it, kept(1), ms(2) => [say_guard("kept"), confirm(R0, 1), confirm(R1, 1)]);
    assert_eq!(verdicts(&it), ["kept", "kept"]);
    assert!(it.findings.views()[0].repaired);
}

#[test]
fn a_repaired_finding_stays_listed() {
    let mut it = with_one_change();
    found(&mut it, "6 ranks");
    it.on(kept(1), ms(2));
    found(&mut it, "other numbers");
    it.findings.close("r", std::time::Duration::from_secs(9));
    assert_eq!(it.findings.views()[0].text, "6 ranks");
    assert!(!it.findings.is_open("r"));
}

#[test]
fn an_ended_rank_is_not_confirmed() {
    let mut it = after!(with_two_changes(); ChangeEvent::Ended(R0), ms(2));
    gives!(it, kept(1), ms(3) => [say_guard("kept"), confirm(R1, 1)]);
}

#[test]
fn a_session_is_settled_when_all_that_is_in_force_is_confirmed() {
    let mut it = new();
    assert!(!it.is_settled(), "nothing was changed");
    it.on(decided(1, [R0]), ms(0));
    it.on(written(1, 0, 1), ms(1));
    assert!(!it.is_settled(), "it is not judged");
    it.on(kept(1), ms(2));
    assert!(it.is_settled());
    it.on(decided(2, [R0]), ms(3));
    assert!(!it.is_settled(), "an order is under way");
}

// The guard compares.

#[test]
fn a_change_that_is_reverted_to_be_compared_is_said_once_and_counts_once() {
    let mut it = after!(new(); decided(1, [R0]), ms(0); written(1, 0, 1), ms(1));
    gives!(it, compared(1), ms(2) => [revert([change(R0, 1)])]);
    gives!(it, reverted(R0, 1), ms(3) => [say_guard("reverted to compare")]);
    assert_eq!(at_last(&it), "1 change reverted", "the session may end now");
    assert_eq!(
        (outcomes(&it), verdicts(&it)),
        (vec!["reverted".to_owned()], vec!["reverted to compare"])
    );
    it.on(again(2, [R0]), ms(4));
    gives!(it, written(2, 0, 2), ms(5) => [applied(2)]);
    gives!(it, compared(2), ms(6) => [revert([change(R0, 2)])]);
    gives!(it, reverted(R0, 2), ms(7) => []);
    assert_eq!(at_last(&it), "1 change reverted");
    it.on(again(3, [R0]), ms(8));
    it.on(written(3, 0, 3), ms(9));
    gives!(it, kept(3), ms(10) => [say_guard("kept"), confirm(R0, 3)]);
    assert_eq!(outcomes(&it), ["written"]);
    assert!(it.views(&[])[0].first_at.is_some());
}

#[test]
fn a_change_that_cannot_be_reverted_to_be_compared_stays_listed() {
    let it = after!(with_one_change(); compared(1), ms(2); stuck(R0, 1), ms(3));
    assert_eq!(verdicts(&it), ["not reverted"]);
}

// The guard reverts.

#[test]
fn a_guard_says_reverted_once_every_change_was_taken_back_and_not_before() {
    let mut it = with_two_changes();
    gives!(it, taken_back(1), ms(2) => [revert([change(R0, 1), change(R1, 1)])]);
    assert_eq!(verdicts(&it), ["being reverted", "being reverted"]);
    gives!(it, reverted(R0, 1), ms(3) => []);
    gives!(it, reverted(R1, 1), ms(4) => [say_guard("reverted")]);
    assert_eq!(verdicts(&it), ["reverted", "reverted"]);
    assert_eq!(outcomes(&it), ["reverted", "reverted"]);
}

#[test]
fn a_next_start_is_not_advised_after_the_same_change_did_not_help() {
    for (effect, is_advised) in [
        (GuardEffect::Worse, false),
        (GuardEffect::NoEffect, false),
        (GuardEffect::Inconclusive, true),
    ] {
        let mut it = with_one_change();
        found(&mut it, "6 ranks");
        let ChangeEvent::Judged(mut judged) = taken_back(1) else {
            continue;
        };
        judged.guard.effect = Some(effect);
        it.judged(judged);
        found(&mut it, "7 ranks");
        assert_eq!(
            it.findings.views()[0].next_start.is_some(),
            is_advised,
            "{effect}"
        );
    }
}

#[test]
fn a_verdict_on_some_ranks_takes_back_what_these_have() {
    let mut it = with_two_changes();
    gives!(it, taken_back_in(1, &[R1]), ms(2) => [revert([change(R1, 1)])]);
    gives!(it, taken_back_in(1, &[R0]), ms(2) => [revert([change(R0, 1)])]);
    gives!(it, reverted(R1, 1), ms(3) => []);
    gives!(it, reverted(R0, 1), ms(3) => [say_guard("reverted")]);
}

#[test]
fn changes_of_ended_processes_need_no_revert() {
    let mut it = after!(with_two_changes(); ChangeEvent::Ended(R0), ms(2));
    gives!(it, taken_back(1), ms(3) => [revert([change(R1, 1)])]);
    gives!(it, reverted(R1, 1), ms(4) => [say_guard("reverted")]);
}

#[test]
fn where_all_ranks_have_ended_the_guard_says_reverted_at_once() {
    let mut it = after!(with_one_change(); ChangeEvent::Ended(R0), ms(2));
    gives!(it, taken_back(1), ms(3) => [say_guard("reverted")]);
}

#[test]
fn values_that_the_program_changed_since_are_kept_and_reported() {
    let mut it = after!(with_one_change(); taken_back(1), ms(2));
    let said = say_guard("not reverted: the program changed it since");
    gives!(it, changed_since(R0, 1), ms(3) => [said]);
    assert_eq!(outcomes(&it), ["left alone: the program changed it since"]);
    gives!(it, ChangeEvent::Tick, s(200) => [], "it is not tried again");
}

#[test]
fn a_revert_that_never_will_succeed_is_said_and_not_tried_again() {
    let mut it = after!(with_one_change(); taken_back(1), ms(2));
    gives!(it, lost(R0, 1), ms(3) => [say_guard("not reverted: unmapped")]);
    assert_eq!(outcomes(&it), ["not reverted: unmapped"]);
    gives!(it, ChangeEvent::Tick, s(200) => []);
}

#[test]
fn an_answer_about_an_unknown_change_says_nothing() {
    let mut it = after!(with_one_change(); taken_back(1), ms(2));
    gives!(it, reverted(R1, 9), ms(3) => []);
    assert_eq!(verdicts(&it), ["being reverted"]);
}

#[test]
fn the_guard_names_the_first_reason_of_several() {
    let mut it = after!(with_two_changes(); taken_back(1), ms(2); lost(R1, 1), ms(3));
    gives!(it, reverted(R0, 1), ms(4) => [say_guard("not reverted: unmapped")]);
    assert_eq!(verdicts(&it), ["not reverted", "not reverted"]);
}

// Failures are retried.

#[test]
fn a_revert_that_fails_is_tried_after_twice_as_long_and_once_a_minute_in_the_end() {
    let mut it = after!(with_one_change(); taken_back(1), s(0));
    let mut now = 0;
    for pause in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
        it.on(stuck(R0, 1), s(now));
        gives!(it, ChangeEvent::Tick, Time(s(now + pause).0 - 1) => [], "{pause} s");
        now += pause;
        gives!(it, ChangeEvent::Tick, s(now) => [revert([change(R0, 1)])], "{pause} s");
        gives!(it, ChangeEvent::Tick, s(now) => [], "it is under way");
    }
}

#[test]
fn a_failed_revert_is_said_once_and_its_success_too() {
    let mut it = after!(with_one_change(); taken_back(1), s(0));
    let said = [say_retried(R0, 1, "busy"), say_guard("not reverted: busy")];
    gives!(it, stuck(R0, 1), s(0) => said);
    assert_eq!(verdicts(&it), ["not reverted"]);
    it.on(ChangeEvent::Tick, s(1));
    gives!(it, stuck(R0, 1), s(1) => [], "it was said");
    it.on(ChangeEvent::Tick, s(3));
    let said = [say_settled(R0, 1, ChangeOutcome::Reverted), say_guard("reverted")];
    gives!(it, reverted(R0, 1), s(3) => said);
    assert_eq!(verdicts(&it), ["reverted"]);
    gives!(it, ChangeEvent::Tick, s(300) => []);
}

#[test]
fn a_value_that_the_program_changes_during_a_retry_is_settled() {
    let mut it = after!(with_one_change(); taken_back(1), s(0); stuck(R0, 1), s(0);
        ChangeEvent::Tick, s(1));
    gives!(it, changed_since(R0, 1), s(1) => [say_settled(R0, 1, ChangeOutcome::LeftAlone)]);
    gives!(it, ChangeEvent::Tick, s(300) => []);
}

#[test]
fn of_several_only_what_failed_is_tried_again() {
    let mut it = after!(with_two_changes(); taken_back(1), s(0); stuck(R1, 1), s(0);
        reverted(R0, 1), s(0));
    gives!(it, ChangeEvent::Tick, s(1) => [revert([change(R1, 1)])]);
}

#[test]
fn a_rank_that_ends_while_its_revert_is_retried_gets_no_order() {
    let mut it = after!(with_one_change(); taken_back(1), s(0); stuck(R0, 1), s(0);
        ChangeEvent::Ended(R0), s(0));
    gives!(it, ChangeEvent::Tick, s(1) => []);
    gives!(it, stuck(R0, 1), s(1) => [], "an answer from before");
    gives!(it, ChangeEvent::Tick, s(300) => []);
}

#[test]
fn a_revert_without_room_is_tried_again() {
    let mut it = with_one_change();
    let effect = it.on(taken_back(1), s(0)).remove(0);
    let reason = "too many orders wait";
    let said = [
        say_retried(R0, 1, reason),
        say_guard(&format!("not reverted: {reason}")),
    ];
    gives!(it, no_room(effect), s(0) => said);
    gives!(it, ChangeEvent::Tick, s(1) => [revert([change(R0, 1)])]);
    assert_eq!(it.on(reverted(R0, 1), s(1)).last(), Some(&say_guard("reverted")));
}

#[test]
fn a_retry_without_room_is_tried_again() {
    let mut it = after!(with_one_change(); taken_back(1), s(0); stuck(R0, 1), s(0));
    let effect = it.on(ChangeEvent::Tick, s(1)).remove(0);
    gives!(it, no_room(effect), s(1) => []);
    gives!(it, ChangeEvent::Tick, s(3) => [revert([change(R0, 1)])]);
}

#[test]
fn a_session_with_a_revert_that_is_retried_is_not_settled() {
    let mut it = after!(with_two_changes(); kept(1), s(0); decided(2, [R0]), s(0);
        written(2, 0, 2), s(0); taken_back(2), s(0); stuck(R0, 2), s(0));
    assert!(!it.is_settled());
    it.on(reverted(R0, 2), s(1));
    assert!(it.is_settled());
}

// Calls.

#[test]
fn a_call_with_an_inverse_is_taken_back_by_it() {
    let mut it =
        after!(new(); acts(Keyword::Call, 1, [R0]), ms(0); came(1, 0, ChangeOutcome::InForce, 1), ms(1));
    gives!(it, taken_back(1), ms(2) => [revert([change(R0, 1)])]);
}

#[test]
fn a_call_without_an_inverse_stays_and_no_revert_is_ordered() {
    for (outcome, last) in [
        (
            ChangeOutcome::Stays("3".to_owned()),
            "1 change cannot be reverted and stays (knob)",
        ),
        (ChangeOutcome::Over("3".to_owned()), "nothing is left to revert"),
        (
            ChangeOutcome::Running,
            "1 change not known yet: a call has not returned (tuneagent undo finds out)",
        ),
    ] {
        let mut it = after!(new(); acts(Keyword::Call, 1, [R0]), ms(0));
        gives!(it, came(1, 0, outcome, 1), ms(1) => [say_did("call: done"), applied(1)]);
        gives!(it, taken_back(1), ms(2) => [say_guard("reverted")]);
        it.on(stop(), s(1));
        it.on(reverts(&[], &[]), s(1));
        assert_eq!(at_last(&it), last);
    }
}

// Two rules and one variable, and other writers.

#[test]
fn of_two_rules_on_one_variable_each_takes_back_its_own_change() {
    let mut it = after!(with_one_change(); decided_by("other", 2, [R0]), ms(2); written(2, 0, 2), ms(3));
    gives!(it, taken_back(1), ms(4) => [revert([change(R0, 1)])]);
    // The actuator finds the value of the other rule.
    it.on(changed_since(R0, 1), ms(5));
    assert_eq!(
        outcomes(&it),
        ["left alone: the program changed it since", "written"]
    );
    gives!(it, removed("other", false), ms(6) => [revert([change(R0, 2)])]);
}

#[test]
fn values_changed_by_hand_are_kept_at_the_end() {
    let mut it = after!(with_one_change(); stop(), s(1));
    let reverted = vec![(change(R0, 1), RevertResult::ChangedSince)];
    let actuator_end = MachineReverts {
        reverted,
        ..MachineReverts::default()
    };
    it.on(ChangeEvent::ActuatorEnded(MachineId::HERE, actuator_end), s(1));
    assert_eq!(
        at_last(&it),
        "1 change left alone, because app has changed it since"
    );
}

#[test]
fn a_change_by_hand_that_the_session_does_not_know_counts_where_the_actuator_names_it() {
    let it = after!(with_one_change(); stop(), s(1); reverts(&[change(R0, 1), change(R1, 9)], &[]), s(1));
    assert_eq!(at_last(&it), "2 changes reverted");
}

// A rule is removed.

#[test]
fn a_removed_rule_takes_its_changes_and_findings_with_it() {
    let mut it = with_two_changes();
    found(&mut it, "6 ranks");
    assert_eq!(it.in_force_of("r").count(), 2);
    gives!(it, removed("r", false), ms(2) => [revert([change(R0, 1), change(R1, 1)])]);
    assert!(it.findings.views().is_empty());
    it.on(reverted(R0, 1), ms(3));
    assert_eq!(it.in_force_of("r").count(), 1);
}

#[test]
fn a_removed_rule_may_leave_its_changes() {
    let mut it = with_one_change();
    found(&mut it, "6 ranks");
    gives!(it, removed("r", true), ms(2) => []);
    assert_eq!(it.findings.views().len(), 1);
    assert_eq!(outcomes(&it), ["written"]);
}

#[test]
fn a_removed_rule_does_not_take_back_what_is_being_taken_back_or_ended() {
    let mut it = after!(with_two_changes(); taken_back_in(1, &[R0]), ms(2));
    gives!(it, removed("r", false), ms(3) => []);
    let mut it = after!(with_two_changes(); ChangeEvent::Ended(R0), ms(2));
    gives!(it, removed("r", false), ms(3) => [revert([change(R1, 1)])]);
    let mut it = with_one_change();
    gives!(it, removed("other", false), ms(3) => []);
}

#[test]
fn repairs_that_were_taken_back_are_known() {
    let mut it = with_one_change();
    found(&mut it, "6 ranks");
    it.on(kept(1), ms(2));
    assert!(it.repairs_ended().is_empty(), "it is in force");
    it.on(stop(), s(1));
    it.on(reverts(&[change(R0, 1)], &[]), s(1));
    assert_eq!(it.repairs_ended(), ["r"]);
    it.findings.stays_with("r", "attach x --keep".to_owned());
    assert_eq!(it.findings.views()[0].now.as_deref(), Some("attach x --keep"));
}
