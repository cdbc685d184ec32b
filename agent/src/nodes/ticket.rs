//! The file with which a node joins a session: addresses and one credential.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::certificates::Credential;
use crate::exit::{Failure, unreadable};

/// A longer file is none of ours.
const BYTES_MAX: u64 = 64 << 10;

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

    /// Reads a ticket from this file, or standard input for `-`. A file is removed: it serves once.
    pub(crate) fn take(file: &Path) -> Result<Ticket, Failure> {
        let is_stdin = file == Path::new("-");
        let read = || -> io::Result<String> {
            let mut text = String::new();
            let source: Box<dyn Read> = match is_stdin {
                true => Box::new(io::stdin()),
                false => Box::new(tuner::foreign::open(file)?),
            };
            source.take(BYTES_MAX).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|error| unreadable(file, &error))?;
        let ticket = serde_json::from_str(&text).map_err(|error| {
            Failure::not_there(format!(
                "{} is no join file: {error}; `tuneagent attach … --join-file FILE` writes one",
                file.display()
            ))
        })?;
        if !is_stdin {
            fs::remove_file(file)
                .map_err(|error| Failure::no(format!("{} cannot be removed: {error}", file.display())))?;
        }
        Ok(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_file_serves_once_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("join");
        let ticket = Ticket {
            node: 1,
            ..Ticket::default()
        };
        fs::write(&file, serde_json::to_string(&ticket).unwrap()).unwrap();
        assert_eq!(Ticket::take(&file).unwrap(), ticket);
        let refused = Ticket::take(&file).unwrap_err();
        assert!(
            refused.error.to_string().starts_with("there is no file"),
            "{:?}",
            refused.error
        );
        for text in ["", "{}", "rule: x", "[1]"] {
            fs::write(&file, text).unwrap();
            let refused = Ticket::take(&file).unwrap_err().error.to_string();
            assert!(refused.contains("is no join file"), "{refused}");
        }
    }
}
