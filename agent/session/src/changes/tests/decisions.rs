//! From a decision to its last receipt.

use super::vocabulary::*;

#[test]
fn each_rank_gets_an_order_and_the_rules_get_the_result_at_the_last_receipt() {
    let mut it = new();
    gives!(it, decided(1, [R0, R1]), ms(10) => [order(R0, 1, 0), order(R1, 1, 1)]);
    gives!(it, written(1, 0, 1), ms(11) => []);
    assert!(it.is_waiting(DecisionId(1)));
    gives!(it, written(1, 1, 1), ms(12) => [say_done(2), applied(1)]);
    assert!(!it.is_waiting(DecisionId(1)));
}

#[test]
fn receipts_may_come_in_any_order() {
    let mut it = after!(new(); decided(1, [R0]), ms(0); decided(2, [R0, R1]), ms(0));
    gives!(it, written(2, 1, 1), ms(1) => []);
    gives!(it, written(1, 0, 7), ms(2) => [say_done(1), applied(1)]);
    gives!(it, written(2, 0, 8), ms(3) => [say_done(2), applied(2)]);
}

#[test]
fn a_receipt_that_comes_twice_counts_once() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0); written(1, 0, 1), ms(1));
    gives!(it, written(1, 0, 1), ms(2) => []);
    assert!(it.is_waiting(DecisionId(1)), "rank 1 has not answered");
}

#[test]
fn a_receipt_of_nothing_that_was_ordered_is_ignored() {
    let mut it = new();
    gives!(it, written(1, 0, 1), ms(0) => []);
    it.on(decided(1, [R0]), ms(0));
    gives!(it, written(1, 5, 1), ms(0) => []);
    assert_eq!(outcomes(&it), Vec::<String>::new());
}

#[test]
fn a_change_is_reported_when_it_is_made() {
    let mut it = after!(new(); predicted(1, "2x", [R0]), ms(0));
    let effects = it.on(written(1, 0, 1), ms(1));
    assert_eq!(
        effects[0],
        say_did("1 change written and read back, predicted 2x")
    );
}

#[test]
fn an_action_is_said_in_its_own_words() {
    let mut it = after!(new(); acts(Keyword::Call, 1, [R0]), ms(0));
    gives!(it, came(1, 0, ChangeOutcome::InForce, 1), ms(1) => [say_did("call: done"), applied(1)]);
}

#[test]
fn one_refusal_refuses_the_decision_and_what_was_written_is_taken_back() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0));
    gives!(it, refused(1, 0, "read-only"), ms(1) => []);
    let effects = [
        not_applied(1, "read-only"),
        say_not_done("read-only"),
        revert([change(R1, 4)]),
    ];
    gives!(it, written(1, 1, 4), ms(2) => effects);
    gives!(it, reverted(R1, 4), ms(3) => []);
    assert_eq!(outcomes(&it), ["read-only", "reverted"]);
}

#[test]
fn calls_in_copies_of_a_library_follow_one_another_and_may_not_reach_those_that_are_not_in_use() {
    let in_force = |part, number| came(1, part, ChangeOutcome::InForce, number);
    let mut it = new();
    gives!(it, calls_copies(1, [R0, R0, R1, R1]), ms(0) => [order(R0, 1, 0), order(R1, 1, 2)]);
    gives!(it, not_reached(1, 0), ms(1) => [order(R0, 1, 1)]);
    gives!(it, in_force(2, 1), ms(2) => [order(R1, 1, 3)]);
    gives!(it, not_reached(1, 3), ms(3) => []);
    gives!(it, in_force(1, 2), ms(4) => [say_did("call: done"), applied(1)]);
    assert_eq!(
        outcomes(&it),
        ["not reached", "in force", "not reached", "in force"]
    );
}

