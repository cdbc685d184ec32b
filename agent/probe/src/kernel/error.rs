//! Errors of the kernel side, with texts that say what to do.

use std::error::Error;
use std::io;
use std::sync::Arc;

use aya::maps::MapError;

/// The kernel refused a request; the text says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The object could not be parsed, bound to its maps or loaded.
    #[error("the kernel refused the BPF object")]
    Object(#[source] Box<dyn Error + Send + Sync>),
    #[error("the kernel refused the BPF object: {step}")]
    Load {
        /// The step of loading that has failed.
        step: &'static str,
        source: Box<dyn Error + Send + Sync>,
    },
    /// A bug of ours: the committed object is not the one that this code was written for.
    #[error("`{0}` is not in the BPF object")]
    Missing(String),
    /// A map, a ring or a tracepoint of the object.
    #[error("the BPF object cannot be used: {part}")]
    Part { part: String, source: io::Error },
    /// The verifier refused a program: a bug of ours on this kernel, or the kernel lacks a feature that the
    /// program needs.
    #[error("this kernel does not take our program `{program}`: {reason} ({error})")]
    Verifier {
        program: &'static str,
        error: io::Error,
        reason: String,
    },
    #[error("the kernel does not permit probes to write into a program: {error}, {reason}")]
    NoStore { error: io::Error, reason: String },
    #[error("loading BPF programs is not permitted")]
    Permission(#[source] io::Error),
    #[error("could not attach {count} probes to {path}")]
    Attach {
        path: String,
        /// Number of requested sites.
        count: usize,
        source: io::Error,
    },
    /// Processes of a command cannot be distinguished from others on this kernel.
    #[error("a command cannot be watched from its start here: {0}; start it, then tuneagent attach")]
    NoFamily(&'static str),
    /// The programs of a user cannot be distinguished from others on this kernel.
    #[error("the kernel does not describe its types (BTF), so it is not known whose program hits a probe")]
    NoAccessCheck,
    /// Links for all processes are not made for users.
    #[error("the kernel cannot limit probes to one process (before 6.10)")]
    NotByProcess,
    /// The node's service refused, or is not there.
    #[error("the node's service")]
    Service(#[from] super::service::ServiceError),
    #[error("{0}")]
    Calibration(String),
    /// Some data that the kernel side has counted cannot be read.
    #[error("some counters cannot be read: mapping more of the BPF map {name} failed")]
    NotMapped {
        name: &'static str,
        /// Shared, because a map fails once, and each of its readers reports that.
        source: Arc<io::Error>,
    },
    /// A map could not be read or written.
    #[error("a map of the kernel side failed")]
    Map(#[from] MapError),
}

impl KernelError {
    pub(super) fn object(error: impl Error + Send + Sync + 'static) -> KernelError {
        KernelError::Object(Box::new(error))
    }

    /// Wraps the error of a map, a ring or a tracepoint.
    pub(super) fn part(part: impl Into<String>) -> impl FnOnce(io::Error) -> KernelError {
        let part = part.into();
        |source| KernelError::Part { part, source }
    }

    /// Whether the kernel does not know the process to be probed: it has ended, or one of its threads is just
    /// executing another program and takes over the process number.
    pub fn is_of_no_process(&self) -> bool {
        matches!(self, KernelError::Attach { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
    }
}

#[cfg(test)]
mod tests {
    use aya::sys::SyscallError;
    use profile::error::ErrorText;

    use super::*;

    #[test]
    fn each_error_of_the_kernel_is_shown_with_its_number() {
        let not_permitted = || io::Error::from_raw_os_error(libc::EPERM);
        let call_failed = || SyscallError {
            call: "bpf_map_create",
            io_error: not_permitted(),
        };
        let errors = [
            KernelError::object(call_failed()),
            KernelError::Load {
                step: "map error",
                source: MapError::SyscallError(call_failed()).into(),
            },
            KernelError::object(MapError::SyscallError(call_failed())),
            KernelError::part("calls")(io::Error::other(call_failed())),
            KernelError::Permission(not_permitted()),
            KernelError::Verifier {
                program: "entry",
                error: not_permitted(),
                reason: "no reason".to_owned(),
            },
            KernelError::NoStore {
                error: not_permitted(),
                reason: "lockdown".to_owned(),
            },
            KernelError::Attach {
                path: "/bin/a".to_owned(),
                count: 1,
                source: io::Error::other(call_failed()),
            },
            KernelError::NotMapped {
                name: "CALLS",
                source: Arc::new(not_permitted()),
            },
            KernelError::Map(MapError::SyscallError(call_failed())),
        ];
        for error in errors {
            let shown = ErrorText::of(&error).to_string();
            assert_eq!(shown.matches("(os error 1)").count(), 1, "{shown}");
        }
    }
}
