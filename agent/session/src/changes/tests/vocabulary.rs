//! Short functions that build events and effects, so that a test is a table of them.

use std::collections::{BTreeMap, BTreeSet};

pub(super) use rules::{DecisionId, Time, TrialProgress};

pub(super) use super::super::*;
pub(super) use crate::changes::ProbeSwitch;
pub(super) use profile::outcome::GuardVerdict;
use profile::{ChangeView, FindingView};

/// A rank and its machine.
pub(super) type Rank = MemberProcess;

pub(super) const R0: Rank = rank(0, 0);
pub(super) const R1: Rank = rank(0, 1);
/// On another machine.
pub(super) const FAR: Rank = rank(1, 2);

const fn rank(machine: u32, slot: u32) -> Rank {
    let machine = MachineId(machine);
    MemberProcess { machine, slot }
}

pub(super) fn pid(rank: Rank) -> ActuatorPid {
    ActuatorPid {
        number: 100 + i32::try_from(rank.slot).unwrap(),
        start_time: 1,
    }
}

pub(super) fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

pub(super) fn s(s: u64) -> Time {
    ms(1000 * s)
}

/// A new state machine.
pub(super) fn new() -> Changes {
    Changes::default()
}

/// A change of a rank, by its number in the journal.
pub(super) fn change(rank: Rank, number: u64) -> ChangeId {
    ChangeId {
        machine: rank.machine,
        pid: pid(rank),
        number,
    }
}

fn part(rank: Rank, action: Keyword, rule: &str) -> OrderPart {
    OrderPart {
        process: rank,
        pid: pid(rank),
        label: format!("{action} send(2)"),
        is_copy: false,
        view: ChangeView {
            action,
            rule: rule.to_owned(),
            variable: "knob".to_owned(),
            ..ChangeView::default()
        },
    }
}

fn decision<const N: usize>(
    id: u64,
    rule: &str,
    how: Execution,
    action: Keyword,
    ranks: [Rank; N],
) -> Decided {
    Decided {
        id: DecisionId(id),
        rule: rule.to_owned(),
        summary: (action != Keyword::Set).then(|| format!("{action}: done")),
        how,
        parts: ranks.map(|rank| part(rank, action, rule)).to_vec(),
        ..Decided::default()
    }
}

/// Rule `r` sets a value.
pub(super) fn decided<const N: usize>(id: u64, ranks: [Rank; N]) -> ChangeEvent {
    decided_by("r", id, ranks)
}

pub(super) fn decided_by<const N: usize>(rule: &str, id: u64, ranks: [Rank; N]) -> ChangeEvent {
    ChangeEvent::Decided(decision(id, rule, Execution::Each, Keyword::Set, ranks))
}

/// A change that was reverted to be compared is made again.
pub(super) fn again<const N: usize>(id: u64, ranks: [Rank; N]) -> ChangeEvent {
    ChangeEvent::Decided(Decided {
        again: true,
        ..decision(id, "r", Execution::Each, Keyword::Set, ranks)
    })
}

/// Rule `r` does something else.
pub(super) fn acts<const N: usize>(action: Keyword, id: u64, ranks: [Rank; N]) -> ChangeEvent {
    ChangeEvent::Decided(decision(id, "r", Execution::Each, action, ranks))
}

/// Rule `r` calls a function of each copy of a library; a rank has several.
pub(super) fn calls_copies<const N: usize>(id: u64, ranks: [Rank; N]) -> ChangeEvent {
    let mut decided = decision(id, "r", Execution::Each, Keyword::Call, ranks);
    decided.parts.iter_mut().for_each(|part| part.is_copy = true);
    ChangeEvent::Decided(decided)
}

pub(super) fn decided_together<const N: usize>(id: u64, ranks: [Rank; N]) -> ChangeEvent {
    ChangeEvent::Decided(decision(id, "r", Execution::Together, Keyword::Set, ranks))
}

pub(super) fn barred<const N: usize>(id: u64, reason: &str, ranks: [Rank; N]) -> ChangeEvent {
    ChangeEvent::Decided(decision(
        id,
        "r",
        Execution::Barred(reason.to_owned()),
        Keyword::Set,
        ranks,
    ))
}

pub(super) fn predicted<const N: usize>(id: u64, prediction: &str, ranks: [Rank; N]) -> ChangeEvent {
    ChangeEvent::Decided(Decided {
        expect: Some(prediction.to_owned()),
        ..decision(id, "r", Execution::Each, Keyword::Set, ranks)
    })
}

pub(super) fn switches(id: u64, switches: &[ProbeSwitch]) -> ChangeEvent {
    let how = Execution::Switch(switches.to_vec());
    ChangeEvent::Decided(decision(id, "r", how, Keyword::Enable, []))
}

pub(super) fn switch(slot: u32, on: bool) -> ProbeSwitch {
    let (rule, probe) = (0, 0);
    ProbeSwitch {
        rule,
        probe,
        slot,
        on,
    }
}

