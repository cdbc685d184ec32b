//! All that measures: probes, the ring of hits, what was counted and what that comes to, what it costs.

use std::ops::Range;

use super::{
    budget::Budget, cpus::Cpus, intake::Intake, partial_sums::PartialSums, system::System, written::Written,
};
use crate::{kernel::Ring, probe::Probes, profile::Profile};

/// Probes, and what they bring.
pub(super) struct Measuring {
    pub(super) probes: Probes,
    /// Of what is probed, what is asked for in every process: what the user named, and parallel regions.
    pub(super) own: Range<usize>,
    /// None in a session that may not probe.
    pub(super) hits: Option<Ring>,
    /// What is known of it.
    pub(super) intake: Intake,
    /// What was aggregated in the kernel.
    pub(super) partial_sums: PartialSums,
    /// What was counted, and what it comes to.
    pub(super) profile: Profile,
    /// What watching may cost.
    pub(super) budget: Budget,
    pub(super) system: System,
    pub(super) cpus: Cpus,
    /// What the variables hold that rules would write.
    pub(super) written: Written,
}

impl Measuring {
    /// Of a session whose probes were just armed.
    pub(super) fn new(
        probes: Probes,
        own: Range<usize>,
        hits: Option<Ring>,
        budget: Budget,
        now_ns: u64,
    ) -> Measuring {
        Measuring {
            probes,
            own,
            hits,
            intake: Intake::new(now_ns),
            partial_sums: PartialSums::default(),
            profile: Profile::new(now_ns),
            budget,
            system: System::default(),
            cpus: Cpus::default(),
            written: Written::default(),
        }
    }
}
