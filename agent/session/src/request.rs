//! Requests to a running session, their answers, and settings of rules: plain data, for the command line, the
//! control socket, the live view and the session alike.

use std::collections::BTreeMap;

pub use plan::Mode;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Which session this is, and its rules.
    List,
    /// The report as it is now.
    Snapshot,
    /// What a rule may do from now on.
    Switch { rule: String, mode: Mode },
    /// One more rule from now on.
    Add {
        /// Its text, and what it is bound to.
        given: Box<Given>,
        mode: Mode,
    },
    /// A rule is evaluated no more, its probes end, and what it changed is reverted.
    Remove {
        rule: String,
        /// What it changed stays as it is.
        keep: bool,
    },
    /// End as with Ctrl-C.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Session(Box<SessionView>),
    /// To snapshot: the report, docs/report.md.
    Report(serde_json::Value),
    /// To switch: the mode before.
    Switched {
        /// The word for it.
        before: String,
    },
    Added {
        rule: String,
        mode: Mode,
        /// What of it could not be probed, in words.
        missing: Vec<String>,
    },
    Removed {
        /// Changes that are reverted.
        #[serde(rename = "put_back")]
        reverted: usize,
        kept: usize,
    },
    /// To stop: it ends now.
    Stopping,
    Refused {
        /// For the exit code.
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
    /// The session could not do it.
    Failed,
}

/// A session, as `tuneagent session list` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    pub pid: u32,
    pub program: String,
    pub user: String,
    /// The launcher, where there is one, and the processes.
    pub pids: Vec<i32>,
    /// It was started with --apply.
    pub applies: bool,
    pub elapsed_s: f64,
    /// Its rules: name, mode, and what each does or why not.
    pub rules: Vec<(String, String, String)>,
}

impl Answer {
    /// The session is ending, and does nothing more for anybody.
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

/// What the command line sets in rules: values of parameters, and names of the program.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// `--param NAME=VALUE`
    pub parameters: &'a [(String, String)],
    /// `--bind NAME=PROGRAM_NAME`
    pub bindings: &'a [(String, String)],
}

/// The text of a rule and where it is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleText {
    /// Its name, or its file.
    pub name: String,
    /// As it is written.
    pub text: String,
    /// It takes the place of a built-in rule of the same name.
    pub replaces: bool,
    /// Distinguishes it from the same rule loaded again.
    pub instance: Option<String>,
    /// What a bindings file says.
    pub names: BTreeMap<String, String>,
    /// The texts of the rules that it uses, where they are known already; else they are read from files.
    pub uses: Option<BTreeMap<String, String>>,
}

/// A rule as one process gives it to another: all texts that it is made of, and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    pub source: RuleText,
    /// As [`Settings::parameters`].
    pub parameters: Vec<(String, String)>,
    /// As [`Settings::bindings`].
    pub bindings: Vec<(String, String)>,
}