fn receipt(id: u64, part: usize, outcome: ChangeOutcome, number: u64, may_pass: bool) -> ChangeEvent {
    let shown = outcome.is_done().then(|| {
        Box::new(ShownChange {
            number,
            ..ShownChange::default()
        })
    });
    ChangeEvent::Receipt {
        decision: DecisionId(id),
        part,
        answer: OrderAnswer {
            outcome,
            may_pass,
            shown,
        },
    }
}

/// Part `part` of a decision was written, with this number in the journal.
pub(super) fn written(id: u64, part: usize, number: u64) -> ChangeEvent {
    receipt(id, part, ChangeOutcome::Written, number, false)
}

pub(super) fn came(id: u64, part: usize, outcome: ChangeOutcome, number: u64) -> ChangeEvent {
    receipt(id, part, outcome, number, false)
}

pub(super) fn refused(id: u64, part: usize, reason: &str) -> ChangeEvent {
    receipt(id, part, ChangeOutcome::Refused(reason.to_owned()), 0, false)
}

pub(super) fn not_reached(id: u64, part: usize) -> ChangeEvent {
    receipt(
        id,
        part,
        ChangeOutcome::NotReached("not reached".to_owned()),
        0,
        true,
    )
}

pub(super) fn hindered(id: u64, part: usize, reason: &str) -> ChangeEvent {
    receipt(id, part, ChangeOutcome::Refused(reason.to_owned()), 0, true)
}

pub(super) fn guard(verdict: GuardVerdict) -> GuardView {
    GuardView {
        verdict,
        effect: (verdict == GuardVerdict::Kept).then_some(plan::GuardEffect::Confirmed),
        text: "pace: 1 -> 2".to_owned(),
        ..GuardView::default()
    }
}

/// The guard of rule `r` keeps the change.
pub(super) fn kept(id: u64) -> ChangeEvent {
    judged(id, GuardVerdict::Kept, true, None)
}

pub(super) fn taken_back(id: u64) -> ChangeEvent {
    judged(id, GuardVerdict::Reverted, false, None)
}

pub(super) fn compared(id: u64) -> ChangeEvent {
    judged(id, GuardVerdict::Compared, false, None)
}

pub(super) fn taken_back_in(id: u64, ranks: &[Rank]) -> ChangeEvent {
    judged(
        id,
        GuardVerdict::Reverted,
        false,
        Some(ranks.iter().map(|rank| rank.slot).collect()),
    )
}

fn judged(decision: u64, verdict: GuardVerdict, keeps: bool, slots: Option<BTreeSet<u32>>) -> ChangeEvent {
    ChangeEvent::Judged(JudgedDecision {
        decision: DecisionId(decision),
        rule: "r".to_owned(),
        guard: guard(verdict),
        keeps,
        slots,
    })
}

pub(super) fn reverted(rank: Rank, number: u64) -> ChangeEvent {
    ChangeEvent::Reverted(change(rank, number), RevertResult::Reverted)
}

pub(super) fn changed_since(rank: Rank, number: u64) -> ChangeEvent {
    ChangeEvent::Reverted(change(rank, number), RevertResult::ChangedSince)
}

/// A revert that failed and may succeed later.
pub(super) fn stuck(rank: Rank, number: u64) -> ChangeEvent {
    ChangeEvent::Reverted(change(rank, number), failed("busy", true))
}

/// A revert that failed permanently.
pub(super) fn lost(rank: Rank, number: u64) -> ChangeEvent {
    ChangeEvent::Reverted(change(rank, number), failed("unmapped", false))
}

pub(super) fn failed(reason: &str, may_pass: bool) -> RevertResult {
    let reason = reason.to_owned();
    RevertResult::Failed { reason, may_pass }
}

pub(super) fn removed(rule: &str, keeps: bool) -> ChangeEvent {
    let rule = rule.to_owned();
    ChangeEvent::Removed { rule, keeps }
}

pub(super) fn stop() -> ChangeEvent {
    stop_on_trial(Ending::Session, &[])
}

pub(super) fn stop_on_trial(ending: Ending, decisions: &[u64]) -> ChangeEvent {
    let on_trial = decisions.iter().map(|decision| TrialProgress {
        decision: DecisionId(*decision),
        seen: 2,
        over: 5,
    });
    let on_trial = on_trial.collect();
    let time_to_verdict = BTreeMap::from([("r".to_owned(), (3.0, 203.0))]);
    ChangeEvent::Stop {
        ending,
        on_trial,
        time_to_verdict,
    }
}

/// The actuator of this machine has reverted the first changes and left the others.
pub(super) fn reverts(reverted: &[ChangeId], kept: &[ChangeId]) -> ChangeEvent {
    let reverted = reverted.iter().map(|change| (*change, RevertResult::Reverted));
    let reverts = MachineReverts {
        reverted: reverted.collect(),
        kept: kept.to_vec(),
        ..MachineReverts::default()
    };
    ChangeEvent::ActuatorEnded(MachineId::HERE, reverts)
}

pub(super) fn order(rank: Rank, decision: u64, part: usize) -> ChangeEffect {
    order_after(rank, decision, part, [])
}

