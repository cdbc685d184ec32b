//! What a session decides, as state machines: events carry all data, time is an argument, effects are values.
//! [`members`] decides which processes join, end and run another program, [`changes`] what is ordered,
//! judged, reverted and retried, [`intake`] up to when all hits are known, [`budget`] what watching may cost,
//! [`requests`] what users may request, [`leave`] how it ends. [`log`] records their events and effects, and
//! replays them. [`parts`] composes them.
//!
//! Pure: nothing here reads a clock or a file, waits, looks into a process or knows the kernel's interfaces.
//! The owner carries the effects out.
#![forbid(unsafe_code)]

/// Of an event at a time a state machine makes these effects.
#[cfg(test)]
macro_rules! gives {
    ($it:ident, $event:expr, $at:expr => $effects:expr $(, $($message:tt)+)?) => {
        assert_eq!($it.on($event, $at), $effects $(, $($message)+)?);
    };
}

pub mod budget;
pub mod changes;
mod decision;
pub mod greeting;
pub mod intake;
pub mod leave;
pub mod log;
pub mod members;
pub mod parts;
mod process;
pub mod request;
pub mod requests;

// What rules decided, resolved to processes.
pub use decision::{Act, ResolvedAction, ResolvedDecision};
