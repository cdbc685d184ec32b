//! Converts outputs of the engine for the session.

use profile::GuardView;
use profile::outcome::GuardVerdict;
use rules::Output;
use session::changes::JudgedDecision;

use super::{Act, RuleBook};

impl RuleBook {
    /// `None` for an output that does not concern the session.
    pub(super) fn act(&self, output: Output) -> Option<Act> {
        Some(match output {
            Output::FindingOpened(finding) => found(finding, true),
            Output::FindingClosed { rule, .. } => {
                // Several tunes of a rule have one finding.
                let is_open = (self.engine.findings().iter()).any(|finding| finding.rule == rule);
                return (!is_open).then(|| Act::Gone {
                    rule: self.name_of(rule),
                });
            }
            Output::Decision(decision) => Act::Decided(Box::new(decision.into())),
            Output::Verdict(verdict) => Act::Judged(JudgedDecision {
                decision: verdict.decision,
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
                        _ if verdict.keep => GuardVerdict::Kept,
                        _ if verdict.ended => GuardVerdict::Ended,
                        _ if verdict.compares => GuardVerdict::Compared,
                        _ => GuardVerdict::Reverted,
                    },
                    reason: None,
                    text: verdict.text,
                },
            }),
        })
    }
}

/// A condition that holds, and whether it did not hold before.
pub(super) fn found(finding: rules::Finding, is_new: bool) -> Act {
    Act::Found {
        rule: finding.rule_name,
        text: finding.text,
        next_start: finding.next_start,
        is_new,
    }
}

/// Puts reverts first, and the newest change before those that it may depend on: a function of a library
/// before the library.
pub(super) fn newest_first(acts: Vec<Act>) -> Vec<Act> {
    let (mut judged, others): (Vec<Act>, Vec<Act>) =
        acts.into_iter().partition(|act| matches!(act, Act::Judged(_)));
    judged.sort_by_key(|act| match act {
        Act::Judged(judged) => std::cmp::Reverse(Some(judged.decision)),
        _ => std::cmp::Reverse(None),
    });
    judged.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use rules::{CheckedRule, DecisionId, Observation, ProbeId, ProcessFacts, ProcessId, Scalar, Time};

    use super::*;

    #[test]
    fn verdicts_come_first_and_of_them_that_of_the_newest_decision() {
        let judged = |decision| {
            Act::Judged(JudgedDecision {
                decision: DecisionId(decision),
                ..JudgedDecision::default()
            })
        };
        let gone = |rule: &str| Act::Gone { rule: rule.into() };
        let acts = vec![gone("b"), judged(3), judged(7), gone("a"), judged(5)];
        let sorted = vec![judged(7), judged(5), judged(3), gone("b"), gone("a")];
        assert_eq!(newest_first(acts), sorted);
    }

    #[test]
    fn several_tunes_of_a_rule_have_one_finding_which_is_gone_with_the_last() {
        let source = "rule: a\nabout: b\nroles:\n  master: rank == 0\nprobes:\n  begin: {role: master, entry: f}\n  \
                      end: {role: master, return: f}\ncapture:\n  begin.number: arg(1)\nwindows:\n  \
                      iteration: {from: begin, to: end, key: number}\ntune:\n  - finding: first\n    when: begin.number < 5\n  \
                      - finding: second\n    when: begin.number < 3\n";
        let rule = CheckedRule::from_source(source).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let mut book = RuleBook::of(vec![rule], None).unwrap_or_else(|_| panic!("the rule is loaded"));
        book.start(1);
        let facts = ProcessFacts {
            rank: Some(0),
            ..ProcessFacts::default()
        };
        book.join_facts(0, facts, 1);
        let (id, ..) = book.engine.rules().next().unwrap();
        let mut shown = Vec::new();
        for number in 1..=6 {
            for (probe, captures, ms) in [
                (0, vec![Ok(Scalar::Number(number as f64))], 0),
                (1, Vec::new(), 8),
            ] {
                book.engine.observe(Observation::Hit {
                    rule: id,
                    probe: ProbeId(probe),
                    process: ProcessId(0),
                    thread: 1,
                    time: Time((10 * number as u64 + ms) * 1_000_000),
                    duration_ns: 0,
                    captures: captures.into(),
                });
            }
            let now_ns = (10 * number as u64 + 9) * 1_000_000;
            book.watermark(std::iter::once(0), now_ns);
            shown.push(book.tick(now_ns).iter().fold(None, |_, act| match act {
                Act::Found { text, .. } => Some(text.clone()),
                Act::Gone { .. } => Some("gone".to_owned()),
                other => panic!("{other:?}"),
            }));
        }
        let shown: Vec<Option<&str>> = shown.iter().map(Option::as_deref).collect();
        let first = Some("first");
        assert_eq!(shown, [first, first, first, first, Some("gone"), None]);
    }
}
