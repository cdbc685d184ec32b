//! Deciding once for practice, shortly before a decision is likely: what it takes has left the caches since the last one, and fetching
//! it from memory takes longer than deciding does. On a copy of the engine: nothing follows from it.

use std::hint::black_box;

use rules::{Observation, ProcessId, Time};

use super::RuleBook;
use crate::clock::monotonic_ns;

/// An engine whose copy takes longer than this to decide is not copied again, in nanoseconds.
const LONGEST_NS: u64 = 500_000;

/// The hit that the last decision followed, or might have, and what practising cost.
#[derive(Debug, Default)]
pub(super) struct Rehearsal {
    last: Option<Observation>,
    took_ns: u64,
}

impl Rehearsal {
    /// A decision may follow this hit.
    pub(super) fn remember(&mut self, hit: &Observation) {
        self.last = Some(hit.clone());
    }
}

impl RuleBook {
    /// As if the hit that a decision may follow came now.
    pub fn rehearse(&mut self, now_ns: u64) {
        let Some(mut hit) = self.rehearsal.last.clone() else {
            return;
        };
        if self.rehearsal.took_ns > LONGEST_NS {
            return;
        }
        if let Observation::Hit { time, .. } = &mut hit {
            *time = Time(now_ns);
        }
        let mut engine = self.engine.clone();
        engine.observe(hit);
        for &slot in &self.slots {
            let (process, time) = (ProcessId(slot), Time(now_ns));
            engine.observe(Observation::Watermark { process, time });
        }
        black_box(engine.tick(Time(now_ns)));
        drop(engine);
        self.rehearsal.took_ns = monotonic_ns().saturating_sub(now_ns);
    }
}
