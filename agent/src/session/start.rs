//! The start, the liveness and the failures of a session.

use std::time::Duration;

use job::{Job, host, job_id, monotonic_ns, unix_s};
use probe::kernel::KernelError;

use crate::{exit::Failure, priority::RealTimeClass, watchdog::LoopProgress};

/// Where and when a session began.
pub(super) struct Start {
    pub(super) host: String,
    /// The id of the job in the batch system, or similar.
    pub(super) job_id: String,
    pub(super) armed_ns: u64,
    /// `armed_ns` in seconds since 1970.
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

/// How the session proves that it is alive.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    pub(super) progress: LoopProgress,
    /// Until there are first numbers.
    pub(super) real_time: Option<RealTimeClass>,
}

pub(super) fn kernel_failure(error: KernelError) -> Failure {
    match error {
        KernelError::Permission(_) => Failure::not_permitted(error),
        KernelError::Verifier { .. } => Failure::not_there(format!(
            "{error}\nwhat works on this machine: tuneagent doctor; all that the verifier says: TUNEAGENT_LOG=debug"
        ))
        .caused_by(&error),
        other => Failure::not_there(other),
    }
}
