//! Replays a session log: the same events give the same effects, or the first line that differs is reported.

use std::fmt;

use serde::{
    Deserialize,
    de::{DeserializeOwned, Error},
};
use serde_json::Value;

use super::{
    Requests, StateMachine,
    lines::{FORMAT, Footer, LogHeader, LogPart, line},
    words::words,
};
use crate::{changes::Changes, leave::Leaving, members::Members, requests::Check};
use rules::Time;

/// The first bytes of a log.
const BEGIN: &[u8] = b"{\"session_log\":";

/// Whether these bytes begin a session log.
pub fn is_log(bytes: &[u8]) -> bool {
    bytes.starts_with(BEGIN)
}

/// An event and its effects.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayStep {
    /// Nanoseconds since the probes were armed.
    pub since_ns: u64,
    /// The part that received the event.
    pub part: LogPart,
    pub event: Value,
    pub effects: Vec<Value>,
}

impl ReplayStep {
    pub fn event_text(&self) -> String {
        words(&self.event)
    }

    pub fn effect_texts(&self) -> impl Iterator<Item = String> {
        self.effects.iter().map(words)
    }

    /// Only time has passed: all effects are checks.
    pub fn is_polling(&self) -> bool {
        let is_one_of = |value: &Value, names: &[&str]| {
            let name = value.as_object().and_then(|object| object.keys().next());
            let name = name.map(String::as_str).or(value.as_str());
            name.is_some_and(|name| names.contains(&name))
        };
        let looks = [
            "check_programs",
            "scan",
            "look_into",
            "look_at_command",
            "check_mpi",
        ];
        is_one_of(&self.event, &["tick", "look", "looked_into", "settled", "found"])
            && self.effects.iter().all(|effect| is_one_of(effect, &looks))
    }
}

/// A log that was replayed completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How the session began.
    pub header: LogHeader,
    /// Number of replayed events.
    pub events: usize,
    /// Events for which the log had no room.
    pub dropped: u64,
}

/// Why a log could not be replayed to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// This line is not part of a log, for this reason.
    Unreadable {
        /// The number of the line, from 1.
        line: usize,
        why: String,
    },
    /// The same event has another effect now.
    Differs {
        /// The number of the line, from 1.
        line: usize,
        /// As in the file.
        recorded: String,
        /// The effects of the replay.
        replayed: String,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Unreadable { line, why } => write!(f, "{line}: {why}"),
            Mismatch::Differs {
                line,
                recorded,
                replayed,
            } => write!(
                f,
                "{line}: the replay differs\n  recorded: {recorded}\n  replayed: {replayed}"
            ),
        }
    }
}

/// Replays a log. `check` checks the rules that are added in it; `report` receives each step that is equal.
pub fn replay(text: &str, check: Check, mut report: impl FnMut(ReplayStep)) -> Result<Replayed, Mismatch> {
    let mut lines = (1..).zip(text.lines());
    let (_, first) = lines.next().unwrap_or((1, ""));
    let header = header(first)?;
    let mut parts = StateMachines {
        members: header.members(),
        changes: Changes::default(),
        leaving: Leaving::default(),
        requests: Requests(check),
    };
    let mut events = 0;
    for (number, recorded) in &mut lines {
        let unreadable = |why: serde_json::Error| Mismatch::Unreadable {
            line: number,
            why: format!("{why}; take the file as `--record-session` wrote it"),
        };
        if let Ok(Footer { events: all, dropped }) = serde_json::from_str(recorded) {
            return match all == events && lines.next().is_none() {
                true => Ok(Replayed {
                    header,
                    events,
                    dropped,
                }),
                false => Err(torn(number)),
            };
        }
        let Line {
            at,
            part,
            event,
            effects,
        } = serde_json::from_str(recorded).map_err(unreadable)?;
        let replayed = parts.on(part, event.clone(), Time(at)).map_err(unreadable)?;
        if replayed != recorded {
            let recorded = recorded.to_owned();
            return Err(Mismatch::Differs {
                line: number,
                recorded,
                replayed,
            });
        }
        events += 1;
        report(ReplayStep {
            since_ns: at.saturating_sub(header.armed_ns),
            part,
            event,
            effects,
        });
    }
    Err(torn(events + 2))
}

fn header(first: &str) -> Result<LogHeader, Mismatch> {
    let unreadable = |why| Mismatch::Unreadable { line: 1, why };
    #[derive(Deserialize)]
    struct Form {
        session_log: u32,
        tuneagent: String,
    }
    let parsed = serde_json::from_str(first).and_then(|form: Form| match form.session_log {
        FORMAT => serde_json::from_str(first).map(Ok),
        other => Ok(Err(format!(
            "format {other} of tuneagent {}; this is tuneagent {}, which reads format {FORMAT}",
            form.tuneagent,
            env!("CARGO_PKG_VERSION")
        ))),
    });
    parsed
        .map_err(|error| unreadable(error.to_string()))?
        .map_err(unreadable)
}

fn torn(line: usize) -> Mismatch {
    Mismatch::Unreadable {
        line,
        why: "lines are missing: the file does not have as many events as its last line says".to_owned(),
    }
}

/// A line between the first and the last.
#[derive(Deserialize)]
struct Line {
    at: u64,
    part: LogPart,
    event: Value,
    effects: Vec<Value>,
}

struct StateMachines {
    members: Members,
    changes: Changes,
    leaving: Leaving,
    requests: Requests,
}

impl StateMachines {
    fn on(&mut self, part: LogPart, event: Value, now: Time) -> serde_json::Result<String> {
        match part {
            LogPart::Members => again(&mut self.members, event, now),
            LogPart::Changes => again(&mut self.changes, event, now),
            LogPart::Requests => {
                reads_no_file(&event)?;
                again(&mut self.requests, event, now)
            }
            LogPart::Leaving => again(&mut self.leaving, event, now),
        }
    }
}

/// A rule that is added must contain those that it uses: names in another user's log are not opened as files.
fn reads_no_file(event: &Value) -> serde_json::Result<()> {
    match event.pointer("/0/given/source") {
        Some(source) if source.get("uses").is_none_or(Value::is_null) => Err(Error::custom(
            "the rule that is added does not bring the rules that it uses",
        )),
        _ => Ok(()),
    }
}

fn again<S: StateMachine<Event: DeserializeOwned>>(
    part: &mut S,
    event: Value,
    now: Time,
) -> serde_json::Result<String> {
    line(part, serde_json::from_value(event)?, now).0
}
