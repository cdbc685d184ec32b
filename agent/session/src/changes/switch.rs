//! Probes of the session that rules switch.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSwitch {
    pub rule: usize,
    pub probe: usize,
    pub slot: u32,
    pub on: bool,
}

impl ProbeSwitch {
    /// The switches that revert these, limited to the processes of these slots if given.
    pub fn back(made: &[ProbeSwitch], slots: Option<&BTreeSet<u32>>) -> Vec<ProbeSwitch> {
        let is_selected = |switch: &&ProbeSwitch| slots.is_none_or(|slots| slots.contains(&switch.slot));
        let resolved = made.iter().filter(is_selected);
        resolved
            .map(|made| ProbeSwitch {
                on: !made.on,
                ..*made
            })
            .collect()
    }
}