#[test]
fn a_process_that_reaches_no_copy_or_fails_in_one_refuses_the_decision() {
    for (answer, reason) in [
        (not_reached(1, 1), "not reached"),
        (refused(1, 1, "traced"), "traced"),
    ] {
        let mut it = after!(new(); calls_copies(1, [R0, R0, R1]), ms(0); not_reached(1, 0), ms(1));
        it.on(answer, ms(2));
        let effects = it.on(came(1, 2, ChangeOutcome::InForce, 1), ms(3));
        assert!(
            effects.contains(&revert([change(R1, 1)])),
            "{reason}: {effects:?}"
        );
    }
}

#[test]
fn a_copy_that_is_not_reached_is_not_counted_where_the_other_had_the_value_already() {
    let mut it = after!(new(); calls_copies(1, [R0, R0]), ms(0); not_reached(1, 0), ms(1));
    let effects = it.on(came(1, 1, ChangeOutcome::AlreadyThere, 0), ms(2));
    assert_eq!(effects[0], not_needed(1, 1));
}

#[test]
fn no_call_in_another_copy_follows_once_the_decision_is_given_up() {
    let mut it = after!(new(); calls_copies(1, [R0, R0]), ms(0); ChangeEvent::GaveUp(DecisionId(1)), ms(1));
    gives!(it, came(1, 0, ChangeOutcome::InForce, 1), ms(2) => [revert([change(R0, 1)])]);
}

#[test]
fn a_refusal_that_may_pass_is_reported_as_such() {
    let mut it = after!(new(); decided(1, [R0]), ms(0));
    let effects = it.on(hindered(1, 0, "no thread suits"), ms(1));
    assert_eq!(
        effects,
        [not_now(1, "no thread suits"), say_not_done("no thread suits")]
    );
}

#[test]
fn a_refusal_that_will_not_pass_counts_before_those_that_may() {
    for order in [[0, 1], [1, 0]] {
        let mut it = after!(new(); decided(1, [R0, R1]), ms(0));
        let receipts = [hindered(1, 0, "busy"), refused(1, 1, "read-only")];
        let effects: Vec<ChangeEffect> = order
            .into_iter()
            .flat_map(|index: usize| it.on(receipts[index].clone(), ms(1)))
            .collect();
        assert_eq!(effects[0], not_applied(1, "read-only"), "{order:?}");
    }
}

#[test]
fn an_action_without_effect_in_any_process_is_no_change() {
    // A value has no number if nothing was written; a call that was made has one.
    for (action, number) in [(Keyword::Set, 0), (Keyword::Call, 7), (Keyword::SetArgument, 0)] {
        let mut it = after!(new(); acts(action, 1, [R0, R1]), ms(0);
            came(1, 0, ChangeOutcome::AlreadyThere, number), ms(1));
        let effects = it.on(came(1, 1, ChangeOutcome::AlreadyThere, number), ms(2));
        let reason = "it was there already in 2 processes";
        assert_eq!(effects, [not_needed(1, 2), say_not_done(reason)], "{action}");
        assert_eq!(outcomes(&it), ["it was there already"; 2], "{action}");
        assert!(!it.is_settled(), "{action}: nothing was changed");
    }
}

#[test]
fn an_action_with_effect_in_one_of_two_processes_is_a_change_there() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0);
        came(1, 0, ChangeOutcome::AlreadyThere, 0), ms(1));
    gives!(it, written(1, 1, 1), ms(2) => [say_done(1), applied(1)]);
    assert_eq!(outcomes(&it), ["it was there already", "written"]);
}

#[test]
fn a_call_that_changed_nothing_is_not_counted_among_what_was_taken_back() {
    let it = after!(new(); acts(Keyword::Call, 1, [R0]), ms(0);
        came(1, 0, ChangeOutcome::AlreadyThere, 7), ms(1); reverted(R0, 7), ms(2));
    assert_eq!(outcomes(&it), ["it was there already"]);
}

