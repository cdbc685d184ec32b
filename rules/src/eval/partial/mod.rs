//! The data of an open window: an exact aggregate for each process and fold.
//!
//! A rule's folds are collected once, with equal ones merged (`check::folds`). A hit is evaluated once, on
//! arrival: its condition, values and key are computed ([`source`]) and added to the [`state`] of each fold.
//! Folds over time are thus below folds over processes: a process that is left out of a window is a row that
//! is not merged, and a node passes on rows instead of hits. A fold that depends on values known only at the
//! close, such as a metric or the captures of the boundaries, has its hits kept. Which hits belong to which
//! instance is decided in [`crate::engine`].

mod content;
mod parts;
mod past;
mod read;
mod reduced;
mod room;
mod source;
mod state;

pub(crate) use content::Content;
pub(crate) use parts::ContentPart;
pub(crate) use past::Past;
pub(crate) use read::{MORE_THAN_KEPT, of_values, value};
pub(crate) use reduced::{Reduced, first};
pub(crate) use room::Room;
pub(crate) use state::{AggregateState, HitPosition};

#[cfg(test)]
mod tests;
