//! The history of changes for people: what was changed, the predicted effect, the outcome, and the reasons.

use std::collections::{BTreeMap, BTreeSet};

use plan::Keyword;
use profile::format::{plural, time};
use profile::outcome::ChangeOutcome;
use profile::{ChangeView, Snapshot};

/// Number of newest decisions that are shown.
const DECISIONS_SHOWN: usize = 5;
/// The result of a function without a value, as the tuner writes it.
const VOID: &str = "nothing";
/// Maximum number of reasons shown: users do not read more.
const REASONS_SHOWN: usize = 3;

/// The newest decisions and their outcomes.
pub(super) fn change_lines(snapshot: &Snapshot) -> Vec<String> {
    let blocks = blocks(snapshot);
    if blocks.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!(" {}", plural(blocks.len(), "decision"))];
    let before = blocks.len().saturating_sub(DECISIONS_SHOWN);
    if before > 0 {
        lines.push(format!("    {} before these", plural(before, "decision")));
    }
    lines.extend(blocks.into_iter().skip(before).flatten());
    lines
}

/// A block for each decision, in order.
pub(super) fn blocks(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let decisions = (1..).zip(decisions(&snapshot.changes));
    decisions
        .map(|(number, changes)| block(number, &changes))
        .collect()
}

/// The decisions of one rule in one block, the newest first.
pub(super) fn of_rule(snapshot: &Snapshot, rule: &str) -> Vec<String> {
    let decisions = (1..).zip(decisions(&snapshot.changes));
    let of_rule = |changes: &[&ChangeView]| changes.iter().any(|change| change.rule == rule);
    let mut blocks: Vec<_> = decisions
        .filter(|(_, changes)| of_rule(changes))
        .map(|(number, changes)| block(number, &changes))
        .collect();
    blocks.reverse();
    blocks.concat()
}

/// Groups changes by decision, in the order of the decisions.
fn decisions(changes: &[ChangeView]) -> Vec<Vec<&ChangeView>> {
    let mut decisions: Vec<Vec<&ChangeView>> = Vec::new();
    let mut indices = BTreeMap::new();
    for change in changes {
        let index = *indices.entry(change.decision).or_insert(decisions.len());
        match decisions.get_mut(index) {
            Some(known) => known.push(change),
            None => decisions.push(vec![change]),
        }
    }
    decisions
}

/// `number` counts the listed decisions; decisions that only switch probes are not listed.
fn block(number: usize, changes: &[&ChangeView]) -> Vec<String> {
    let Some(first) = changes.first() else {
        return Vec::new();
    };
    // A process has several changes where several of its libraries have a copy.
    let processes: BTreeSet<i32> = changes.iter().map(|change| change.pid).collect();
    let in_how_many = match (changes.len(), processes.len()) {
        (1, _) => String::new(),
        (copies, 1) => format!(" in {copies} copies"),
        (_, processes) => format!(" in {processes} processes"),
    };
    let values = match (first.action, first.old.as_str()) {
        (Keyword::Call, was) => call_result(was, &first.new),
        (_, "") => first.new.clone(),
        (_, old) => format!("{old} -> {}", first.new),
    };
    let first_at = first.first_at;
    let first_at = first_at.map_or_else(String::new, |at| format!(" (first at {})", time(at)));
    let what = format!("{} {values}", first.variable);
    let mut lines = vec![format!(
        " {number:>2}  {}   {}{in_how_many} at {}{first_at}: {}",
        first.rule,
        what.trim_end(),
        time(first.at),
        outcomes(changes),
    )];
    let mut report = |word: &str, text: &str| lines.push(format!("     {word:<9} {text}"));
    if let Some(expect) = &first.expect {
        report("predicted", expect);
    }
    if let Some(guard) = &first.guard {
        let are_reverted = changes
            .iter()
            .all(|change| change.outcome == ChangeOutcome::Reverted);
        match are_reverted {
            true => report("guard", &guard.sentence_after(&ChangeOutcome::Reverted)),
            false => report("guard", &guard.sentence()),
        }
    }
    if !first.because.is_empty() {
        report("because", &reasons(&first.because));
    }
    lines
}

