//! What is kept of the hits of a window while it is open: for each process and fold an exact aggregate.
//!
//! A rule's folds are gathered once, equal ones together (`check::folds`). A hit is taken in once: its
//! condition, its values and its key are computed then ([`source`]) and go into the [`state`] of each fold.
//! Folds over time are thus below folds over processes: a process that is left out of a window is a row that
//! is not merged, and a node passes on rows instead of hits. A fold that needs what is known only at the
//! close — a metric, the captures of the boundaries — has its hits kept. Which hits belong to which instance
//! is decided elsewhere, see [`crate::engine`].

mod content;
mod past;
mod read;
mod source;
mod state;

pub(crate) use content::Content;
pub(crate) use past::Past;
pub(crate) use read::{of_values, value};
pub(crate) use state::{Place, State};

#[cfg(test)]
mod tests;
