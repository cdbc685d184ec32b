//! What acts: the way to the actuator, and what was ordered there.

use std::collections::BTreeMap;

use super::{actuator_queue::ActuatorQueue, orders::Ordered};

/// The way to the actuator.
#[derive(Default)]
pub(super) struct Actuation {
    /// None in a session that does not write.
    pub(super) queue: Option<ActuatorQueue>,
    /// What the actuator is to do for decisions that are not answered.
    pub(super) ordered: BTreeMap<u64, Ordered>,
}
