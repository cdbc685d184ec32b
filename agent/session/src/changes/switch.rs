//! Probes of the session that rules switch.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A switch that a rule decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// The rule, by its number.
    pub rule: usize,
    /// Its probe, by its number.
    pub probe: usize,
    pub slot: u32,
    /// On or off.
    pub on: bool,
}

impl Switch {
    /// What puts these back, in the processes of these slots alone if they are said.
    pub fn back(made: &[Switch], slots: Option<&BTreeSet<u32>>) -> Vec<Switch> {
        let is_meant = |switch: &&Switch| slots.is_none_or(|slots| slots.contains(&switch.slot));
        let meant = made.iter().filter(is_meant);
        meant
            .map(|made| Switch {
                on: !made.on,
                ..*made
            })
            .collect()
    }
}
