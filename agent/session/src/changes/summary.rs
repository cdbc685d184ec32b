//! The last line of a session: the standing of each change, as text.

use std::collections::BTreeSet;

use super::outcome::Standing;
use profile::format::plural;

/// Changes at the end of a session.
#[derive(Clone, Debug)]
pub(super) struct Left {
    pub(super) standing: Standing,
    /// Its process has ended, or runs another program: the change no longer exists.
    pub(super) is_gone: bool,
    /// As it is shown, such as `call f(2)`.
    pub(super) text: String,
    /// What a revert does not restore, in words.
    pub(super) remains: Option<String>,
    /// Number of changes with this standing.
    pub(super) count: usize,
}

impl Left {
    /// A change of an unknown process.
    pub(super) fn stranger(standing: Standing) -> Left {
        Left {
            standing,
            is_gone: false,
            text: String::new(),
            remains: None,
            count: 1,
        }
    }
}

/// The summary of all changes of a session, `unknown` of which are only in the journal. `undo` is the command
/// that reverts the remaining ones.
pub(super) fn summary(changes: &[Left], unknown: usize, undo: &str, program: &str) -> String {
    let here = |standing: Standing| {
        let stand = changes.iter().filter(move |left| left.standing == standing);
        stand.filter(move |left| !left.is_gone || matches!(standing, Standing::Back | Standing::LeftAlone))
    };
    let count = |standing| here(standing).map(|left| left.count).sum::<usize>();
    let mut words = Vec::new();
    let mut say = |standing, words_of: &dyn Fn(String) -> String| {
        let count = count(standing);
        if count > 0 {
            words.push(words_of(plural(count, "change")));
        }
    };
    let them = if count(Standing::Kept) == 1 { "it" } else { "them" };
    say(Standing::Kept, &|changes| {
        format!("{changes} left in place until {program} ends. Revert {them}: {undo}")
    });
    say(Standing::Stays, &|changes| {
        let calls: BTreeSet<&str> = here(Standing::Stays).map(|left| left.text.as_str()).collect();
        let calls: Vec<&str> = calls.into_iter().collect();
        format!("{changes} cannot be reverted and stays ({})", calls.join(", "))
    });
    say(Standing::Back, &|changes| {
        let living = here(Standing::Back).filter(|left| !left.is_gone);
        let remains: BTreeSet<&str> = living.filter_map(|left| left.remains.as_deref()).collect();
        let remains: String = remains.iter().map(|remains| format!(", but {remains}")).collect();
        format!("{changes} reverted{remains}")
    });
    say(Standing::LeftAlone, &|changes| {
        format!("{changes} left alone, because {program} has changed it since")
    });
    say(Standing::NotBack, &|changes| {
        format!("{changes} could not be reverted (tuneagent journal has the reason)")
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
        ended.map(|left| left.count).sum(),
        count(Standing::Over),
        count(Standing::InForce),
    ) {
        (true, 0, 0, 0) => "nothing was changed".to_owned(),
        (true, 0, _, 0) => "nothing is left to revert".to_owned(),
        // The actuator reported neither that they were reverted nor that they were left.
        (true, 0, _, _) => "the state of the changes is not known; see tuneagent journal".to_owned(),
        (true, _, _, _) => format!("the changes ended with {program}"),
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

    #[test]
    fn the_last_line_says_of_each_standing_what_is_so() {
        use Standing::{Back, InForce, Kept, LeftAlone, NotBack, NotMade, Over, Running, Stays};
        let words = |changes: &[(Standing, bool)], unknown| {
            let left = changes.iter().map(|(standing, is_gone)| Left {
                standing: *standing,
                is_gone: *is_gone,
                text: "call f(2)".to_owned(),
                remains: None,
                count: 1,
            });
            let left: Vec<Left> = left.collect();
            summary(&left, unknown, "tuneagent undo 7", "app")
        };
        for (changes, wanted) in [
            (&[][..], "nothing was changed"),
            (&[(NotMade, false)], "nothing was changed"),
            (&[(Back, false), (Back, true)], "2 changes reverted"),
            (
                &[(Kept, false)],
                "1 change left in place until app ends. Revert it: tuneagent undo 7",
            ),
            (
                &[(Stays, false)],
                "1 change cannot be reverted and stays (call f(2))",
            ),
            (&[(Over, false)], "nothing is left to revert"),
            (
                &[(LeftAlone, false), (Back, false)],
                "1 change reverted; 1 change left alone, because app has changed it since",
            ),
            (
                &[(NotBack, false)],
                "1 change could not be reverted (tuneagent journal has the reason)",
            ),
            (
                &[(Running, false)],
                "1 change not known yet: a call has not returned (tuneagent undo finds out)",
            ),
            (
                &[(InForce, false)],
                "the state of the changes is not known; see tuneagent journal",
            ),
            (&[(InForce, true), (Stays, true)], "the changes ended with app"),
            (
                &[(Back, false), (InForce, true)],
                "1 change reverted; 1 change ended with app",
            ),
        ] {
            assert_eq!(words(changes, 0), wanted, "{changes:?}");
        }
        assert_eq!(
            words(&[(Back, false)], 3),
            "1 change reverted; 3 changes more are in the journal alone (tuneagent journal)"
        );
    }

    #[test]
    fn what_a_revert_does_not_restore_is_said_once_while_the_process_lives() {
        let left = |is_gone| Left {
            standing: Standing::Back,
            is_gone,
            text: "call f(2)".to_owned(),
            remains: Some("its cache stays".to_owned()),
            count: 1,
        };
        let words = |left: &[Left]| summary(left, 0, "tuneagent undo 7", "app");
        assert_eq!(
            words(&[left(false), left(false)]),
            "2 changes reverted, but its cache stays"
        );
        assert_eq!(words(&[left(true)]), "1 change reverted");
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
                    remains: None,
                    count: 1,
                });
                let words = summary(&left, 0, "tuneagent undo 7", "app");
                assert!(!words.contains("ended with"), "{first:?}, {second:?}: {words}");
            }
        }
    }
}
