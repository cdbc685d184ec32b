//! Errors of the kernel side, with texts that say what to do.

use std::io;

use aya::maps::MapError;

/// The kernel refused a request; the text says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The object or one of its maps was refused.
    #[error("the kernel refused the BPF object: {0}")]
    Object(String),
    /// The verifier refused a program: a bug of ours on this kernel, or the kernel lacks a feature that the
    /// program needs.
    #[error("this kernel does not take our program `{program}`: {reason} ({source})")]
    Verifier {
        program: &'static str,
        source: io::Error,
        reason: String,
    },
    #[error("the kernel lets no probe write into a program: {source}, {reason}")]
    NoStore { source: io::Error, reason: String },
    #[error("loading BPF programs is not permitted: {0}")]
    Permission(io::Error),
    #[error("could not attach {count} probes to {path}: {source}")]
    Attach {
        path: String,
        /// Number of requested sites.
        count: usize,
        source: io::Error,
    },
    /// Processes of a command cannot be distinguished from others on this kernel.
    #[error("a command cannot be watched from its start here: {0}; start it, then tuneagent attach")]
    NoFamily(&'static str),
    #[error("{0}")]
    Calibration(String),
    /// Some data that the kernel side has counted cannot be read.
    #[error("some counters cannot be read: mapping more of the BPF map {name} failed: {why}")]
    NotMapped { name: &'static str, why: String },
    /// A map could not be read or written.
    #[error("a map of the kernel side failed: {0}")]
    Map(#[from] MapError),
}

impl KernelError {
    /// Whether the kernel does not know the process to be probed: it has ended, or one of its threads is just
    /// executing another program and takes over the process number.
    pub fn is_of_no_process(&self) -> bool {
        matches!(self, KernelError::Attach { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
    }
}
