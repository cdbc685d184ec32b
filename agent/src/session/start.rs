//! How a session begins, lives and fails.

use std::time::Duration;

use job::{Job, host, job_id, monotonic_ns, unix_s};
use probe::kernel::KernelError;

use crate::{exit::Failure, priority::RaisedPriority, watchdog::LoopProgress};

/// Where and when a session began.
pub(super) struct Start {
    pub(super) host: String,
    /// What the site calls the job.
    pub(super) job_id: String,
    pub(super) armed_ns: u64,
    /// The same in seconds since 1970.
    pub(super) armed_unix_s: f64,
}

impl Start {
    pub(super) fn new(job: &Job, armed_ns: u64) -> Start {
        Start {
            host: host(),
            job_id: job_id(job),
            armed_ns,
            armed_unix_s: unix_s(),
        }
    }

    pub(super) fn since_armed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.armed_ns))
    }
}

/// How it shows that it lives.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    pub(super) progress: LoopProgress,
    /// Until there are first numbers.
    pub(super) hurry: Option<RaisedPriority>,
}

pub(super) fn kernel_failure(error: KernelError) -> Failure {
    match error {
        KernelError::Permission(_) => Failure::not_permitted(error),
        KernelError::Verifier { .. } => Failure::not_there(format!(
            "{error}\nwhat works on this machine: tuneagent doctor; all that the verifier says: TUNEAGENT_LOG=debug"
        )),
        other => Failure::not_there(other),
    }
}