#[test]
fn a_decision_without_processes_is_refused_at_once() {
    let effects = new().on(decided(1, []), ms(0));
    let reason = words::NO_PROCESS_LEFT;
    assert_eq!(effects, [say_not_done(reason), not_applied(1, reason)]);
}

#[test]
fn a_decision_that_cannot_be_ordered_is_refused_with_the_reason() {
    let (decision, rule, reason) = (1, "r".to_owned(), "no such place".to_owned());
    let event = ChangeEvent::NotOrdered {
        decision: DecisionId(decision),
        rule,
        reason,
    };
    let effects = new().on(event, ms(0));
    assert_eq!(
        effects,
        [say_not_done("no such place"), not_applied(1, "no such place")]
    );
}

#[test]
fn ranks_of_another_machine_get_their_orders_there() {
    let mut it = new();
    gives!(it, decided(1, [R0, FAR]), ms(0) => [order(R0, 1, 0), order(FAR, 1, 1)]);
    it.on(written(1, 0, 1), ms(1));
    it.on(written(1, 1, 1), ms(1));
    gives!(it, taken_back(1), ms(2) => [revert([change(R0, 1)]), revert([change(FAR, 1)])]);
}

#[test]
fn the_same_pid_on_two_machines_is_two_processes() {
    let far = MemberProcess {
        machine: MachineId(1),
        ..R0
    };
    let mut it = after!(new(); decided(1, [R0, far]), ms(0); written(1, 0, 1), ms(1);
        written(1, 1, 1), ms(1); ChangeEvent::Ended(far), ms(2));
    gives!(it, taken_back(1), ms(2) => [revert([change(R0, 1)])]);
}

// Ranks that have ended.

#[test]
fn a_rank_that_ended_before_does_not_keep_a_decision_from_the_others() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0); ChangeEvent::Ended(R0), ms(1));
    gives!(it, refused(1, 0, "no such process"), ms(1) => []);
    gives!(it, written(1, 1, 4), ms(2) => [say_done(1), applied(1)]);
    assert_eq!(outcomes(&it), ["it ended before", "written"]);
}

#[test]
fn an_ended_rank_gets_no_order() {
    let mut it = after!(new(); ChangeEvent::Ended(R1), ms(0));
    gives!(it, decided(1, [R0, R1]), ms(1) => [order(R0, 1, 0)]);
    gives!(it, written(1, 0, 1), ms(2) => [say_done(1), applied(1)]);
}

#[test]
fn a_decision_for_ended_ranks_alone_is_refused() {
    let mut it = after!(new(); ChangeEvent::Ended(R0), ms(0));
    let reason = words::NO_PROCESS_LEFT;
    gives!(it, decided(1, [R0]), ms(1) => [not_applied(1, reason), say_not_done(reason)]);
}

#[test]
fn a_refusal_counts_beside_a_rank_that_ended() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0); ChangeEvent::Ended(R0), ms(1);
        refused(1, 0, "no such process"), ms(1));
    gives!(it, refused(1, 1, "read-only"), ms(2) => [not_applied(1, "read-only"), say_not_done("read-only")]);
}

#[test]
fn a_rank_that_ended_after_its_receipt_was_written_all_the_same() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0); written(1, 0, 1), ms(1);
        ChangeEvent::Ended(R0), ms(2));
    gives!(it, written(1, 1, 1), ms(3) => [say_done(2), applied(1)]);
}

#[test]
fn a_refused_decision_is_not_taken_back_in_a_rank_that_ended() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0); written(1, 0, 1), ms(1);
        ChangeEvent::Ended(R0), ms(2));
    gives!(it, refused(1, 1, "read-only"), ms(3) => [not_applied(1, "read-only"), say_not_done("read-only")]);
}

#[test]
fn a_late_rank_is_changed_by_a_decision_of_its_own() {
    let mut it = with_one_change();
    gives!(it, decided(2, [R1]), s(9) => [order(R1, 2, 0)]);
    gives!(it, written(2, 0, 1), s(9) => [say_done(1), applied(2)]);
    gives!(it, taken_back(2), s(12) => [revert([change(R1, 1)])]);
}

