//! Requests to a running session, their answers, and settings of rules: plain data for the command line, the
//! control socket, the live view and the session.

use std::collections::BTreeMap;

pub use plan::Mode;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Return the session and its rules.
    List,
    /// Return the current report.
    Snapshot,
    /// Change the mode of a rule.
    Switch { rule: String, mode: Mode },
    Add {
        /// The rule's text and its settings.
        given: Box<RuleSource>,
        mode: Mode,
    },
    /// Remove a rule: it is no longer evaluated, its probes are detached, and its changes are reverted.
    Remove {
        rule: String,
        /// The rule's changes stay.
        keep: bool,
    },
    /// End as with Ctrl-C.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Session(Box<SessionView>),
    /// Answers a snapshot: the report, docs/report.md.
    Report(serde_json::Value),
    Switched {
        /// The mode before, as text.
        before: String,
    },
    Added {
        rule: String,
        mode: Mode,
        /// Parts of the rule that could not be probed, as text.
        missing: Vec<String>,
    },
    Removed {
        /// Number of changes that are reverted.
        reverted: usize,
        kept: usize,
    },
    /// Answers a stop: the session ends now.
    Stopping,
    Refused {
        /// Determines the exit code.
        kind: RefusalKind,
        message: String,
    },
}

/// The kinds of refusal that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The peer is another user, or the session was not started with --apply.
    NotPermitted,
    NotThere,
    /// The request was not understood.
    Protocol,
    /// The session failed to do it.
    Failed,
}

/// A session, as `tuneagent session list` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    pub pid: u32,
    pub program: String,
    pub user: String,
    /// The launcher, if there is one, and the processes.
    pub pids: Vec<i32>,
    /// It was started with --apply.
    pub applies: bool,
    pub elapsed_s: f64,
    /// The tunes of all rules.
    pub rules: Vec<ListedTune>,
}

/// A tune in a list, with the name of its rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedTune {
    pub name: String,
    /// Its action, which distinguishes it from the other tunes of the rule.
    pub tune: String,
    pub mode: Mode,
    /// What it does, or why it does nothing.
    pub state: String,
}

impl Answer {
    /// The session is ending and accepts no more requests.
    pub fn ending() -> Answer {
        Answer::refused(RefusalKind::Failed, "the session is ending")
    }

    pub fn refused(kind: RefusalKind, message: impl Into<String>) -> Answer {
        Answer::Refused {
            kind,
            message: message.into(),
        }
    }
}

/// Settings of rules from the command line: values of parameters, and names of the program.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// `--param NAME=VALUE`
    pub parameters: &'a [(String, String)],
    /// `--bind NAME=PROGRAM_NAME`
    pub bindings: &'a [(String, String)],
}

/// The text of a rule and its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleText {
    /// Its name, or its file.
    pub name: String,
    pub text: String,
    /// It replaces a built-in rule of the same name.
    pub replaces: bool,
    /// Distinguishes it from the same rule loaded again.
    pub instance: Option<String>,
    /// The content of a bindings file.
    pub names: BTreeMap<String, String>,
    /// The texts of the rules that it uses, if they are known already; otherwise they are read from files.
    pub uses: Option<BTreeMap<String, String>>,
}

/// A rule that one process passes to another: all texts of which it consists, and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSource {
    pub source: RuleText,
    /// As [`Settings::parameters`].
    pub parameters: Vec<(String, String)>,
    /// As [`Settings::bindings`].
    pub bindings: Vec<(String, String)>,
}
