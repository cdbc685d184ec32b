//! The service of a node: loads and attaches probes for users without rights, on their own programs only. A
//! session is a process of its user; it gets the maps and the links as descriptors, and this process keeps
//! the programs (docs/decisions/0020).
//!
//! `access` decides about a process, `served` handles a session, `serve` accepts them, `audit` logs them,
//! `systemd` reports the state to systemd.

mod access;
mod audit;
mod serve;
mod served;
mod systemd;

use std::path::Path;

use crate::cli::NODE_SOCKET;

pub(crate) use serve::{ServiceOptions, serve};

/// The variable that names another socket, for tests.
const SOCKET_VARIABLE: &str = "TUNEAGENT_NODE";

/// The socket to which sessions of this process connect.
pub(crate) fn socket() -> std::path::PathBuf {
    std::env::var_os(SOCKET_VARIABLE).map_or_else(|| Path::new(NODE_SOCKET).to_owned(), Into::into)
}
