//! Where the functions that rules request are among the probed ones: looked up once for all processes that
//! are read together, not for each. Counts nothing.

use std::collections::{BTreeMap, BTreeSet};

use profile::mpi::BytesKind;
use profile::probe::Probe;
use rules::Measure;

use super::RuleBook;

/// Places in a list of probes.
#[derive(Debug, Default)]
pub(crate) struct ProbePlaces {
    /// MPI's functions, and whether what they carry is sent.
    pub(super) mpi: Vec<(usize, bool)>,
    pub(super) requested: BTreeMap<usize, Vec<usize>>,
    /// What rules want to know of MPI function by function.
    pub(super) by_call: BTreeSet<Measure>,
}

impl RuleBook {
    /// Those of these probes.
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
                // Once, even if it is requested several times.
                if of.last() != Some(&place) {
                    of.push(place);
                }
            }
        }
        places
    }
}

impl ProbePlaces {
    /// The functions of a request.
    pub(super) fn of(&self, request: usize) -> &[usize] {
        self.requested.get(&request).map_or(&[], Vec::as_slice)
    }
}
