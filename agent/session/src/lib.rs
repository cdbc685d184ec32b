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

/// Asserts the effects of an event at a time.
#[cfg(test)]
macro_rules! gives {
    ($it:ident, $event:expr, $at:expr => $effects:expr $(, $($message:tt)+)?) => {
        assert_eq!($it.on($event, $at), $effects $(, $($message)+)?);
    };
}

/// A state machine once these events, each at its time, have come.
#[cfg(test)]
macro_rules! after {
    ($it:expr; $($event:expr, $at:expr);+) => {{
        let mut it = $it;
        $(it.on($event, $at);)+
        it
    }};
}

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
