//! The agent.
pub mod kernel;
