//! The decisions of a session, as state machines: events carry all data, time is an argument, effects are
//! values. [`members`] decides which processes join, end and run another program, [`changes`] what is
//! ordered, judged, reverted and retried, [`intake`] up to when all hits are known, [`budget`] what watching
//! may cost, [`requests`] what users may request, [`leave`] how it ends, [`nodes`] what the machines of a job report to each
//! other. [`log`] records events and effects,
//! and replays them. [`parts`] composes the state machines.
//!
//! Pure: nothing here reads a clock or a file, waits, accesses a process or knows the kernel's interfaces.
//! The owner carries out the effects.
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
mod steps;

pub mod budget;
pub mod changes;
mod decision;
pub mod greeting;
pub mod intake;
pub mod leave;
pub mod log;
pub mod members;
pub mod nodes;
pub mod parts;
mod process;
pub mod request;
pub mod requests;

// Errors in events.
pub use profile::error;

// Decisions of the rules, resolved to processes.
pub use decision::{Act, ResolvedAction, ResolvedDecision};
