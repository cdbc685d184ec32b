//! How each change stands, and the words about it: what a guard says once it is known whether its undo came about, and the last line of a
//! session. Pure: asks nobody and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use tuner::process::Pid;

use crate::{
    format::plural,
    snapshot::{
        GuardView,
        outcome::{NOT_UNDONE, UNDOING},
    },
};

/// How the verdicts of rules end that take a change back.
const ENDING: &str = "; undone";

/// How a change stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It was not made, or nothing had to be changed.
    NotMade,
    /// In force, and can be taken back.
    InForce,
    /// In force, and left so on purpose when the session ended.
    Kept,
    /// A call that was made and has no inverse.
    Stays,
    /// A call that was made and leaves nothing to be taken back.
    Over,
    /// A call that has not returned yet.
    Running,
    /// Taken back.
    Back,
    /// Not taken back: the program has changed it since.
    LeftAlone,
    /// Could not be taken back.
    NotBack,
}

/// A change as it stands when a session ends.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// How it stands.
    pub(super) standing: Standing,
    /// Its process has ended, or runs another program: nothing of it is anywhere.
    pub(super) is_gone: bool,
    /// As it is shown: `call f(2)`.
    pub(super) text: String,
}

/// Verdicts of guards whose changes are being taken back, by decision.
#[derive(Debug, Default)]
pub(super) struct Undoing(BTreeMap<u64, Verdict>);

#[derive(Debug)]
struct Verdict {
    guard: GuardView,
    waiting: BTreeSet<(Pid, u64)>,
    failed: BTreeMap<(Pid, u64), String>,
}

impl Verdict {
    /// None while it is not known of every change.
    fn known(&self) -> Option<GuardView> {
        if !self.waiting.is_empty() {
            return None;
        }
        let Some(reason) = self.failed.values().next() else {
            return Some(self.guard.clone());
        };
        Some(GuardView {
            verdict: NOT_UNDONE,
            text: ended(&self.guard.text, &format!("; not undone: {reason}")),
            ..self.guard.clone()
        })
    }
}

/// What a verdict says, with another end.
fn ended(text: &str, end: &str) -> String {
    format!("{}{end}", text.strip_suffix(ENDING).unwrap_or(text))
}

impl Undoing {
    /// What a guard says of a decision whose changes are now taken back: at once where there are none.
    pub(super) fn begin(&mut self, decision: u64, guard: GuardView, changes: &[(Pid, u64)]) -> GuardView {
        if changes.is_empty() {
            return guard;
        }
        let shown = GuardView {
            verdict: UNDOING,
            text: ended(&guard.text, "; being undone"),
            ..guard.clone()
        };
        let verdict = self.0.entry(decision).or_insert_with(|| Verdict {
            guard,
            waiting: BTreeSet::new(),
            failed: BTreeMap::new(),
        });
        verdict.waiting.extend(changes.iter().copied());
        shown
    }

    /// A change was taken back, or could not be, for this reason: what its guard says now, if that is known and was not said before.
    pub(super) fn heard(&mut self, change: (Pid, u64), failed: Option<&str>) -> Option<(u64, GuardView)> {
        let mut verdicts = self.0.iter_mut();
        let (decision, verdict) = verdicts
            .find(|(_, verdict)| verdict.waiting.contains(&change) || verdict.failed.contains_key(&change))?;
        let decision = *decision;
        let is_new = verdict.waiting.remove(&change);
        let had_failed = verdict.failed.remove(&change).is_some();
        if let Some(reason) = failed {
            verdict.failed.insert(change, reason.to_owned());
            if had_failed && !is_new {
                return None;
            }
        }
        let guard = verdict.known()?;
        if verdict.failed.is_empty() {
            self.0.remove(&decision);
        }
        Some((decision, guard))
    }
}

