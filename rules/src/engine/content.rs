//! What is kept of the hits of one instance of a window, and what formulas see of it.
//!
//! Which hits belong to the instance is decided elsewhere, see [`super::track`].

use super::instance::Surroundings;
use super::stream::Arrived;
use crate::eval::WindowData;
use crate::hit::Hit;
use crate::value::ProcessId;

/// Hits in one instance; what is beyond makes it partial.
const MOST_HITS: usize = 65_536;

/// The hits of an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    hits: Vec<Arrived>,
}

impl Content {
    /// With the hit that begins the instance.
    pub(super) fn of(first: Arrived) -> Content {
        Content { hits: vec![first] }
    }

    /// False if there is no room for it.
    pub(super) fn take(&mut self, arrived: Arrived) -> bool {
        let room = self.hits.len() < MOST_HITS;
        if room {
            self.hits.push(arrived);
        }
        room
    }

    /// How many hits it has.
    pub(super) fn len(&self) -> usize {
        self.hits.len()
    }

    /// What formulas see of it. Measures are not in it.
    pub(super) fn data(&self, index: u64, around: &Surroundings<'_>) -> WindowData {
        let rule = around.rule;
        let names = rule.probes.iter().map(|probe| &probe.name);
        let names = names.chain(rule.joins.iter().map(|join| &join.name));
        let mut hits: Vec<(String, Vec<Hit>)> = names.map(|name| (name.clone(), Vec::new())).collect();
        for arrived in &self.hits {
            if let Some((_, hits)) = hits.get_mut(arrived.probe) {
                hits.push(arrived.hit.clone());
            }
        }
        hits.iter_mut().for_each(|(_, hits)| hits.sort_by(Hit::order));
        WindowData {
            index,
            duration: Ok(0.0),
            roles: around.roles.to_vec(),
            hits: hits.into_iter().map(|(name, hits)| (name, Ok(hits))).collect(),
            probe_roles: rule.probe_roles(),
            ranks: around.ranks.clone(),
            ..WindowData::default()
        }
    }
}

/// The window as one process of a role sees it: of the probes of that role its own hits only.
pub(super) fn of_one(data: &WindowData, role: usize, process: ProcessId) -> WindowData {
    let mut own = data.clone();
    for ((_, hits), of) in own.hits.iter_mut().zip(&data.probe_roles) {
        if let (true, Ok(hits)) = (*of == role, hits) {
            hits.retain(|hit| hit.process == process);
        }
    }
    own
}
