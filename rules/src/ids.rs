//! Indices that the engine, its rules and the agent name things by.

use serde::{Deserialize, Serialize};

/// A rule of the engine, by its place in the list given to [`crate::Engine::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub usize);

/// A probe of a rule, by its place in [`crate::Plan::probes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeId(pub usize);

/// A decision, numbered from 1 in the order they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DecisionId(pub u64);
