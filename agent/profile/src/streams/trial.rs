//! What a session reports of the changes that were made for a contract.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::snapshot::outcome::{
    COMPARED, ENDED, KEPT, NOT_JUDGED, NOT_REVERTED, ON_TRIAL, REVERTED, REVERTING, WRITTEN,
};

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

/// The verdict of a guard (docs/report.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum GuardVerdict {
    OnTrial,
    /// Reverted for some windows, to compare them with those in which it was made.
    Compared,
    Reverting,
    Kept,
    Reverted,
    NotReverted,
    NotJudged,
    Ended,
    /// It was not made, so nothing is judged.
    NotMade,
}

impl GuardVerdict {
    pub fn is_final(self) -> bool {
        !matches!(
            self,
            GuardVerdict::OnTrial | GuardVerdict::Compared | GuardVerdict::Reverting
        )
    }
}

impl TryFrom<String> for GuardVerdict {
    type Error = String;

    fn try_from(word: String) -> Result<GuardVerdict, String> {
        Ok(match word.as_str() {
            ON_TRIAL => GuardVerdict::OnTrial,
            COMPARED => GuardVerdict::Compared,
            REVERTING => GuardVerdict::Reverting,
            KEPT => GuardVerdict::Kept,
            REVERTED => GuardVerdict::Reverted,
            NOT_REVERTED => GuardVerdict::NotReverted,
            NOT_JUDGED => GuardVerdict::NotJudged,
            ENDED => GuardVerdict::Ended,
            _ => return Err(format!("`{word}` is no verdict of a guard")),
        })
    }
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
        None => (GuardVerdict::NotMade, change.outcome.as_str()),
    });
    verdicts.min_by_key(|(verdict, _)| (verdict.is_final(), *verdict == GuardVerdict::Kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::outcome::VERDICTS;

    fn change(pid: i32, outcome: &str, verdict: Option<&str>) -> ReportedChange {
        ReportedChange {
            rule: Some("r".to_owned()),
            pid,
            outcome: outcome.to_owned(),
            guard: verdict.map(|word| ReportedGuard {
                verdict: GuardVerdict::try_from(word.to_owned()).unwrap(),
                text: word.to_owned(),
            }),
        }
    }

    #[test]
    fn every_word_for_a_verdict_is_known() {
        for word in VERDICTS {
            assert!(GuardVerdict::try_from(word.to_owned()).is_ok(), "{word}");
        }
        assert!(GuardVerdict::try_from("perhaps".to_owned()).is_err());
    }

    #[test]
    fn a_step_is_judged_by_its_newest_changes_and_the_worst_of_them() {
        use GuardVerdict::{Compared, Kept, NotMade, OnTrial, Reverted};
        let kept = change(1, "written", Some("kept"));
        let rows: [(&[ReportedChange], Option<GuardVerdict>); 6] = [
            (&[], None),
            (&[change(1, "written", None)], Some(OnTrial)),
            (
                &[change(1, "reverted", Some("reverted to compare")), kept.clone()],
                Some(Kept),
            ),
            (
                &[kept.clone(), change(2, "reverted", Some("reverted to compare"))],
                Some(Compared),
            ),
            (
                &[kept.clone(), change(2, "reverted", Some("reverted"))],
                Some(Reverted),
            ),
            (
                &[kept, change(2, "there is no such variable", None)],
                Some(NotMade),
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
