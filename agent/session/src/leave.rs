//! The end of a session as a pure sequence: what is read last, what is stopped, said and written, and the
//! exit code. The result of a step is an event, which gives the next steps.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::changes::{ActuatorPid, Ending, MachineReverts};
use profile::{error::ErrorText, format::duration};

/// The reason if a request ends the session.
pub const STOPPED: &str = "stopped by tuneagent session stop";

/// Events on the way to the end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaveEvent {
    /// The session must end.
    Stop {
        reason: String,
        /// It started the command that it watches.
        is_of_command: bool,
        /// Rules could write: an actuator must revert what does not stay.
        has_actuator: bool,
    },
    /// The last events were read.
    Read {
        /// All processes have ended.
        has_program_ended: bool,
    },
    /// The recording was completed, or failed.
    Recorded(Result<(), ErrorText>),
    /// The actuator has reverted all changes that are not kept, and ended.
    Reverted(Box<ActuatorEnd>),
    /// The actuator ended without reporting what it reverted.
    NotKnown(ErrorText),
    /// The trace was completed, or failed.
    Traced(Result<(), ErrorText>),
    /// The last snapshot was taken.
    Ready {
        /// Its line about the job; for a command it was unknown until now.
        header: String,
        /// Its lines at the end.
        closing: Vec<String>,
        /// A guard reverted a change, or failed to.
        has_reverted: bool,
        /// The state of all changes, if an actuator reported it.
        changes: String,
    },
    /// The reports were written, or failed.
    Written(Result<(), ErrorText>),
    /// The probes are detached, after this many nanoseconds; `None` if the kernel needs longer.
    Detached(Option<u64>),
    /// Standard output was written, or failed.
    Printed(Result<(), ErrorText>),
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaveEffect {
    /// Release the terminal: reverting may take a while, and is reported line by line.
    EndLive,
    /// Read the last processes, hits and counters, and evaluate them: [`LeaveEvent::Read`].
    ReadLast,
    /// Complete the recording: [`LeaveEvent::Recorded`].
    Record,
    /// Nothing is decided any more; trials without a verdict are not judged.
    EndChanges(Ending),
    /// Let the actuator revert all changes that are not kept: [`LeaveEvent::Reverted`] or
    /// [`LeaveEvent::NotKnown`].
    Revert,
    /// Report to the changes what was reverted.
    ReportReverts(MachineReverts),
    /// Complete the trace ([`LeaveEvent::Traced`]) and take the last snapshot ([`LeaveEvent::Ready`]).
    Show,
    Say(String),
    /// Write the reports: [`LeaveEvent::Written`].
    Write,
    /// Detach the probes: [`LeaveEvent::Detached`].
    Detach,
    /// Remove the control socket, then print to standard output: [`LeaveEvent::Printed`].
    Print,
    End,
}

/// What an actuator did at its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ActuatorEnd {
    /// The result for each change.
    pub reverts: MachineReverts,
    /// Processes in which nothing could be tried, and why.
    pub refused: Vec<(ActuatorPid, String)>,
    /// A change that does not stay could not be reverted.
    pub has_failed: bool,
}

#[derive(Debug, Default)]
pub struct Leaving {
    reason: String,
    is_of_command: bool,
    has_actuator: bool,
    /// A guard reverted a change, or a change could not be reverted.
    has_failed: bool,
    errors: Vec<ErrorText>,
    /// The state of all changes; `None` if the actuator reports it.
    changes: Option<String>,
    /// The last line, except how the probes were detached.
    last: String,
}

impl Leaving {
    /// The next steps, in this order.
    pub fn on(&mut self, event: LeaveEvent) -> Vec<LeaveEffect> {
        match event {
            LeaveEvent::Stop {
                reason,
                is_of_command,
                has_actuator,
            } => {
                (self.reason, self.is_of_command) = (reason, is_of_command);
                self.has_actuator = has_actuator;
                if !has_actuator {
                    self.changes = Some("nothing was written".to_owned());
                }
                vec![LeaveEffect::EndLive, LeaveEffect::ReadLast, LeaveEffect::Record]
            }
            LeaveEvent::Read { has_program_ended } => {
                let ending = match has_program_ended {
                    true => Ending::Program,
                    false => Ending::Session,
                };
                let next = match self.has_actuator {
                    true => LeaveEffect::Revert,
                    false => LeaveEffect::Show,
                };
                vec![LeaveEffect::EndChanges(ending), next]
            }
            LeaveEvent::Reverted(actuator_end) => {
                if actuator_end.has_failed {
                    self.has_failed = true;
                }
                let refused = actuator_end.refused.into_iter();
                let refused = refused.map(|(pid, why)| LeaveEffect::Say(format!("process {pid}: {why}")));
                let reported = [LeaveEffect::ReportReverts(actuator_end.reverts)];
                reported
                    .into_iter()
                    .chain(refused)
                    .chain([LeaveEffect::Show])
                    .collect()
            }
            LeaveEvent::NotKnown(error) => {
                self.has_failed = true;
                let text = format!(
                    "it is not known what was reverted: {error} (tuneagent journal lists the changes)"
                );
                self.changes = Some(text);
                vec![LeaveEffect::Show]
            }
            LeaveEvent::Ready {
                header,
                closing,
                has_reverted,
                changes,
            } => self.ready(header, closing, has_reverted, changes),
            LeaveEvent::Detached(took_ns) => {
                let detached = match took_ns {
                    Some(ns) => format!("detached in {}", duration(ns as f64)),
                    None => "detached; the kernel is still removing probes".to_owned(),
                };
                let last = format!("{}; {detached}; {}", self.reason, self.last);
                vec![LeaveEffect::Say(last), LeaveEffect::Print]
            }
            LeaveEvent::Recorded(result) | LeaveEvent::Traced(result) | LeaveEvent::Written(result) => {
                self.errors.extend(result.err());
                Vec::new()
            }
            LeaveEvent::Printed(result) => {
                self.errors.extend(result.err());
                vec![LeaveEffect::End]
            }
        }
    }

    fn ready(
        &mut self,
        header: String,
        closing: Vec<String>,
        has_reverted: bool,
        changes: String,
    ) -> Vec<LeaveEffect> {
        if has_reverted {
            self.has_failed = true;
        }
        self.last = self.changes.take().unwrap_or(changes);
        let header = self.is_of_command.then_some(header);
        let said = header.into_iter().chain(closing).map(LeaveEffect::Say);
        // Reports are written before anything that may take the kernel long.
        said.chain([LeaveEffect::Write, LeaveEffect::Detach]).collect()
    }

    /// How the session ended: true where all went well. `log_error` says why its log is not complete.
    pub fn outcome(mut self, log_error: Option<ErrorText>) -> Result<bool, NotWritten> {
        self.errors.extend(log_error);
        match self.errors.is_empty() {
            true => Ok(!self.has_failed),
            false => Err(NotWritten(self.errors)),
        }
    }
}

/// What a session could not write, a line each.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{}", lines(.0))]
pub struct NotWritten(Vec<ErrorText>);

fn lines(errors: &[ErrorText]) -> String {
    let lines: Vec<String> = errors.iter().map(ErrorText::to_string).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests;
