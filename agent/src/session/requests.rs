//! What comes in through the control socket, as pure functions: a request and what the session may do give the steps that answer it, and
//! what came of a step gives the answer. Only `switch`, `add`, `remove` and `stop` change anything.

use std::fmt;

use rules::CheckedRule;
use serde::{Deserialize, Serialize, Serializer};

use super::leave::STOPPED;
use crate::{
    format::plural,
    request::{Answer, Given, Mode, RefusalKind, Request},
    rulebook::NotSwitched,
};

/// A session without an actuator never gets one: who was started to watch watches.
pub(super) const CANNOT_WRITE: &str =
    "this session was started without --apply and cannot write: start another one with it";

/// What a session can do for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It was started without `--apply`.
    Watches,
    /// Rules may write.
    MayWrite,
    /// It is ending.
    Leaves,
}

/// What is to be done for a request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    /// Answer it.
    Answer(Answer),
    /// Answer with the session as it is listed.
    List,
    /// Read all counters, and answer with the report.
    Report,
    /// Switch a rule.
    Switch {
        /// The rule.
        rule: String,
        /// Its new mode.
        mode: Mode,
    },
    /// Add a rule.
    Add {
        /// The rule.
        #[serde(serialize_with = "name")]
        rule: Box<CheckedRule>,
        /// What it may do.
        mode: Mode,
    },
    /// Remove a rule.
    Remove {
        /// The rule.
        rule: String,
        /// What it changed stays.
        keeps: bool,
    },
    /// Say a line.
    Say(Notice),
    /// End the session, for this reason.
    End(&'static str),
}

impl Step {
    /// The answer, if it is one.
    pub(super) fn answer(self) -> Option<Answer> {
        match self {
            Step::Answer(answer) => Some(answer),
            _ => None,
        }
    }
}

/// A line that stays on the screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Notice {
    /// A rule was switched.
    Switched {
        /// The rule.
        rule: String,
        /// Its mode before.
        before: String,
        /// Its mode now.
        mode: Mode,
    },
    /// A rule was added.
    Added {
        /// The rule.
        rule: String,
        /// Its mode.
        mode: Mode,
    },
    /// What of an added rule is not probed.
    Missing(String),
    /// A rule was removed, and so many of its changes are put back, or stay.
    Removed {
        /// The rule.
        rule: String,
        /// Changes that are put back.
        put_back: usize,
        /// Changes that stay.
        kept: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Switched { rule, before, mode } => {
                write!(f, "{rule} switched from {before} to {}", mode.name())
            }
            Notice::Added { rule, mode } => write!(f, "{rule} added, {}", mode.name()),
            Notice::Missing(missing) => write!(f, "missing: {missing}"),
            Notice::Removed { rule, put_back, kept } => match (put_back, kept) {
                (0, 0) => write!(f, "{rule} removed; it had changed nothing"),
                (0, kept) => write!(f, "{rule} removed; {} left in place", plural(*kept, "change")),
                (put_back, _) => write!(f, "{rule} removed; {} reverted", plural(*put_back, "change")),
            },
        }
    }
}

/// A rule's text is in its request.
fn name<S: Serializer>(rule: &CheckedRule, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(rule.name())
}

/// Checks a rule that is given; the error is for the user.
pub(super) type Check = fn(&Given) -> Result<CheckedRule, String>;

/// The steps that a request takes, in this order.
pub(super) fn steps(request: Request, state: State, check: Check) -> Vec<Step> {
    let may = |mode: Mode| mode != Mode::Applying || state == State::MayWrite;
    match request {
        _ if state == State::Leaves => vec![Step::Answer(Answer::ending())],
        Request::List => vec![Step::List],
        Request::Snapshot => vec![Step::Report],
        Request::Switch { mode, .. } | Request::Add { mode, .. } if !may(mode) => {
            refused(RefusalKind::NotPermitted, CANNOT_WRITE)
        }
        Request::Switch { rule, mode } => vec![Step::Switch { rule, mode }],
        Request::Add { given, mode } => match check(&given) {
            Ok(rule) => vec![Step::Add {
                rule: Box::new(rule),
                mode,
            }],
            Err(message) => refused(RefusalKind::NotThere, message),
        },
        Request::Remove { rule, keep } => vec![Step::Remove { rule, keeps: keep }],
        // Whoever asked for the end gets the answer first.
        Request::Stop => vec![Step::Answer(Answer::Stopping), Step::End(STOPPED)],
    }
}

