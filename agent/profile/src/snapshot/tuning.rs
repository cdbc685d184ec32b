//! What rules find, what they change, and how that is judged.

use std::time::Duration;

use plan::Keyword;
pub use rules::Standing;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use super::outcome::VERDICTS;

/// One of a few words. A name of its own, for serde borrows what is written as `&str`.
type Word = &'static str;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleView {
    pub name: String,
    /// Which of its tunes this is, by what that would do.
    pub tune: String,
    /// `off`, `advising` or `applying`.
    pub mode: &'static str,
    /// Why it does not act, or what it did.
    pub state: String,
    /// The same for those who show some states and not others.
    pub standing: Standing,
    /// That says nothing: none of the processes that it is for was there for all of its last window.
    pub saw_no_process: bool,
    /// In some window one of them was.
    pub had_processes: bool,
    /// Its condition had a value in some window.
    pub had_value: bool,
    /// Windows of it that closed and were evaluated.
    pub windows: u64,
    /// What was left out of them, or of which no window was evaluated.
    pub dropped: rules::Dropped,
}

impl RuleView {
    /// How many windows were evaluated and what was left out of them, each with the reason for most; none
    /// where nothing was.
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

/// Values that are shown: eight metrics of 256 rules. The rules themselves have no such bound.
pub const RULE_VALUES_MAX: usize = 2048;

/// What a metric of a rule came to in its window that closed last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleValue {
    pub rule: String,
    pub metric: String,
    /// In seconds, bytes, or as it is; of a table the mean of its rows; a truth is 0 or 1.
    pub value: f64,
    /// The same as people read it.
    pub text: String,
}

/// A rule whose condition holds, or held until it was repaired.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindingView {
    pub rule: String,
    /// When, from the start of the session.
    pub at: Duration,
    /// When its condition held no longer; none while it holds, and of what was repaired.
    pub gone_at: Option<Duration>,
    /// What was found, with its numbers.
    pub text: String,
    /// What can be done now, and what that does; of a repair that was reverted at the end, how it stays.
    pub now: Option<String>,
    /// What to start the program with next time.
    pub next_start: Option<String>,
    pub repaired: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeView {
    /// Its number in the journal of its process.
    pub number: u64,
    pub rule: String,
    pub pid: i32,
    pub rank: Option<u32>,
    /// The keyword of the rule: `set`, `call`.
    #[serde(deserialize_with = "keyword")]
    pub action: Word,
    /// The decision that it belongs to: one for all processes.
    pub decision: u64,
    /// When it was made, since all probes were armed.
    pub at: Duration,
    /// When it was first made, if it was reverted to be compared since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_at: Option<Duration>,
    /// What the rule promised of it, as people read it.
    pub expect: Option<String>,
    /// The numbers it was decided from.
    pub because: Vec<String>,
    /// What was changed: a variable, or the action in words.
    pub variable: String,
    /// The old value; empty where there is none.
    pub old: String,
    /// The new value, or what a call returned; empty where there is none.
    pub new: String,
    pub mechanism: String,
    /// How long the program was held for it, in nanoseconds.
    pub hold_ns: u64,
    /// What became of it: written, in force, returned, refused, reverted …
    pub outcome: String,
    /// The guard's view; none without a guard.
    pub guard: Option<GuardView>,
    /// How quickly it followed what it was decided on; none of a first value, and of what was not written.
    pub reaction: Option<Reaction>,
}

/// From the end of a window to the change that follows, in parts that add up; all in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reaction {
    /// The window itself, as it was seen (MATE: T_Iter).
    pub window_ns: u64,
    /// From its end until all that belongs to it was there (T_Upd).
    pub update_ns: u64,
    /// Until the rules were evaluated (T_Eval).
    pub evaluate_ns: u64,
    /// Until the order was given to the actuator (T_Tun).
    pub order_ns: u64,
    /// Until the value was written and read back.
    pub write_ns: u64,
}

impl Reaction {
    /// From the end of the window to the change.
    pub fn lag_ns(&self) -> u64 {
        self.update_ns + self.evaluate_ns + self.order_ns + self.write_ns
    }
}

/// The judgement on a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardView {
    /// The objective before, in its own unit; `None` when it could not be judged.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// How many times better: after/before where more is better, before/after where less is.
    pub ratio: Option<f64>,
    /// In which it lies with 98 % confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// What the guard found; none of what was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<plan::GuardEffect>,
    /// `kept`, `undone`, or `ended` when the `while` that it was in force for no longer holds; `on trial` or
    /// at the end `not judged`; `being reverted` until it is, and `not reverted` where that failed; `reverted to
    /// compare` where it was made again.
    #[serde(deserialize_with = "verdict")]
    pub verdict: Word,
    /// Why there is no judgement.
    pub reason: Option<String>,
    /// In words, with units.
    pub text: String,
}

impl GuardView {
    /// No judgement, and why.
    pub fn without(verdict: &'static str, reason: String) -> GuardView {
        GuardView {
            verdict,
            text: format!("{verdict}: {reason}"),
            reason: Some(reason),
            ..GuardView::default()
        }
    }
}

fn keyword<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    one_of(from, "keyword", Keyword::ALL.iter().map(|(name, _)| *name))
}

fn verdict<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    one_of(from, "verdict", VERDICTS.into_iter())
}

/// The word that is read, if it is one of these.
fn one_of<'de, D: Deserializer<'de>>(
    from: D,
    what: &str,
    mut words: impl Iterator<Item = Word>,
) -> Result<Word, D::Error> {
    let read = String::deserialize(from)?;
    let known = words.find(|word| *word == read);
    known.ok_or_else(|| D::Error::custom(format!("{read:?} is no {what}")))
}
