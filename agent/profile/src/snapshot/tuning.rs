//! Findings and changes of rules, and the judgement on them.

use std::time::Duration;

use plan::{Keyword, Mode};
pub use rules::Standing;
use serde::{Deserialize, Serialize};

use super::outcome::{ChangeOutcome, GuardVerdict, KEPT_UNTIL_THE_END};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleView {
    pub name: String,
    /// Identifies the tune within the rule, by its action.
    pub tune: String,
    pub mode: Mode,
    /// Why it does not act, or what it did.
    pub state: String,
    /// `state` as data, for filtering.
    pub standing: Standing,
    /// The user named it in `--apply`.
    pub is_named: bool,
    /// There is nothing to report: none of its processes existed throughout its last window.
    pub saw_no_process: bool,
    /// At least one of its processes was present in some window.
    pub had_processes: bool,
    /// Its condition had a value in some window.
    pub had_value: bool,
    /// Windows that closed and were evaluated.
    pub windows: u64,
    /// Hits that were left out of windows, and windows that were not evaluated.
    pub dropped: rules::Dropped,
}

impl RuleView {
    /// Whether there were processes for it, and its condition had a value or waits for one.
    pub fn was_evaluated(&self) -> bool {
        self.had_processes && (self.had_value || self.standing != Standing::NoValue)
    }

    /// The number of evaluated windows and what was left out, each with its most frequent reason; `None` if
    /// nothing was.
    pub fn left_out(&self) -> Option<String> {
        let part = |what: &dyn Fn(u64) -> String, of: Vec<rules::LeftOut>| {
            let all: u64 = of.iter().map(|one| one.count).sum();
            let most = of.into_iter().max_by_key(|one| one.count)?;
            Some(match most.count == all {
                true => format!("{}: {}", what(all), most.words),
                false => format!("{} ({} {})", what(all), most.count, most.words),
            })
        };
        let parts = [
            part(&|all| format!("{all} left out"), self.dropped.windows()),
            part(
                &|all| format!("{all} {} in no window", if all == 1 { "hit" } else { "hits" }),
                self.dropped.hits(),
            ),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{} windows evaluated; {}", self.windows, parts.join("; ")))
    }
}

/// Maximum number of shown values: eight metrics of 256 rules. The rules themselves have no such bound.
pub const RULE_VALUES_MAX: usize = 2048;

/// The value of a rule's metric in its last closed window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleValue {
    pub rule: String,
    pub metric: String,
    /// In seconds, bytes, or without a unit. For a table the mean of its rows; for a boolean 0 or 1.
    pub value: f64,
    /// The value for display.
    pub text: String,
}

/// The begin of the line of [`FindingView::now`] that says what a user should know before the command is used.
pub const RISK: &str = "risk: ";

/// A rule whose condition holds, or held until it was repaired.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindingView {
    pub rule: String,
    /// Since the start of the session.
    pub at: Duration,
    /// When its condition ceased to hold; `None` while it holds, and for a repaired finding.
    pub gone_at: Option<Duration>,
    /// What was found, with its numbers: those of a window of the rule.
    pub text: String,
    /// When the window of these numbers was evaluated, since the start of the session.
    pub numbers_at: Duration,
    /// What can be done now, and its effect; for a repair that was reverted at the end, how to make it stay.
    pub now: Option<String>,
    /// How to start the program next time.
    pub next_start: Option<String>,
    pub repaired: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeView {
    /// The number in the journal of the process.
    pub number: u64,
    pub rule: String,
    pub pid: i32,
    pub rank: Option<u32>,
    /// The keyword of the rule: `set`, `call`.
    pub action: Keyword,
    /// The decision, common to all processes.
    pub decision: u64,
    /// When it was made, since all probes were armed.
    pub at: Duration,
    /// When it was first made, if it has been reverted to compare since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_at: Option<Duration>,
    /// The effect that the rule predicted, for display.
    pub expect: Option<String>,
    /// The numbers on which the decision was based.
    pub because: Vec<String>,
    /// What was changed: a variable, or the action in words.
    pub variable: String,
    /// Empty if there is none.
    pub old: String,
    /// The new value, or the result of a call; empty if there is none.
    pub new: String,
    /// What a revert does not restore, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remains: Option<String>,
    pub mechanism: String,
    /// How long the program was held for the change, in nanoseconds.
    pub hold_ns: u64,
    /// Set once the session has settled the change; an event that announces it has none.
    #[serde(skip)]
    pub outcome: ChangeOutcome,
    /// The guard's judgement; `None` without a guard.
    pub guard: Option<GuardView>,
    /// The delay after its cause; `None` for a first value, and for a value that was not written.
    pub reaction: Option<Reaction>,
}

