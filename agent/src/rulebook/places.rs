//! Indices of the requested functions among the probes: looked up once for all processes that are read
//! together, not for each.

use std::collections::{BTreeMap, BTreeSet};

use profile::mpi::BytesKind;
use profile::probe::Probe;
use rules::Measure;

use super::RuleBook;

/// Indices into a list of probes.
#[derive(Debug, Default)]
pub(crate) struct ProbePlaces {
    /// MPI functions, and whether their bytes are sent.
    pub(super) mpi: Vec<(usize, bool)>,
    pub(super) requested: BTreeMap<usize, Vec<usize>>,
    /// The measures that rules request by MPI function.
    pub(super) by_call: BTreeSet<Measure>,
}

impl RuleBook {
    /// The indices for these probes.
    pub(crate) fn places(&self, probes: &[Probe]) -> ProbePlaces {
        let plans = self.engine.rules().map(|(_, rule, _)| rule.plan());
        let mut places = ProbePlaces {
            by_call: plans.flat_map(|plan| plan.calls.iter().copied()).collect(),
            ..ProbePlaces::default()
        };
        for (place, probe) in probes.iter().enumerate() {
            if probe.mpi.is_some() {
                let sends = probe.bytes_kind() == Some(BytesKind::Sent);
                places.mpi.push((place, sends));
            }
            for wanted in &probe.wanted {
                let of = places.requested.entry(*wanted).or_default();
                // Only once, even if it is requested several times.
                if of.last() != Some(&place) {
                    of.push(place);
                }
            }
        }
        places
    }
}

impl ProbePlaces {
    /// The indices of a request's functions.
    pub(super) fn of(&self, request: usize) -> &[usize] {
        self.requested.get(&request).map_or(&[], Vec::as_slice)
    }
}