/// As [`order`], after these changes are reverted.
pub(super) fn order_after<const N: usize>(
    rank: Rank,
    decision: u64,
    part: usize,
    replaces: [ChangeId; N],
) -> ChangeEffect {
    let replaces = replaces.to_vec();
    ChangeEffect::Order(
        rank.machine,
        Order::Do {
            decision: DecisionId(decision),
            part,
            replaces,
        },
    )
}

pub(super) fn order_together(machine: u32, decision: u64) -> ChangeEffect {
    ChangeEffect::Order(
        MachineId(machine),
        Order::Together {
            decision: DecisionId(decision),
        },
    )
}

pub(super) fn revert<const N: usize>(changes: [ChangeId; N]) -> ChangeEffect {
    ChangeEffect::Order(changes[0].machine, Order::Revert(changes.to_vec()))
}

pub(super) fn confirm(rank: Rank, number: u64) -> ChangeEffect {
    ChangeEffect::Order(rank.machine, Order::Confirm(change(rank, number)))
}

pub(super) fn give_up(machine: u32, decision: u64) -> ChangeEffect {
    ChangeEffect::Order(MachineId(machine), Order::GiveUp(DecisionId(decision)))
}

/// The queue is full for this order.
pub(super) fn no_room(effect: ChangeEffect) -> ChangeEvent {
    match effect {
        ChangeEffect::Order(machine, order) => ChangeEvent::NoRoom(machine, order),
        other => panic!("no order: {other:?}"),
    }
}

/// Reports to the rules that a decision was carried out.
pub(super) fn applied(decision: u64) -> ChangeEffect {
    ChangeEffect::Result(DecisionId(decision), Ok(()))
}

pub(super) fn not_applied(decision: u64, reason: &str) -> ChangeEffect {
    ChangeEffect::Result(DecisionId(decision), Err(NotDone::for_good(reason)))
}

pub(super) fn not_now(decision: u64, reason: &str) -> ChangeEffect {
    let why = NotDone {
        may_pass: true,
        ..NotDone::for_good(reason)
    };
    ChangeEffect::Result(DecisionId(decision), Err(why))
}

pub(super) fn not_needed(decision: u64, processes: usize) -> ChangeEffect {
    ChangeEffect::Result(DecisionId(decision), Err(NotDone::there(processes)))
}

pub(super) fn say_done(count: usize) -> ChangeEffect {
    let text = format!("{} written and read back", plural(count, "change"));
    say_did(&text)
}

pub(super) fn say_did(text: &str) -> ChangeEffect {
    let (rule, text) = ("r".to_owned(), text.to_owned());
    ChangeEffect::Say(ChangeNotice::Done { rule, text })
}

pub(super) fn say_not_done(reason: &str) -> ChangeEffect {
    let (rule, reason) = ("r".to_owned(), reason.to_owned());
    ChangeEffect::Say(ChangeNotice::NotDone { rule, reason })
}

pub(super) fn say_too_late() -> ChangeEffect {
    let rule = "r".to_owned();
    ChangeEffect::Say(ChangeNotice::TooLate { rule })
}

pub(super) fn say_guard(end: &str) -> ChangeEffect {
    ChangeEffect::Say(ChangeNotice::Guard(format!("pace: 1 -> 2; {end}")))
}

/// Its revert failed and is retried.
pub(super) fn say_retried(rank: Rank, number: u64, reason: &str) -> ChangeEffect {
    let (change, outcome) = (change(rank, number), ChangeOutcome::NotBack(reason.to_owned()));
    ChangeEffect::Say(ChangeNotice::Retried { change, outcome })
}

pub(super) fn say_settled(rank: Rank, number: u64, outcome: ChangeOutcome) -> ChangeEffect {
    let change = change(rank, number);
    ChangeEffect::Say(ChangeNotice::Settled { change, outcome })
}

/// The outcomes that are shown.
pub(super) fn outcomes(changes: &Changes) -> Vec<String> {
    changes
        .views(&[])
        .into_iter()
        .map(|view| view.outcome.to_string())
        .collect()
}

/// The verdicts that are shown, empty if there is none.
pub(super) fn verdicts(changes: &Changes) -> Vec<&'static str> {
    let views = changes.views(&[]).into_iter();
    views
        .map(|view| view.guard.map_or("", |guard| guard.verdict.name()))
        .collect()
}

/// The last line of the session.
pub(super) fn at_last(changes: &Changes) -> String {
    changes.summary(0, "tuneagent undo 7", "app")
}

/// Rule `r` has a finding.
pub(super) fn found(changes: &mut Changes, text: &str) {
    changes.findings.open(FindingView {
        rule: "r".to_owned(),
        text: text.to_owned(),
        next_start: Some("OMP_NUM_THREADS=1".to_owned()),
        ..FindingView::default()
    });
}

/// One decision of one value, written as change 1 of rank 0.
pub(super) fn with_one_change() -> Changes {
    after!(new(); decided(1, [R0]), ms(0); written(1, 0, 1), ms(1))
}

/// The same with two ranks.
pub(super) fn with_two_changes() -> Changes {
    after!(new(); decided(1, [R0, R1]), ms(0); written(1, 0, 1), ms(1); written(1, 1, 1), ms(1))
}
