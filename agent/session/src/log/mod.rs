//! The log of a session (`--record-session`): every event of its state machines with its effects, as lines of
//! JSON. [`replay()`] feeds the events to new state machines and compares the effects byte for byte. The
//! state machines are `members`, `changes`, `requests` and `leave`.
//!
//! The lines are kept in memory and written at the end, because a session cannot create files once it is
//! armed. When the bound is reached the log stops, so that its content can be replayed; later events are
//! counted.

mod lines;
mod replay;
#[cfg(test)]
mod tests;
mod words;

use std::{fmt, io};

use serde::Serialize;
use thiserror::Error;

use self::lines::Lines;
#[cfg(test)]
pub(super) use self::tests::Recorded;
pub use self::{
    lines::{LogHeader, LogPart},
    replay::{Mismatch, ReplayStep, Replayed, is_log, replay},
};
use super::{changes, leave, members, requests};
use crate::request::Request;
use profile::format::plural;
use rules::Time;

/// A part of a session that is a state machine: its effects depend only on its events and their times.
pub trait StateMachine {
    const PART: LogPart;
    type Event: Serialize;
    type Effect: Serialize;

    fn on(&mut self, event: Self::Event, now: Time) -> Vec<Self::Effect>;
}

impl StateMachine for members::Members {
    const PART: LogPart = LogPart::Members;
    type Event = members::MemberEvent;
    type Effect = members::MemberEffect;

    fn on(&mut self, event: members::MemberEvent, now: Time) -> members::MemberEffects {
        self.on(event, now)
    }
}

impl StateMachine for changes::Changes {
    const PART: LogPart = LogPart::Changes;
    type Event = changes::ChangeEvent;
    type Effect = changes::ChangeEffect;

    fn on(&mut self, event: changes::ChangeEvent, now: Time) -> changes::ChangeEffects {
        self.on(event, now)
    }
}

impl StateMachine for leave::Leaving {
    const PART: LogPart = LogPart::Leaving;
    type Event = leave::LeaveEvent;
    type Effect = leave::LeaveEffect;

    fn on(&mut self, event: leave::LeaveEvent, _: Time) -> Vec<leave::LeaveEffect> {
        self.on(event)
    }
}

/// Requests have no state: a request gives the same steps each time.
pub struct Requests(pub requests::Check);

impl StateMachine for Requests {
    const PART: LogPart = LogPart::Requests;
    type Event = (Request, requests::RequestState);
    type Effect = requests::RequestStep;

    fn on(&mut self, (request, state): Self::Event, _: Time) -> Vec<requests::RequestStep> {
        requests::steps(request, state, self.0)
    }
}

type Complete = dyn FnOnce(&[u8]) -> io::Result<()>;

pub struct LogFile {
    name: String,
    complete: Box<Complete>,
}

impl LogFile {
    /// A file with this name; `complete` writes the log into it.
    pub fn new(name: String, complete: impl FnOnce(&[u8]) -> io::Result<()> + 'static) -> LogFile {
        let complete = Box::new(complete);
        LogFile { name, complete }
    }
}

impl fmt::Debug for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Why a log is not complete.
#[derive(Debug, Error)]
pub enum LogError {
    #[error("{name} could not be written: {error}")]
    NotWritten { name: String, error: io::Error },
    #[error("{} left out of {name}: it would have more than {} bytes", plural(*.dropped as usize, "event"), lines::LOG_BYTES_MAX)]
    TooLarge { name: String, dropped: u64 },
}

/// The log, if there is one. A log that is dropped before it was completed is written all the same, because a
/// failed session needs it most.
#[derive(Debug, Default)]
pub struct Log(Option<(Lines, LogFile)>);

impl Log {
    /// A log, if there is a file for it.
    pub fn new(file: Option<LogFile>, header: impl FnOnce() -> LogHeader) -> Log {
        Log(file.map(|file| (Lines::new(&header()), file)))
    }

    /// Passes an event to a part, and logs the event and its effects.
    pub fn on<S: StateMachine>(&mut self, part: &mut S, event: S::Event, now: Time) -> Vec<S::Effect> {
        match &mut self.0 {
            None => part.on(event, now),
            Some((lines, _)) => lines.on(part, event, now),
        }
    }

    pub fn complete(&mut self) -> Result<(), LogError> {
        let Some((lines, LogFile { name, complete })) = self.0.take() else {
            return Ok(());
        };
        let (text, dropped) = lines.finish();
        match complete(text.as_bytes()) {
            Err(error) => Err(LogError::NotWritten { name, error }),
            Ok(()) if dropped > 0 => Err(LogError::TooLarge { name, dropped }),
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.complete() {
            tracing::warn!(%error, "the session log is not complete");
        }
    }
}