/// What became of all changes of a session, `unknown` of which are known to the journal alone. `undo` is what takes back what was left.
pub(super) fn last_words(changes: &[Left], unknown: usize, undo: &str, program: &str) -> String {
    let here = |standing: Standing| {
        let stand = changes.iter().filter(move |left| left.standing == standing);
        stand.filter(move |left| !left.is_gone || matches!(standing, Standing::Back | Standing::LeftAlone))
    };
    let count = |standing| here(standing).count();
    let mut words = Vec::new();
    let mut say = |standing, words_of: &dyn Fn(String) -> String| {
        let count = count(standing);
        if count > 0 {
            words.push(words_of(plural(count, "change")));
        }
    };
    say(Standing::Kept, &|changes| {
        format!("{changes} left in place until {program} ends. Take it back: {undo}")
    });
    say(Standing::Stays, &|changes| {
        let calls: BTreeSet<&str> = here(Standing::Stays).map(|left| left.text.as_str()).collect();
        let calls: Vec<&str> = calls.into_iter().collect();
        format!("{changes} cannot be taken back and stays ({})", calls.join(", "))
    });
    say(Standing::Back, &|changes| format!("{changes} put back"));
    say(Standing::LeftAlone, &|changes| {
        format!("{changes} left alone, for {program} changed it since")
    });
    say(Standing::NotBack, &|changes| {
        format!("{changes} could not be put back (tuneagent journal tells why)")
    });
    say(Standing::Running, &|changes| {
        format!("{changes} not known yet: a call has not returned (tuneagent undo finds out)")
    });
    if unknown > 0 {
        words.push(format!(
            "{} more are in the journal alone (tuneagent journal)",
            plural(unknown, "change")
        ));
    }
    let ended = changes.iter().filter(|left| {
        left.is_gone
            && matches!(
                left.standing,
                Standing::InForce | Standing::Kept | Standing::Stays | Standing::Running | Standing::NotBack
            )
    });
    match (
        words.is_empty(),
        ended.count(),
        count(Standing::Over),
        count(Standing::InForce),
    ) {
        (true, 0, 0, 0) => "nothing was changed".to_owned(),
        (true, 0, _, 0) => "nothing is left to be put back".to_owned(),
        // Neither put back nor left by word of the actuator: nobody said how they stand.
        (true, 0, _, _) => "how the changes stand is not known; tuneagent journal tells".to_owned(),
        (true, _, _, _) => format!("what was changed ended with {program}"),
        (false, 0, _, _) => words.join("; "),
        (false, ended, _, _) => {
            words.push(format!("{} ended with {program}", plural(ended, "change")));
            words.join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::outcome::UNDONE;

    fn made(number: i32, change: u64) -> (Pid, u64) {
        let start_time = 1;
        (Pid { number, start_time }, change)
    }

    fn guard() -> GuardView {
        GuardView {
            verdict: UNDONE,
            text: "pace: 2 -> 1: -50 %; undone".to_owned(),
            ..GuardView::default()
        }
    }

    #[test]
    fn a_guard_says_undone_once_every_change_was_taken_back_and_not_before() {
        let mut undoing = Undoing::default();
        let shown = undoing.begin(7, guard(), &[made(1, 4), made(2, 9)]);
        assert_eq!(
            (shown.verdict, shown.text.as_str()),
            (UNDOING, "pace: 2 -> 1: -50 %; being undone")
        );
        assert_eq!(undoing.heard(made(1, 4), None), None);
        assert_eq!(undoing.heard(made(3, 1), None), None, "it is of nobody's");
        assert_eq!(undoing.heard(made(2, 9), None), Some((7, guard())));
        assert_eq!(undoing.heard(made(2, 9), None), None, "once");
        assert_eq!(undoing.begin(8, guard(), &[]), guard(), "nothing is in force");
    }

    #[test]
    fn a_guard_whose_undo_fails_says_so_once_and_undone_when_it_succeeds_later() {
        let mut undoing = Undoing::default();
        undoing.begin(7, guard(), &[made(1, 4)]);
        let (_, said) = undoing
            .heard(made(1, 4), Some("the program did not come there"))
            .unwrap();
        assert_eq!(said.verdict, NOT_UNDONE);
        assert_eq!(
            said.text,
            "pace: 2 -> 1: -50 %; not undone: the program did not come there"
        );
        assert_eq!(undoing.heard(made(1, 4), Some("nor now")), None);
        assert_eq!(undoing.heard(made(1, 4), None), Some((7, guard())));
    }

    #[test]
    fn the_last_line_says_of_each_standing_what_is_so() {
        use Standing::{Back, InForce, Kept, LeftAlone, NotBack, NotMade, Over, Running, Stays};
        let words = |changes: &[(Standing, bool)], unknown| {
            let left = changes.iter().map(|(standing, is_gone)| Left {
                standing: *standing,
                is_gone: *is_gone,
                text: "call f(2)".to_owned(),
            });
            let left: Vec<Left> = left.collect();
            last_words(&left, unknown, "tuneagent undo 7", "app")
        };
        for (changes, wanted) in [
            (&[][..], "nothing was changed"),
            (&[(NotMade, false)], "nothing was changed"),
            (&[(Back, false), (Back, true)], "2 changes put back"),
            (
                &[(Kept, false)],
                "1 change left in place until app ends. Take it back: tuneagent undo 7",
            ),
            (
                &[(Stays, false)],
                "1 change cannot be taken back and stays (call f(2))",
            ),
            (&[(Over, false)], "nothing is left to be put back"),
            (
                &[(LeftAlone, false), (Back, false)],
                "1 change put back; 1 change left alone, for app changed it since",
            ),
            (
                &[(NotBack, false)],
                "1 change could not be put back (tuneagent journal tells why)",
            ),
            (
                &[(Running, false)],
                "1 change not known yet: a call has not returned (tuneagent undo finds out)",
            ),
            (
                &[(InForce, false)],
                "how the changes stand is not known; tuneagent journal tells",
            ),
            (
                &[(InForce, true), (Stays, true)],
                "what was changed ended with app",
            ),
            (
                &[(Back, false), (InForce, true)],
                "1 change put back; 1 change ended with app",
            ),
        ] {
            assert_eq!(words(changes, 0), wanted, "{changes:?}");
        }
        assert_eq!(
            words(&[(Back, false)], 3),
            "1 change put back; 3 changes more are in the journal alone (tuneagent journal)"
        );
    }

    #[test]
    fn nothing_is_said_to_have_ended_with_a_program_that_lives() {
        use Standing::{Back, InForce, Kept, LeftAlone, NotBack, NotMade, Over, Running, Stays};
        let all = [
            NotMade, InForce, Kept, Stays, Over, Running, Back, LeftAlone, NotBack,
        ];
        for first in all {
            for second in all {
                let left = [first, second].map(|standing| Left {
                    standing,
                    is_gone: false,
                    text: "call f(2)".to_owned(),
                });
                let words = last_words(&left, 0, "tuneagent undo 7", "app");
                assert!(!words.contains("ended with"), "{first:?}, {second:?}: {words}");
            }
        }
    }
}
