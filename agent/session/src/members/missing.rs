//! What is not measured of processes, as text.

use super::event::{Candidate, LateAttachment};
use profile::format::duration;
use rules::Time;

/// Most lines about single processes.
const MISSING_MAX: usize = 64;

/// Numbers of processes of a command that are not measured, as counted on the kernel side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmeasured {
    /// Processes that hit a probe when no slot was left.
    pub without_slot: u64,
    /// Executed programs with more rights than the command has.
    pub privileged: u64,
}

/// What is known to be missing.
#[derive(Debug, Default)]
pub(super) struct Missing {
    texts: Vec<String>,
    /// Processes that had ended before they were read, while MPI was not watched.
    pub(super) unseen: u64,
}

impl Missing {
    pub(super) fn new(texts: Vec<String>) -> Missing {
        Missing { texts, unseen: 0 }
    }

    pub(super) fn note(&mut self, text: String) {
        match self.texts.len() {
            0..MISSING_MAX => self.texts.push(text),
            MISSING_MAX => self
                .texts
                .push("more processes have missing data than are listed".to_owned()),
            _ => {}
        }
    }

    /// Lists a text in place of another one, or anew if that is not listed.
    pub(super) fn replace(&mut self, old: &str, new: String) {
        match self.texts.iter_mut().find(|text| *text == old) {
            Some(text) => *text = new,
            None => self.note(new),
        }
    }

    pub(super) fn has(&self, text: &str) -> bool {
        self.texts.iter().any(|known| known == text)
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// What is only counted, as text.
    pub(super) fn counted(&self, unmeasured: Unmeasured) -> Vec<String> {
        let mut counted = Vec::new();
        if unmeasured.without_slot > 0 {
            counted.push(format!(
                "{} more processes hit a probe and are not measured: there was no room for them",
                unmeasured.without_slot
            ));
        }
        if self.unseen > 0 {
            counted.push(format!(
                "{} processes had ended before they were inspected, between two windows (--budget): of MPI only their first call \
                 is counted",
                self.unseen
            ));
        }
        if unmeasured.privileged > 0 {
            counted.push(format!(
                "{} programs have more rights than the command (set-uid) and are not watched",
                unmeasured.privileged
            ));
        }
        counted
    }
}

/// Why a process is not watched.
pub(super) fn refused(candidate: &Candidate, reason: &str) -> String {
    format!("{} {} is not watched: {reason}", who(candidate), candidate.pid)
}

/// What is unknown of a process because it was attached to late; `None` if nothing is.
pub(super) fn late(candidate: &Candidate, file: &LateAttachment, armed: Time) -> Option<String> {
    // The command itself waited until the probes were attached.
    let began = candidate.started.max(armed);
    let missed_ns = file.attached.0.checked_sub(began.0)?;
    // A process that is still in its first call has made no other.
    if file.is_again && file.begins {
        return None;
    }
    let (who, pid, missed) = (who(candidate), candidate.pid, duration(missed_ns as f64));
    Some(match file.is_again {
        true => format!(
            "{who} {pid}: calls of its first {missed} may be missing, because MPI was not watched then (--budget)"
        ),
        false => format!(
            "{who} {pid}: its first {missed} are not measured, because the session did not expect {}",
            file.name
        ),
    })
}

fn who(candidate: &Candidate) -> String {
    let rank = candidate.rank;
    rank.map_or_else(|| "process".to_owned(), |rank| format!("rank {rank}, process"))
}