/// The time from a window to the change that follows, in consecutive parts in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reaction {
    /// The length of the window (MATE: T_Iter).
    pub window_ns: u64,
    /// From its end until all its data was read (T_Upd).
    pub update_ns: u64,
    /// Until the rules were evaluated (T_Eval).
    pub evaluate_ns: u64,
    /// Until the order was given to the actuator (T_Tun).
    pub order_ns: u64,
    /// Until the value was written and read back.
    pub write_ns: u64,
}

impl Reaction {
    /// From the end of the window to the change, in nanoseconds.
    pub fn lag_ns(&self) -> u64 {
        self.update_ns + self.evaluate_ns + self.order_ns + self.write_ns
    }
}

/// The judgement on a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardView {
    /// The objective before the change, in its own unit; `None` if it could not be judged.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// Factor of improvement: after/before when maximising, before/after when minimising.
    pub ratio: Option<f64>,
    /// The 98 % confidence interval of `ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The guard's finding; `None` if not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<plan::GuardEffect>,
    pub verdict: GuardVerdict,
    /// Why there is no judgement, or why the change could not be reverted.
    pub reason: Option<String>,
    /// The judgement, with units. [`GuardView::sentence`] adds what becomes of the change.
    pub text: String,
}

impl GuardView {
    /// For a change without a judgement.
    pub fn without(verdict: GuardVerdict, reason: String) -> GuardView {
        GuardView {
            verdict,
            text: format!("{verdict}: {reason}"),
            reason: Some(reason),
            ..GuardView::default()
        }
    }

    /// As `sentence`, for a change with this outcome: one that was kept is reverted at the end of the session.
    pub fn sentence_after(&self, outcome: &ChangeOutcome) -> String {
        match (self.verdict, outcome) {
            (GuardVerdict::Kept, ChangeOutcome::Reverted) => format!("{}; {KEPT_UNTIL_THE_END}", self.text),
            _ => self.sentence(),
        }
    }

    /// For display: the judgement and what becomes of the change.
    pub fn sentence(&self) -> String {
        let text = &self.text;
        match (self.verdict, &self.reason) {
            (GuardVerdict::OnTrial | GuardVerdict::NotJudged, _) => text.clone(),
            (GuardVerdict::Ended, _) => format!("{text}; {}", ChangeOutcome::Reverted),
            (verdict, None) => format!("{text}; {verdict}"),
            (verdict, Some(reason)) => format!("{text}; {verdict}: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::outcome::*, GuardView};

    #[test]
    fn the_sentence_of_a_guard_says_what_becomes_of_the_change() {
        let judged = |verdict, reason: Option<&str>| GuardView {
            verdict,
            reason: reason.map(str::to_owned),
            text: "pace: 1 -> 2".to_owned(),
            ..GuardView::default()
        };
        for (guard, sentence) in [
            (judged(GuardVerdict::Kept, None), "pace: 1 -> 2; kept"),
            (judged(GuardVerdict::Reverted, None), "pace: 1 -> 2; reverted"),
            (judged(GuardVerdict::Ended, None), "pace: 1 -> 2; reverted"),
            (
                judged(GuardVerdict::Reverting, None),
                "pace: 1 -> 2; being reverted",
            ),
            (
                judged(GuardVerdict::Compared, None),
                "pace: 1 -> 2; reverted to compare",
            ),
            (
                judged(GuardVerdict::NotReverted, Some("busy")),
                "pace: 1 -> 2; not reverted: busy",
            ),
            (
                GuardView::without(GuardVerdict::OnTrial, "2 of 5 windows".to_owned()),
                "on trial: 2 of 5 windows",
            ),
            (
                GuardView::without(GuardVerdict::NotJudged, "it ended".to_owned()),
                "not judged: it ended",
            ),
        ] {
            assert_eq!(guard.sentence(), sentence);
            assert_eq!(guard.sentence_after(&ChangeOutcome::Written), sentence);
        }
        assert_eq!(
            judged(GuardVerdict::Kept, None).sentence_after(&ChangeOutcome::Reverted),
            "pace: 1 -> 2; kept until the session ended"
        );
        assert_eq!(
            judged(GuardVerdict::Reverted, None).sentence_after(&ChangeOutcome::Reverted),
            "pace: 1 -> 2; reverted"
        );
    }
}
