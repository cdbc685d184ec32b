//! What a session reports of the changes that were made for a contract.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::snapshot::outcome::{GuardVerdict, WRITTEN};

/// What a session changed in a process.
#[derive(Clone, Debug, Deserialize)]
pub struct ReportedChange {
    pub rule: Option<String>,
    pub pid: i32,
    pub outcome: String,
    pub guard: Option<ReportedGuard>,
}

/// What its guard found.
#[derive(Clone, Debug, Deserialize)]
pub struct ReportedGuard {
    pub verdict: GuardVerdict,
    pub text: String,
}

/// The verdict on what a rule changed last in each process, and its text: of several the one that is not final, or
/// that is against the change. `None` before the first change.
pub(super) fn judged<'a>(changes: &'a [ReportedChange], rule: &str) -> Option<(GuardVerdict, &'a str)> {
    let of_rule = changes
        .iter()
        .filter(|change| change.rule.as_deref() == Some(rule));
    let newest: BTreeMap<i32, &ReportedChange> = of_rule.map(|change| (change.pid, change)).collect();
    let verdicts = newest.values().map(|change| match &change.guard {
        Some(guard) => (guard.verdict, guard.text.as_str()),
        // It has been written just now.
        None if change.outcome == WRITTEN => (GuardVerdict::OnTrial, WRITTEN),
        None => (GuardVerdict::NotJudged, change.outcome.as_str()),
    });
    verdicts.min_by_key(|(verdict, _)| (verdict.is_final(), *verdict == GuardVerdict::Kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(pid: i32, outcome: &str, verdict: Option<GuardVerdict>) -> ReportedChange {
        ReportedChange {
            rule: Some("r".to_owned()),
            pid,
            outcome: outcome.to_owned(),
            guard: verdict.map(|verdict| ReportedGuard {
                verdict,
                text: verdict.to_string(),
            }),
        }
    }

    #[test]
    fn a_step_is_judged_by_its_newest_changes_and_the_worst_of_them() {
        use GuardVerdict::{Compared, Kept, NotJudged, OnTrial, Reverted};
        let kept = change(1, "written", Some(Kept));
        let rows: [(&[ReportedChange], Option<GuardVerdict>); 6] = [
            (&[], None),
            (&[change(1, "written", None)], Some(OnTrial)),
            (&[change(1, "reverted", Some(Compared)), kept.clone()], Some(Kept)),
            (
                &[kept.clone(), change(2, "reverted", Some(Compared))],
                Some(Compared),
            ),
            (
                &[kept.clone(), change(2, "reverted", Some(Reverted))],
                Some(Reverted),
            ),
            (
                &[kept, change(2, "there is no such variable", None)],
                Some(NotJudged),
            ),
        ];
        for (changes, expected) in rows {
            assert_eq!(
                judged(changes, "r").map(|(verdict, _)| verdict),
                expected,
                "{changes:?}"
            );
            assert_eq!(judged(changes, "another"), None);
        }
    }
}
