//! Requests from the control socket, as pure functions: a request and the state of the session determine the
//! steps that answer it, and the result of a step determines the answer. Only `switch`, `add`, `remove` and
//! `stop` change anything.

use std::fmt;

use rules::CheckedRule;
use serde::{Deserialize, Serialize, Serializer};

use super::leave::STOPPED;
use crate::request::{Answer, Mode, RefusalKind, Request, RuleSource};
use profile::{error::ErrorText, format::plural};

/// A session without an actuator never gets one: it was started to watch only.
pub(crate) const CANNOT_WRITE: &str =
    "this session was started without --apply and cannot write: start another one with it";

/// What a session can do for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// It was started without `--apply`.
    Watches,
    MayWrite,
    Leaves,
}

/// A step that a request requires.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStep {
    Answer(Answer),
    Say(RequestNotice),
    /// End the session, for this reason.
    End(&'static str),
    #[serde(untagged)]
    Do(RequestTask),
}

/// What the owner of the session does for a request. An event reports the result.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestTask {
    /// Answer with the session as it is listed.
    List,
    /// Read all counters, and answer with the report.
    Report,
    Switch {
        rule: String,
        mode: Mode,
    },
    Add {
        #[serde(serialize_with = "name")]
        rule: Box<CheckedRule>,
        mode: Mode,
    },
    Remove {
        rule: String,
        keeps: bool,
    },
}

impl RequestStep {
    pub fn answer(self) -> Option<Answer> {
        match self {
            RequestStep::Answer(answer) => Some(answer),
            _ => None,
        }
    }
}

/// A line that stays on the screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestNotice {
    /// A rule was switched.
    Switched {
        rule: String,
        before: String,
        mode: Mode,
    },
    /// A rule was added.
    Added { rule: String, mode: Mode },
    /// Parts of an added rule that are not probed.
    Missing(String),
    /// A rule was removed.
    Removed {
        rule: String,
        /// Number of changes that are reverted.
        reverted: usize,
        kept: usize,
    },
}

impl fmt::Display for RequestNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestNotice::Switched { rule, before, mode } => {
                write!(f, "{rule} switched from {before} to {}", mode.name())
            }
            RequestNotice::Added { rule, mode } => write!(f, "{rule} added, {}", mode.name()),
            RequestNotice::Missing(missing) => write!(f, "missing: {missing}"),
            RequestNotice::Removed { rule, reverted, kept } => match (reverted, kept) {
                (0, 0) => write!(f, "{rule} removed; it had changed nothing"),
                (0, kept) => write!(f, "{rule} removed; {} left in place", plural(*kept, "change")),
                (reverted, _) => write!(f, "{rule} removed; {} reverted", plural(*reverted, "change")),
            },
        }
    }
}

/// Writes only the name: the rule's text is in its request.
fn name<S: Serializer>(rule: &CheckedRule, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(rule.name())
}

/// Checks a given rule; the error is for the user.
pub type Check = fn(&RuleSource) -> Result<CheckedRule, ErrorText>;

/// The steps of a request, in this order.
pub fn steps(request: Request, state: RequestState, check: Check) -> Vec<RequestStep> {
    let may = |mode: Mode| mode != Mode::Applying || state == RequestState::MayWrite;
    match request {
        _ if state == RequestState::Leaves => vec![RequestStep::Answer(Answer::ending())],
        Request::List => vec![RequestStep::Do(RequestTask::List)],
        Request::Snapshot => vec![RequestStep::Do(RequestTask::Report)],
        Request::Switch { mode, .. } | Request::Add { mode, .. } if !may(mode) => {
            refused(RefusalKind::NotPermitted, CANNOT_WRITE)
        }
        Request::Switch { rule, mode } => vec![RequestStep::Do(RequestTask::Switch { rule, mode })],
        Request::Add { given, mode } => match check(&given) {
            Ok(rule) => vec![RequestStep::Do(RequestTask::Add {
                rule: Box::new(rule),
                mode,
            })],
            Err(error) => refused(RefusalKind::NotThere, error.to_string()),
        },
        Request::Remove { rule, keep } => vec![RequestStep::Do(RequestTask::Remove { rule, keeps: keep })],
        // The client gets its answer before the end.
        Request::Stop => vec![RequestStep::Answer(Answer::Stopping), RequestStep::End(STOPPED)],
    }
}

