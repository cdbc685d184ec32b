//! The start, the liveness and the failures of a session.

use std::time::Duration;

use job::{Job, host, job_id, monotonic_ns, unix_s};
use probe::kernel::KernelError;
use profile::format::duration;

use crate::{
    exit::Failure,
    priority::RealTimeClass,
    watchdog::{LoopProgress, LoopStep},
};

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
    /// How often the loop took long for a step.
    stalls: u32,
}

/// A step of the loop that takes so long, in nanoseconds, is reported: the kernel may keep a call that attaches or
/// detaches probes waiting for all CPUs.
const STALL_NS: u64 = 3_000_000_000;

/// Stalls beyond this number are not reported.
const STALLS_MAX: u32 = 8;

impl Liveness {
    /// What is missing because of a step that took from `began_ns` until now, in words.
    pub(super) fn stalled(&mut self, step: LoopStep, began_ns: u64, now_ns: u64) -> Option<String> {
        let took_ns = now_ns.saturating_sub(began_ns);
        if took_ns < STALL_NS || self.stalls == STALLS_MAX {
            return None;
        }
        self.stalls += 1;
        Some(format!(
            "tuneagent stood still for {} while {}: numbers of this time are missing or too low",
            duration(took_ns as f64),
            step.name()
        ))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_takes_seconds_is_reported_and_not_for_ever() {
        let mut liveness = Liveness::default();
        let step = LoopStep::ReadCounters;
        assert_eq!(liveness.stalled(step, 5, 2_900_000_005), None);
        let text = liveness.stalled(step, 5, 29_300_000_005);
        let expected = "tuneagent stood still for 29.3 s while reading counters and evaluating: numbers of this time are missing or too low";
        assert_eq!(text.as_deref(), Some(expected));
        let more = (0..100).filter_map(|_| liveness.stalled(step, 0, STALL_NS));
        assert_eq!(more.count(), STALLS_MAX as usize - 1);
    }
}
