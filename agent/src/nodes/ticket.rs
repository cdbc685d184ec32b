//! The file with which a node joins a session: addresses and one credential.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::certificates::Credential;
use crate::exit::{Failure, unreadable};

/// A longer file is none of ours.
const BYTES_MAX: u64 = 64 << 10;
/// Characters of a version that are shown.
const VERSION_MAX: usize = 64;

/// The version in a ticket of any version.
#[derive(Deserialize)]
struct WrittenBy {
    tuneagent: String,
}

/// What a node needs to join a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ticket {
    /// The version of the program that wrote it.
    pub(crate) tuneagent: String,
    pub(crate) program: String,
    /// The machine of the coordinator.
    pub(crate) host: String,
    /// Addresses and the port of its server; each is tried.
    pub(super) addresses: Vec<String>,
    pub(crate) node: u32,
    /// The job, as a TARGET on the node; `None` if nothing in its environment names it.
    pub(crate) target: Option<String>,
    pub(super) credential: Credential,
    /// The node comes from a session that keeps its standard input open: when that ends, the node ends.
    pub(crate) ends_with_input: bool,
}

impl Ticket {
    /// A ticket for this job, without addresses and credential.
    pub(crate) fn of_job(tuneagent: &str, program: String, host: String, target: Option<String>) -> Ticket {
        Ticket {
            tuneagent: tuneagent.to_owned(),
            program,
            host,
            target,
            ..Ticket::default()
        }
    }

    /// The ticket as a file has it: one line.
    pub(super) fn line(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Reads a ticket from this file, or the first line of standard input for `-`. A file is removed: it serves once.
    /// It must be of this version, `own`, of the program.
    pub(crate) fn take(file: &Path, own: &str) -> Result<Ticket, Failure> {
        let is_stdin = file == Path::new("-");
        let read = || -> io::Result<String> {
            let mut text = String::new();
            let source: Box<dyn Read> = match is_stdin {
                true => Box::new(io::stdin()),
                false => Box::new(tuner::foreign::open(file)?),
            };
            BufReader::new(source.take(BYTES_MAX)).read_line(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|error| unreadable(file, &error))?;
        let written_by = serde_json::from_str::<WrittenBy>(&text).map(|by| by.tuneagent);
        if let Some(other) = written_by.ok().filter(|version| version != own) {
            let other: String = other.chars().take(VERSION_MAX).collect();
            return Err(Failure::invalid(format!(
                "this is tuneagent {own}, and the session has {other}: install the same version on both machines"
            )));
        }
        let ticket = serde_json::from_str(&text).map_err(|error| {
            Failure::invalid(format!(
                "{} is no join file: {error}; `tuneagent attach … --join-file FILE` writes one",
                file.display()
            ))
        })?;
        if !is_stdin {
            fs::remove_file(file)
                .map_err(|error| Failure::failed(format!("{} cannot be removed: {error}", file.display())))?;
        }
        Ok(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_of_another_version_is_refused_with_both_whatever_else_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("join");
        fs::write(&file, "{\"tuneagent\": \"9.9\", \"new\": 1}\n").unwrap();
        let refused = Ticket::take(&file, "0.1").unwrap_err().error.to_string();
        assert!(
            refused.starts_with("this is tuneagent 0.1, and the session has 9.9"),
            "{refused}"
        );
        assert!(file.exists(), "another version may use it");
    }

    #[test]
    fn a_join_file_serves_once_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("join");
        let ticket = Ticket {
            node: 1,
            ..Ticket::default()
        };
        fs::write(&file, serde_json::to_string(&ticket).unwrap()).unwrap();
        assert_eq!(Ticket::take(&file, "").unwrap(), ticket);
        let refused = Ticket::take(&file, "").unwrap_err();
        assert!(
            refused.error.to_string().starts_with("there is no file"),
            "{:?}",
            refused.error
        );
        for text in ["", "{}", "rule: x", "[1]"] {
            fs::write(&file, text).unwrap();
            let refused = Ticket::take(&file, "").unwrap_err().error.to_string();
            assert!(refused.contains("is no join file"), "{refused}");
        }
    }
}
