//! Indices by which the engine, its rules and the agent identify things.

use serde::{Deserialize, Serialize};

/// A rule of the engine, by its index in the list given to [`crate::Engine::new`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleId(pub usize);

/// A probe of a rule, by its index in [`crate::Plan::probes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProbeId(pub usize);

/// A decision, numbered from 1 in the order of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DecisionId(pub u64);
