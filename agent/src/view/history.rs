//! The history of changes, for people: what was changed, what was promised, what came of it, and why.

use crate::{
    format::{duration, plural},
    snapshot::{ChangeView, Snapshot},
};

/// Decisions that are shown, the newest.
const DECISIONS_SHOWN: usize = 5;

/// A block for each of the newest decisions.
pub(super) fn change_lines(snapshot: &Snapshot) -> Vec<String> {
    let mut decisions: Vec<(u64, Vec<&ChangeView>)> = Vec::new();
    for change in &snapshot.changes {
        match decisions.iter_mut().find(|(known, _)| *known == change.decision) {
            Some((_, changes)) => changes.push(change),
            None => decisions.push((change.decision, vec![change])),
        }
    }
    if decisions.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!(" {}", plural(decisions.len(), "decision"))];
    let before = decisions.len().saturating_sub(DECISIONS_SHOWN);
    if before > 0 {
        lines.push(format!("    {} before these", plural(before, "decision")));
    }
    for (_, changes) in decisions.iter().skip(before) {
        lines.extend(block(changes));
    }
    lines
}

fn block(changes: &[&ChangeView]) -> Vec<String> {
    let Some(first) = changes.first() else {
        return Vec::new();
    };
    let in_how_many = match changes.len() {
        1 => String::new(),
        several => format!(" in {several} processes"),
    };
    let from = if first.old.is_empty() {
        String::new()
    } else {
        format!("{} -> ", first.old)
    };
    let mut lines = vec![format!(
        " {:>2}  {}   {} {from}{}{in_how_many} after {}: {}",
        first.decision,
        first.rule,
        first.variable,
        first.new,
        duration(first.at.as_nanos() as f64),
        outcomes(changes),
    )];
    let mut tell = |word: &str, text: &str| lines.push(format!("     {word:<9} {text}"));
    if let Some(expect) = &first.expect {
        tell("promised", expect);
    }
    if let Some(guard) = &first.guard {
        tell("guard", &guard.text);
    }
    if !first.because.is_empty() {
        tell("because", &first.because.join("; "));
    }
    lines
}

/// How each came out, or all alike.
fn outcomes(changes: &[&ChangeView]) -> String {
    let mut outcomes: Vec<&str> = changes.iter().map(|change| change.outcome.as_str()).collect();
    outcomes.dedup();
    outcomes.join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::snapshot::GuardView;

    #[test]
    fn a_change_is_shown_with_promise_result_and_reasons() {
        let change = ChangeView {
            decision: 3,
            rule: "optimal-workers".into(),
            variable: "NOptWorkers".into(),
            old: "2".into(),
            new: "7".into(),
            at: Duration::from_millis(3200),
            expect: Some("61.2 ms".into()),
            because: vec!["best: 7".into(), "T(begin.workers): 108 ms".into()],
            outcome: "written".into(),
            guard: Some(GuardView::without(
                "not judged",
                "the program ended after 3 of 5 windows".into(),
            )),
            ..ChangeView::default()
        };
        let snapshot = Snapshot {
            changes: vec![change.clone(), change],
            ..Snapshot::default()
        };
        insta::assert_snapshot!(change_lines(&snapshot).join("\n"), @"
        1 decision
         3  optimal-workers   NOptWorkers 2 -> 7 in 2 processes after 3.20 s: written
            promised  61.2 ms
            guard     not judged: the program ended after 3 of 5 windows
            because   best: 7; T(begin.workers): 108 ms
        ");
    }
}