/// What follows once a rule was switched, from its mode before, or was not; `unknown` is what is said where there is no such rule.
pub(super) fn switched(
    rule: &str,
    mode: Mode,
    result: Result<&str, NotSwitched>,
    unknown: impl FnOnce() -> String,
) -> Vec<Step> {
    let before = match result {
        Ok(before) => before.to_owned(),
        Err(NotSwitched::NoSuchRule) => return refused(RefusalKind::NotThere, unknown()),
        Err(NotSwitched::Stays) => {
            let text = format!(
                "{rule} makes a call without an `inverse`, which this session could not revert at its end: start another \
                 session with --keep"
            );
            return refused(RefusalKind::NotPermitted, text);
        }
        Err(NotSwitched::NotNamed) => {
            let text = format!(
                "{rule} changes code or loads libraries, which only rules that --apply named may: start another \
                 session with --apply={rule}"
            );
            return refused(RefusalKind::NotPermitted, text);
        }
    };
    let notice = (before != mode.name()).then(|| {
        let (rule, before) = (rule.to_owned(), before.clone());
        Step::Say(Notice::Switched { rule, before, mode })
    });
    let answer = Step::Answer(Answer::Switched { before });
    notice.into_iter().chain([answer]).collect()
}

/// Why a rule was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotAdded {
    /// It makes calls that stay, and the session puts everything back.
    Stays(String),
    /// Another rule has its name, or changes the same.
    Conflict(String),
    /// Its probes could not be attached.
    NotProbed(String),
    /// Counters could not be read.
    Failed(String),
}

/// What follows once a rule was added, without what is missing, or was not.
pub(super) fn added(rule: String, mode: Mode, result: Result<Vec<String>, NotAdded>) -> Vec<Step> {
    let missing = match result {
        Ok(missing) => missing,
        Err(NotAdded::Stays(why)) => return refused(RefusalKind::NotPermitted, format!("{rule}: {why}")),
        Err(NotAdded::Conflict(text)) => return refused(RefusalKind::NotThere, text),
        Err(NotAdded::NotProbed(why)) => {
            return refused(RefusalKind::NotThere, format!("{rule} is not added: {why}"));
        }
        Err(NotAdded::Failed(why)) => return refused(RefusalKind::Failed, why),
    };
    let said = Step::Say(Notice::Added {
        rule: rule.clone(),
        mode,
    });
    let say_missing = missing.iter().cloned().map(Notice::Missing).map(Step::Say);
    let mut steps: Vec<Step> = [said].into_iter().chain(say_missing).collect();
    steps.push(Step::Answer(Answer::Added { rule, mode, missing }));
    steps
}

/// What follows once a rule was removed that had so many changes in force.
pub(super) fn removed(rule: String, keeps: bool, in_force: usize) -> Vec<Step> {
    let (put_back, kept) = match keeps {
        true => (0, in_force),
        false => (in_force, 0),
    };
    vec![
        Step::Say(Notice::Removed { rule, put_back, kept }),
        Step::Answer(Answer::Removed { put_back, kept }),
    ]
}

pub(super) fn refused(kind: RefusalKind, message: impl Into<String>) -> Vec<Step> {
    vec![Step::Answer(Answer::refused(kind, message))]
}

/// An answer in the words of the live view.
pub(super) fn in_words(answer: Answer, rule: &str, mode: Mode) -> String {
    match answer {
        Answer::Refused { message, .. } => message,
        _ => format!("{rule} is {}", mode.name()),
    }
}

#[cfg(test)]
pub(super) mod tests;