/// The steps after switching a rule, given its mode before; `unknown` is the text if there is no such rule.
pub fn switched(
    rule: &str,
    mode: Mode,
    result: Result<&str, NotSwitched>,
    unknown: impl FnOnce() -> String,
) -> Vec<RequestStep> {
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
                "{rule} must be named, as rules that change code or load libraries must: start another session with \
                 --apply={rule}"
            );
            return refused(RefusalKind::NotPermitted, text);
        }
    };
    let notice = (before != mode.name()).then(|| {
        let (rule, before) = (rule.to_owned(), before.clone());
        RequestStep::Say(RequestNotice::Switched { rule, before, mode })
    });
    let answer = RequestStep::Answer(Answer::Switched { before });
    notice.into_iter().chain([answer]).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSwitched {
    NoSuchRule,
    /// It must be named, and `--apply` did not name it.
    NotNamed,
    /// It makes calls that stay, and the session reverts everything.
    Stays,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// It makes calls that stay, and the session reverts everything.
    Stays(String),
    /// Another rule has its name, or changes the same target.
    Conflict(String),
    /// Its probes could not be attached.
    NotProbed(String),
    /// Counters could not be read.
    Failed(String),
}

/// The result of removing a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoveResult {
    /// Its probes are detached.
    Removed,
    /// It is removed, but its probes could not be detached.
    StillProbed(String),
    NoSuchRule(String),
}

/// The steps after a rule was added, with what is missing, or was not.
pub fn added(rule: String, mode: Mode, result: Result<Vec<String>, NotAdded>) -> Vec<RequestStep> {
    let missing = match result {
        Ok(missing) => missing,
        Err(NotAdded::Stays(why)) => return refused(RefusalKind::NotPermitted, format!("{rule}: {why}")),
        Err(NotAdded::Conflict(text)) => return refused(RefusalKind::NotThere, text),
        Err(NotAdded::NotProbed(why)) => {
            return refused(RefusalKind::NotThere, format!("{rule} is not added: {why}"));
        }
        Err(NotAdded::Failed(why)) => return refused(RefusalKind::Failed, why),
    };
    let said = RequestStep::Say(RequestNotice::Added {
        rule: rule.clone(),
        mode,
    });
    let say_missing = missing
        .iter()
        .cloned()
        .map(RequestNotice::Missing)
        .map(RequestStep::Say);
    let mut steps: Vec<RequestStep> = [said].into_iter().chain(say_missing).collect();
    steps.push(RequestStep::Answer(Answer::Added { rule, mode, missing }));
    steps
}

/// The steps after a rule was removed that had `in_force` changes.
pub fn removed(rule: String, keeps: bool, in_force: usize) -> Vec<RequestStep> {
    let (reverted, kept) = match keeps {
        true => (0, in_force),
        false => (in_force, 0),
    };
    vec![
        RequestStep::Say(RequestNotice::Removed { rule, reverted, kept }),
        RequestStep::Answer(Answer::Removed { reverted, kept }),
    ]
}

pub fn refused(kind: RefusalKind, message: impl Into<String>) -> Vec<RequestStep> {
    vec![RequestStep::Answer(Answer::refused(kind, message))]
}

/// An answer as text for the live view.
pub fn in_words(answer: Answer, rule: &str, mode: Mode) -> String {
    match answer {
        Answer::Refused { message, .. } => message,
        _ => format!("{rule} is {}", mode.name()),
    }
}

#[cfg(test)]
pub(super) mod tests;
