//! A session that lasts for weeks.

use super::super::made::SHOWN_MAX;
use super::vocabulary::*;

/// The end of a decision, given its number, and the words of the last line for it.
type Fate = (fn(&mut Changes, u64), &'static str);

const SETTLED: [Fate; 4] = [
    (|it, id| drop(it.on(refused(id, 0, "read-only"), ms(id))), ""),
    (
        |it, id| drop(it.on(came(id, 0, ChangeOutcome::AlreadyThere, 0), ms(id))),
        "",
    ),
    (
        |it, id| {
            it.on(written(id, 0, id), ms(id));
            it.on(taken_back(id), ms(id));
            it.on(reverted(R0, id), ms(id));
        },
        "25 000 changes reverted",
    ),
    (
        |it, id| {
            it.on(written(id, 0, id), ms(id));
            it.on(taken_back(id), ms(id));
            it.on(changed_since(R0, id), ms(id));
        },
        "25 000 changes left alone, because app has changed it since",
    ),
];

#[test]
fn settled_changes_are_counted_and_forgotten_and_those_in_force_stay() {
    let mut it = new();
    let in_force = 1..=3;
    for id in in_force.clone() {
        it.on(decided(id, [R1]), ms(0));
        it.on(written(id, 0, id), ms(0));
    }
    let decisions = 4..100_004;
    for id in decisions.clone() {
        let (fate, _) = SETTLED[(id % 4) as usize];
        let orders = it.on(decided(id, [R0]), ms(id));
        assert_eq!(orders, [order(R0, id, 0)], "{id}");
        fate(&mut it, id);
        // Counting takes longer than a decision.
        if id % 1_000 == 0 {
            assert!(it.made.iter().count() <= 2 * SHOWN_MAX + 3);
            assert!(it.decisions.len() <= 2 * SHOWN_MAX + 3);
        }
    }
    assert_eq!(it.views(&[]).len(), SHOWN_MAX);
    assert_eq!(it.not_shown(), 100_003 - SHOWN_MAX);
    let left: Vec<ChangeId> = it.in_force_of("r").collect();
    assert_eq!(left, in_force.map(|id| change(R1, id)).collect::<Vec<_>>());
    assert_eq!(it.held().values().map(|held| held.changes).sum::<u64>(), 100_003);
    let reverted = left.clone();
    it.on(stop(), s(1_000));
    it.on(reverts(&reverted, &[]), s(1_000));
    let said = at_last(&it);
    let reverted = SETTLED[2].1.replace("25 000", "25 003");
    assert_eq!(said, format!("{reverted}; {}", SETTLED[3].1));
}

#[test]
fn waiting_changes_and_failed_reverts_are_not_forgotten() {
    let mut it = after!(new(); decided(1, [R0, R1]), ms(0); refused(1, 0, "read-only"), ms(0);
        decided(2, [R1]), ms(0); written(2, 0, 2), ms(0); taken_back(2), ms(0); stuck(R1, 2), ms(0));
    for id in 3..3 + 3 * SHOWN_MAX as u64 {
        it.on(decided(id, [R0]), ms(id));
        it.on(refused(id, 0, "read-only"), ms(id));
    }
    assert!(it.is_waiting(DecisionId(1)) && it.part(DecisionId(1), 1).is_some());
    assert_eq!(it.process_of(change(R1, 2)), Some(R1));
    let settled = it.on(reverted(R1, 2), s(100));
    assert_eq!(settled[0], say_settled(R1, 2, ChangeOutcome::Reverted));
    assert!(it.part(DecisionId(3), 0).is_none(), "it was refused long ago");
}