#[test]
fn a_rank_that_goes_on_as_another_program_keeps_its_pid_and_gets_a_slot_of_its_own() {
    let mut it = after!(with_one_change(); ChangeEvent::Ended(R0), s(1));
    let ChangeEvent::Decided(mut anew) = decided(2, [R1]) else {
        panic!()
    };
    anew.parts[0].pid = pid(R0);
    gives!(it, ChangeEvent::Decided(anew), s(2) => [order(R1, 2, 0)]);
    it.on(written(2, 0, 2), s(2));
    gives!(it, taken_back(2), s(3) => [revert([change(R0, 2)])]);
    gives!(it, taken_back(1), s(3) => [say_guard("reverted")], "gone with the old program");
}

// Decisions for which the rules no longer wait.

#[test]
fn a_decision_without_waiting_orders_is_given_up_once() {
    let mut it = after!(new(); decided(1, [R0, FAR]), ms(0));
    gives!(it, ChangeEvent::GaveUp(DecisionId(1)), ms(1) => [give_up(0, 1), give_up(1, 1)]);
    gives!(it, ChangeEvent::GaveUp(DecisionId(1)), ms(2) => []);
    gives!(it, ChangeEvent::GaveUp(DecisionId(9)), ms(2) => [], "nobody knows it");
}

#[test]
fn a_late_write_is_reported_and_reverted() {
    let mut it = after!(new(); decided(1, [R0]), ms(0); ChangeEvent::GaveUp(DecisionId(1)), ms(1));
    let effects = [say_done(1), say_too_late(), revert([change(R0, 3)])];
    gives!(it, written(1, 0, 3), ms(2) => effects);
}

#[test]
fn a_refusal_of_an_abandoned_decision_is_not_shown_and_what_was_written_is_reverted() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0); written(1, 0, 3), ms(1);
        ChangeEvent::GaveUp(DecisionId(1)), ms(1));
    gives!(it, refused(1, 1, "not reached"), ms(2) => [revert([change(R0, 3)])]);
}

#[test]
fn a_decision_with_all_receipts_cannot_be_given_up() {
    let mut it = with_one_change();
    gives!(it, ChangeEvent::GaveUp(DecisionId(1)), ms(9) => []);
}

// The queue to the actuator is full.

#[test]
fn an_order_without_room_is_refused_until_later() {
    let mut it = after!(new(); decided(1, [R0]), ms(0));
    let effects = it.on(no_room(order(R0, 1, 0)), ms(0));
    assert_eq!(
        effects,
        [
            not_now(1, "too many orders wait"),
            say_not_done("too many orders wait")
        ]
    );
}

#[test]
fn where_one_order_has_no_room_the_others_are_taken_back() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0));
    gives!(it, no_room(order(R1, 1, 1)), ms(0) => []);
    let effects = it.on(written(1, 0, 1), ms(1));
    assert_eq!(effects.last(), Some(&revert([change(R0, 1)])));
}

#[test]
fn a_common_order_without_room_is_refused_to_all() {
    let mut it = after!(new(); decided_together(1, [R0, R1]), ms(0));
    let effects = it.on(no_room(order_together(0, 1)), ms(0));
    let reason = "too many orders wait";
    assert_eq!(effects, [not_applied(1, reason), say_not_done(reason)]);
    assert_eq!(outcomes(&it), [reason, reason]);
}

#[test]
fn a_confirmation_without_room_is_logged() {
    let mut it = after!(with_one_change(); kept(1), ms(2));
    let event = no_room(confirm(R0, 1));
    assert!(matches!(it.on(event, ms(2))[..], [ChangeEffect::NoRoom(..)]));
}

// At the same iteration in all processes, or in none.

