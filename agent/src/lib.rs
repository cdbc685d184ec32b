//! The agent.
pub mod discover;
pub mod kernel;
pub mod mpi;
