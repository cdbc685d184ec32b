//! The lines of a session log: a header, an event with its effects on each line, and a footer with the number
//! of events.

use serde::{Deserialize, Serialize};

use super::StateMachine;
use crate::members::{Members, MembersOrigin};
use rules::Time;

/// Largest size of a log, in bytes.
pub(super) const LOG_BYTES_MAX: usize = 16 << 20;

/// The newest format of the log. A change of an event or an effect increments it.
pub(super) const FORMAT: u32 = 3;

/// The first line: how the session began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHeader {
    /// The format of the file.
    pub(super) session_log: u32,
    /// The version of tuneagent that wrote it.
    pub tuneagent: String,
    pub program: String,
    pub(super) origin: MembersOrigin,
    pub(super) missing: Vec<String>,
    /// When the probes were armed; the times of events use the same clock.
    pub(super) armed_ns: u64,
}

impl LogHeader {
    pub fn new(program: String, origin: MembersOrigin, missing: Vec<String>, armed: Time) -> LogHeader {
        LogHeader {
            session_log: FORMAT,
            tuneagent: env!("CARGO_PKG_VERSION").to_owned(),
            program,
            origin,
            missing,
            armed_ns: armed.0,
        }
    }

    pub(super) fn members(&self) -> Members {
        Members::new(self.origin, self.missing.clone(), Time(self.armed_ns))
    }
}

plan::words! {
    serde:
    /// The state machines of a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogPart {
        /// The processes of the job.
        Members = "members",
        Changes = "changes",
        /// Requests of users while it runs.
        Requests = "requests",
        /// The end of the session.
        Leaving = "leaving",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Footer {
    /// Number of lines between the first and this one.
    pub(super) events: usize,
    /// Events that came when the log was full.
    pub(super) dropped: u64,
}

/// Passes an event to a part and returns the line of the log with the effects. The line is an error if the
/// event or an effect cannot be written as JSON.
pub(super) fn line<S: StateMachine>(
    part: &mut S,
    event: S::Event,
    now: Time,
) -> (serde_json::Result<String>, Vec<S::Effect>) {
    let event_text = serde_json::to_string(&event);
    let effects = part.on(event, now);
    let line = event_text.and_then(|event| {
        let (at, part, effects) = (now.0, S::PART.name(), serde_json::to_string(&effects)?);
        Ok(format!(
            "{{\"at\":{at},\"part\":\"{part}\",\"event\":{event},\"effects\":{effects}}}"
        ))
    });
    (line, effects)
}

/// The lines so far.
#[derive(Debug)]
pub(super) struct Lines {
    text: String,
    events: usize,
    dropped: u64,
}

impl Lines {
    pub(super) fn new(header: &LogHeader) -> Lines {
        let mut lines = Lines {
            text: String::new(),
            events: 0,
            dropped: 0,
        };
        lines.append(serde_json::to_string(header).ok());
        lines
    }

    /// Passes an event to a part, and logs the event and its effects.
    pub(super) fn on<S: StateMachine>(&mut self, part: &mut S, event: S::Event, now: Time) -> Vec<S::Effect> {
        let (line, effects) = line(part, event, now);
        self.push(line.ok());
        effects
    }

    /// After a missing event, later ones are useless.
    fn push(&mut self, line: Option<String>) {
        let has_room = |line: &String| self.text.len() + line.len() < LOG_BYTES_MAX;
        match line.filter(has_room) {
            Some(line) if self.dropped == 0 => {
                self.append(Some(line));
                self.events += 1;
            }
            _ => self.dropped += 1,
        }
    }

    fn append(&mut self, line: Option<String>) {
        self.text.extend(line.as_deref());
        self.text.push('\n');
    }

    /// The complete text with its footer, and the number of missing events.
    pub(super) fn finish(mut self) -> (String, u64) {
        let (events, dropped) = (self.events, self.dropped);
        self.append(serde_json::to_string(&Footer { events, dropped }).ok());
        (self.text, dropped)
    }
}