#[test]
fn all_ranks_change_together_by_one_order_of_each_machine() {
    let mut it = new();
    gives!(it, decided_together(1, [R0, R1]), ms(0) => [order_together(0, 1)]);
    gives!(it, written(1, 0, 1), ms(1) => []);
    gives!(it, written(1, 1, 1), ms(1) => [say_done(2), applied(1)]);
    gives!(it, decided_together(2, [R0, FAR]), ms(2) => [order_together(0, 2), order_together(1, 2)]);
}

#[test]
fn where_one_does_not_come_to_the_meeting_none_changes() {
    let mut it = after!(new(); decided_together(1, [R0, R1]), ms(0); written(1, 0, 1), ms(1));
    let effects = it.on(hindered(1, 1, "not reached"), ms(1));
    let expected = [
        not_now(1, "not reached"),
        say_not_done("not reached"),
        revert([change(R0, 1)]),
    ];
    assert_eq!(effects, expected);
}

#[test]
fn together_an_ended_rank_refuses_the_decision_for_all() {
    let mut it = after!(new(); decided_together(1, [R0, R1]), ms(0); written(1, 0, 1), ms(1);
        ChangeEvent::Ended(R1), ms(1));
    let effects = it.on(refused(1, 1, "it has ended"), ms(2));
    assert_eq!(effects[0], not_applied(1, "it has ended"));
    assert_eq!(effects.last(), Some(&revert([change(R0, 1)])));
}

#[test]
fn together_nothing_is_ordered_where_one_has_ended_already() {
    let mut it = after!(new(); ChangeEvent::Ended(R1), ms(0));
    let effects = it.on(decided_together(1, [R0, R1]), ms(1));
    assert_eq!(effects, [not_applied(1, words::GONE), say_not_done(words::GONE)]);
}

#[test]
fn where_ranks_run_elsewhere_a_common_change_is_refused_and_shown_of_each() {
    let mut it = new();
    let reason = "2 of 4 ranks run on this machine";
    gives!(it, barred(1, reason, [R0, R1]), ms(0) => [not_applied(1, reason), say_not_done(reason)]);
    assert_eq!(outcomes(&it), [reason, reason]);
}

// Code that is changed twice.

#[test]
fn an_earlier_change_of_the_same_code_is_reverted_first() {
    for action in [Keyword::SetArgument, Keyword::InsertCall] {
        let mut it = after!(new(); acts(action, 1, [R0, R1]), ms(0);
            came(1, 0, ChangeOutcome::InForce, 5), ms(1); came(1, 1, ChangeOutcome::InForce, 6), ms(1));
        gives!(it, acts(action, 2, [R0]), ms(2) => [order_after(R0, 2, 0, [change(R0, 5)])], "{action}");
    }
}

#[test]
fn a_reverted_change_is_not_replaced() {
    let mut it = after!(new(); acts(Keyword::SetArgument, 1, [R0]), ms(0);
        came(1, 0, ChangeOutcome::InForce, 5), ms(1); taken_back(1), ms(2); reverted(R0, 5), ms(3));
    gives!(it, acts(Keyword::SetArgument, 2, [R0]), ms(4) => [order(R0, 2, 0)]);
}

#[test]
fn a_replacement_without_room_leaves_the_earlier_change_in_force() {
    let mut it = after!(new(); acts(Keyword::SetArgument, 1, [R0]), ms(0);
        came(1, 0, ChangeOutcome::InForce, 5), ms(1));
    let effect = it.on(acts(Keyword::SetArgument, 2, [R0]), ms(2)).remove(0);
    it.on(no_room(effect), ms(2));
    assert_eq!(outcomes(&it), ["in force", "too many orders wait"]);
    gives!(it, taken_back(1), ms(3) => [revert([change(R0, 5)])]);
}