/// What a call was to replace, and its result, which is no old value.
fn call_result(was: &str, result: &str) -> String {
    let was = (!was.is_empty()).then(|| format!("(was {was})"));
    let result = (!matches!(result, "" | VOID)).then(|| format!("returned {result}"));
    was.into_iter().chain(result).collect::<Vec<_>>().join(" ")
}

/// The reasons of a decision. If there are many, only the first comparisons: they contain most of the values,
/// and the report has all.
fn reasons(because: &[String]) -> String {
    let is_comparison = |reason: &&String| {
        let written = reason.split(": ").next().unwrap_or_default();
        [" > ", " < ", " >= ", " <= ", " == "]
            .iter()
            .any(|sign| written.contains(sign))
    };
    let decided = because.iter().filter(is_comparison).take(REASONS_SHOWN);
    let decided: Vec<&str> = decided.map(String::as_str).collect();
    match because.len() > REASONS_SHOWN + 1 && !decided.is_empty() {
        true => format!("{} (all reasons: --json)", decided.join("; ")),
        false => because.join("; "),
    }
}

/// The outcome of each change, without consecutive duplicates.
fn outcomes(changes: &[&ChangeView]) -> String {
    let mut outcomes: Vec<String> = changes.iter().map(|change| change.outcome.to_string()).collect();
    outcomes.dedup();
    outcomes.join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use profile::{GuardView, outcome::GuardVerdict};

    #[test]
    fn of_many_reasons_the_first_comparisons_are_shown() {
        let of = |reasons: &[&str]| {
            reasons
                .iter()
                .map(|reason| (*reason).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            reasons(&of(&["best: 7", "a > b: 2 > 1"])),
            "best: 7; a > b: 2 > 1"
        );
        assert_eq!(
            reasons(&of(&[
                "free: 0.4",
                "left: 1",
                "size: 1",
                "a > b: 2 > 1",
                "c <= d: 1 <= 2"
            ])),
            "a > b: 2 > 1; c <= d: 1 <= 2 (all reasons: --json)"
        );
    }

    #[test]
    fn the_result_of_a_call_is_shown_as_what_it_returned() {
        for (was, result, shown) in [
            ("", "1", "returned 1"),
            ("", VOID, ""),
            ("4", VOID, "(was 4)"),
            ("4", "0", "(was 4) returned 0"),
        ] {
            assert_eq!(call_result(was, result), shown);
        }
    }

    #[test]
    fn a_change_is_shown_with_prediction_result_and_reasons() {
        let change = ChangeView {
            decision: 3,
            rule: "optimal-workers".into(),
            variable: "NOptWorkers".into(),
            old: "2".into(),
            new: "7".into(),
            at: Duration::from_millis(3200),
            first_at: Some(Duration::from_millis(1100)),
            expect: Some("61.2 ms".into()),
            because: vec!["best: 7".into(), "T(begin.workers): 108 ms".into()],
            outcome: ChangeOutcome::Written,
            guard: Some(GuardView::without(
                GuardVerdict::NotJudged,
                "the program ended after 3 of 5 windows".into(),
            )),
            ..ChangeView::default()
        };
        let of = |pids: [i32; 2]| Snapshot {
            changes: pids
                .map(|pid| ChangeView {
                    pid,
                    ..change.clone()
                })
                .to_vec(),
            ..Snapshot::default()
        };
        let copies = change_lines(&of([7, 7])).join("\n");
        assert!(copies.contains("NOptWorkers 2 -> 7 in 2 copies at"), "{copies}");
        let snapshot = of([7, 8]);
        insta::assert_snapshot!(change_lines(&snapshot).join("\n"), @"
        1 decision
         1  optimal-workers   NOptWorkers 2 -> 7 in 2 processes at 3.2 s (first at 1.1 s): written
            predicted 61.2 ms
            guard     not judged: the program ended after 3 of 5 windows
            because   best: 7; T(begin.workers): 108 ms
        ");
    }
}
