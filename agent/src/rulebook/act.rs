//! Outputs of the engine, as the session takes them.

use rules::Output;

use super::{Act, RuleBook};
use crate::snapshot::{
    GuardView,
    outcome::{COMPARED, ENDED, KEPT, UNDONE},
};

impl RuleBook {
    pub(super) fn act(&self, output: Output) -> Act {
        match output {
            Output::FindingOpened(finding) => found(finding, true),
            Output::FindingClosed { rule, .. } => Act::Gone {
                rule: self.name_of(rule),
            },
            Output::Decision(decision) => Act::Decided(decision.into()),
            Output::Verdict(verdict) => Act::Judged {
                decision: verdict.decision.0,
                rule: self.name_of(verdict.rule),
                slots: (verdict.processes.as_ref())
                    .map(|processes| processes.iter().map(|process| process.0).collect()),
                keeps: verdict.keep,
                guard: GuardView {
                    before: verdict.means.map(|(before, _)| before),
                    after: verdict.means.map(|(_, after)| after),
                    ratio: verdict.ratio,
                    interval: verdict.interval,
                    effect: verdict.verdict,
                    verdict: match verdict {
                        _ if verdict.keep => KEPT,
                        _ if verdict.ended => ENDED,
                        _ if verdict.compares => COMPARED,
                        _ => UNDONE,
                    },
                    reason: None,
                    text: verdict.text,
                },
            },
        }
    }
}

/// A condition that holds, and whether it did not before.
pub(super) fn found(finding: rules::Finding, is_new: bool) -> Act {
    Act::Found {
        rule: finding.rule_name,
        text: finding.text,
        next_start: finding.next_start,
        is_new,
    }
}

/// What is to be taken back goes before all else, and what was done last before what it may rest on: a function of a library before
/// the library.
pub(super) fn newest_first(acts: Vec<Act>) -> Vec<Act> {
    let (mut judged, others): (Vec<Act>, Vec<Act>) = acts
        .into_iter()
        .partition(|act| matches!(act, Act::Judged { .. }));
    judged.sort_by_key(|act| match act {
        Act::Judged { decision, .. } => std::cmp::Reverse(*decision),
        _ => std::cmp::Reverse(0),
    });
    judged.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_come_first_and_of_them_that_of_the_newest_decision() {
        let judged = |decision| Act::Judged {
            decision,
            rule: "r".into(),
            guard: GuardView::default(),
            keeps: false,
            slots: None,
        };
        let gone = |rule: &str| Act::Gone { rule: rule.into() };
        let acts = vec![gone("b"), judged(3), judged(7), gone("a"), judged(5)];
        let sorted = vec![judged(7), judged(5), judged(3), gone("b"), gone("a")];
        assert_eq!(newest_first(acts), sorted);
    }
}
