//! The control of a running session: a Unix socket, one JSON object per line, an answer for each request. Whoever may use it
//! is decided by the folder (0700), the socket (0600) and the credentials of the peer, which the kernel vouches for.
//!
//! This file holds the messages and the place, `server` the session's end, `client` that of `tuneagent session`. What a
//! request does is decided by the session (`session/requests.rs`).

mod client;
mod place;
mod server;

use serde::{Deserialize, Serialize};

use crate::rulebook::Given;

pub use client::{Answered, ClientError, Session, sessions};
pub use place::{PlaceError, folder};
pub use server::{Asked, Control, serve};

/// The longest request, which brings the text of a rule along. A longer one ends the connection.
pub const REQUEST_BYTES_MAX: usize = 256 << 10;
/// The longest answer that a client reads: a report of thousands of processes fits.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// What a session can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Which session this is, and its rules.
    List,
    /// The report as it is now.
    Snapshot,
    /// What a rule may do from now on.
    Switch {
        /// The rule.
        rule: String,
        /// Its new mode.
        mode: Mode,
    },
    /// One more rule from now on.
    Add {
        /// Its text, and what it is bound to.
        given: Box<Given>,
        /// What it may do.
        mode: Mode,
    },
    /// A rule is evaluated no more, its probes end, and what it changed is put back.
    Remove {
        /// The rule.
        rule: String,
        /// What it changed stays as it is.
        keep: bool,
    },
    /// End as with Ctrl-C.
    Stop,
}

/// What a rule may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is not evaluated
    Off,
    /// It tells what it finds, and changes nothing
    Advising,
    /// It changes the program; only in a session that was started with --apply
    Applying,
}

impl Mode {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Advising => "advising",
            Mode::Applying => "applying",
        }
    }
}

/// What a session answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To list.
    Session(Box<SessionView>),
    /// To snapshot: the report, docs/report.md.
    Report(serde_json::Value),
    /// To switch: the mode before.
    Switched {
        /// The word for it.
        before: String,
    },
    /// To add.
    Added {
        /// Its name.
        rule: String,
        /// What it may do.
        mode: Mode,
        /// What of it could not be probed, in words.
        missing: Vec<String>,
    },
    /// To remove.
    Removed {
        /// Changes that are put back.
        put_back: usize,
        /// Changes that stay.
        kept: usize,
    },
    /// To stop: it ends now.
    Stopping,
    /// It was refused, for this reason.
    Refused {
        /// For the exit code.
        kind: RefusalKind,
        /// For the user.
        message: String,
    },
}

/// The kinds of refusal that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The peer is another user, or the session was not started with --apply.
    NotPermitted,
    /// No such rule.
    NotThere,
    /// The request was not understood.
    Protocol,
    /// The session could not do it.
    Failed,
}

/// A session, as `tuneagent session list` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its own process.
    pub pid: u32,
    /// The program that it watches.
    pub program: String,
    /// Whose that is.
    pub user: String,
    /// The launcher, where there is one, and the processes.
    pub pids: Vec<i32>,
    /// It was started with --apply.
    pub applies: bool,
    /// How long it has watched.
    pub elapsed_s: f64,
    /// Its rules: name, mode, and what each does or why not.
    pub rules: Vec<(String, String, String)>,
}

impl Answer {
    /// A refusal.
    pub fn refused(kind: RefusalKind, message: impl Into<String>) -> Answer {
        Answer::Refused {
            kind,
            message: message.into(),
        }
    }
}

/// Reads one request. What is not understood is answered, never a reason to end the session.
pub fn parse(line: &[u8]) -> Result<Request, Answer> {
    if line.len() > REQUEST_BYTES_MAX {
        let text = format!("a request is longer than {REQUEST_BYTES_MAX} bytes");
        return Err(Answer::refused(RefusalKind::Protocol, text));
    }
    serde_json::from_slice(line).map_err(|error| {
        Answer::refused(
            RefusalKind::Protocol,
            format!("not understood: {error}; there are list, snapshot, switch (rule, mode), add (given, mode), remove (rule, keep), stop"),
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_one_object_each() {
        let cases: [(&str, Option<Request>); 9] = [
            (r#"{"request":"list"}"#, Some(Request::List)),
            (r#"{"request":"stop"}"#, Some(Request::Stop)),
            (r#"{"request":"snapshot"}"#, Some(Request::Snapshot)),
            (
                r#"{"request":"switch","rule":"r","mode":"off"}"#,
                Some(Request::Switch {
                    rule: "r".into(),
                    mode: Mode::Off,
                }),
            ),
            (r#"{"request":"switch","rule":"r","mode":"on"}"#, None),
            (
                r#"{"request":"switch","rule":"r","mode":"off","apply":true}"#,
                None,
            ),
            (r#"{"request":"set"}"#, None),
            (r#"[]"#, None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()).ok(), expected, "{text}");
        }
        let long = format!(
            r#"{{"request":"switch","rule":"{}","mode":"off"}}"#,
            "r".repeat(REQUEST_BYTES_MAX)
        );
        assert!(parse(long.as_bytes()).is_err());
    }

    fn any_request() -> impl Strategy<Value = Request> {
        let mode = prop_oneof![Just(Mode::Off), Just(Mode::Advising), Just(Mode::Applying)];
        prop_oneof![
            Just(Request::List),
            Just(Request::Snapshot),
            Just(Request::Stop),
            ("\\PC{0,100}", any::<bool>()).prop_map(|(rule, keep)| Request::Remove { rule, keep }),
            ("\\PC{0,100}", mode).prop_map(|(rule, mode)| Request::Switch { rule, mode }),
        ]
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn damage_anywhere_is_refused_or_another_request_and_never_a_panic(
            request in any_request(), at: prop::sample::Index, byte: u8
        ) {
            let mut line = serde_json::to_vec(&request).unwrap();
            let place = at.index(line.len());
            line[place] = byte;
            let _ = parse(&line);
            line.truncate(place);
            prop_assert!(parse(&line).is_err(), "half a request is none");
        }

        #[test]
        fn every_request_is_read_back(request in any_request()) {
            prop_assert_eq!(parse(&serde_json::to_vec(&request).unwrap()), Ok(request));
        }
    }
}
