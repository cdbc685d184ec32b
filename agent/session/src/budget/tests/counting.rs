//! Functions that rules only count are detached if they cost too much.

use super::*;

/// The effects of readings at these seconds, while function 3 takes this part of a CPU.
fn readings(budget: &mut Budget, cost: f64, seconds: &[u64], is_judged: bool) -> Vec<BudgetEffects> {
    let spent = |at_s| spent(at_s, [0.0, 0.0, 0.0, cost]);
    let look = |at_s: &u64| budget.look_at_counted(spent(*at_s), is_judged, &functions());
    seconds.iter().map(look).collect()
}

#[test]
fn they_sit_for_five_seconds_and_rest_then() {
    let mut budget = budget();
    let effects = readings(&mut budget, 0.05, &[1, 3, 5, 6], false);
    assert!(effects[..3].iter().all(Vec::is_empty), "{effects:?}");
    assert_eq!(effects[3].last(), Some(&BudgetEffect::DetachCounted));
    let lines = said(&effects[3]);
    assert!(
        lines[0].starts_with("note: calls of step are counted for rules 20 % of the time"),
        "{lines:?}"
    );
    // Probing a fifth of the time keeps 5 % within the budget of 1 %.
    assert!(budget.counting.is_detached());
    for (at_s, is_over) in [(6, false), (25, false), (27, true)] {
        assert_eq!(budget.counting.is_over(at_s * S, false), is_over, "{at_s}");
    }
}

#[test]
fn they_go_on_where_they_are_within_the_budget() {
    let mut budget = budget();
    let effects = readings(&mut budget, 0.005, &[1, 6, 11, 16], false);
    assert!(effects.iter().all(Vec::is_empty), "{effects:?}");
    assert_eq!(budget.missing().count(), 0);
}

#[test]
fn while_a_change_is_judged_they_do_not_rest() {
    let mut budget = budget();
    let effects = readings(&mut budget, 0.05, &[1, 6, 60], true);
    assert!(effects.iter().all(Vec::is_empty), "{effects:?}");
    readings(&mut budget, 0.05, &[61], false);
    assert!(budget.counting.is_detached());
    assert!(budget.counting.is_over(62 * S, true), "it is judged now");
}

#[test]
fn it_is_said_once_that_they_rest_and_missing_from_then_on() {
    let mut budget = budget();
    assert_eq!(readings(&mut budget, 0.05, &[1, 6], false).concat().len(), 2);
    budget.counting.attached(spent(30, [0.0, 0.0, 0.0, 0.01]));
    assert!(!budget.counting.is_detached());
    let effects = readings(&mut budget, 0.05, &[36], false).concat();
    assert_eq!(effects, [BudgetEffect::DetachCounted]);
    let missing: Vec<String> = budget.missing().collect();
    assert!(
        missing[0].starts_with("calls of step were counted for rules in sampling windows"),
        "{missing:?}"
    );
}

#[test]
fn where_there_is_nothing_to_count_any_more_sitting_begins_anew() {
    let mut budget = budget();
    readings(&mut budget, 0.05, &[1], false);
    budget.counting.forget();
    let effects = readings(&mut budget, 0.05, &[20, 24], false);
    assert!(effects.iter().all(Vec::is_empty), "{effects:?}");
}