#[test]
fn values_and_calls_replace_nothing() {
    for action in [Keyword::Set, Keyword::Call, Keyword::RemoveCall] {
        let mut it = after!(new(); acts(action, 1, [R0]), ms(0);
            came(1, 0, ChangeOutcome::InForce, 5), ms(1));
        gives!(it, acts(action, 2, [R0]), ms(2) => [order(R0, 2, 0)], "{action}");
    }
}

// Probes of the session itself.

#[test]
fn probes_are_switched_and_the_rules_get_the_result_at_once() {
    let mut it = new();
    let on = [switch(0, true), switch(1, true)];
    gives!(it, switches(1, &on), ms(0) => [ChangeEffect::Switch(DecisionId(1), on.to_vec())]);
    let (rule, text) = ("r".to_owned(), "enable: done".to_owned());
    let said = ChangeEffect::Say(ChangeNotice::Switched { rule, text });
    gives!(it, ChangeEvent::Switched(DecisionId(1), Ok(())), ms(1) => [said, applied(1)]);
    assert!(!it.is_waiting(DecisionId(1)));
}

#[test]
fn probes_that_cannot_be_switched_are_a_refusal() {
    let mut it = after!(new(); switches(1, &[switch(0, true)]), ms(0));
    let effects = it.on(
        ChangeEvent::Switched(DecisionId(1), Err(ErrorText::new("no room"))),
        ms(1),
    );
    assert_eq!(effects, [say_not_done("no room"), not_applied(1, "no room")]);
    gives!(it, ChangeEvent::Switched(DecisionId(9), Ok(())), ms(1) => [], "nobody knows it");
}

#[test]
fn a_verdict_switches_probes_back_where_it_holds() {
    let on = [switch(0, true), switch(1, false)];
    let mut it = after!(new(); switches(1, &on), ms(0);
        ChangeEvent::Switched(DecisionId(1), Ok(())), ms(1));
    let said = || {
        let text = "its condition no longer holds; its probes are switched back".to_owned();
        ChangeEffect::Say(ChangeNotice::Switched {
            rule: "r".to_owned(),
            text,
        })
    };
    let back = ChangeEffect::SwitchBack(vec![switch(0, false)]);
    gives!(it, taken_back_in(1, &[R0]), ms(2) => [said(), back]);
    let back = ChangeEffect::SwitchBack(vec![switch(0, false), switch(1, true)]);
    gives!(it, taken_back(1), ms(3) => [said(), back]);
}

#[test]
fn an_event_names_the_process_in_which_something_was_not_done() {
    let it = after!(new(); decided(1, [R0, R1]), ms(0); written(1, 0, 3), ms(1));
    for (event, process) in [
        (refused(1, 1, "not writable"), Some(R1)),
        (written(1, 1, 4), None),
        (refused(1, 2, "no such part"), None),
        (stuck(R0, 3), Some(R0)),
        (reverted(R0, 3), None),
        (stuck(R1, 9), None),
        (ChangeEvent::Tick, None),
    ] {
        assert_eq!(it.failed_in(&event), process, "{event:?}");
    }
}

#[test]
fn ended_processes_are_known_before_an_answer_and_not_awaited() {
    let it = after!(new(); decided(1, [R0, R1]), ms(0));
    let ended = |rank| format!("{:?}", ChangeEvent::Ended(rank));
    let given_up = || format!("{:?}", ChangeEvent::GaveUp(DecisionId(1)));
    for (event, has_ended, is_awaited, before) in [
        (refused(1, 1, "no"), true, true, vec![ended(R1)]),
        (refused(1, 1, "no"), false, true, vec![]),
        (refused(1, 1, "no"), true, false, vec![ended(R1), given_up()]),
        (written(1, 0, 3), true, true, vec![]),
        (written(1, 0, 3), true, false, vec![given_up()]),
        (reverted(R0, 3), true, false, vec![]),
    ] {
        let last = format!("{event:?}");
        let events = it.with_causes(event, |_| has_ended, |_| is_awaited);
        let events: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
        assert_eq!(events, [before, vec![last]].concat());
    }
}
