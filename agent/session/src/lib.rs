//! What a session decides, as state machines: events carry all data, time is an argument, effects are values. [`members`] says who joins,
//! ends and runs another program, [`changes`] what is ordered, judged, reverted and retried, [`intake`] up to when hits are known,
//! [`budget`] what watching may cost, [`requests`] what users may ask for, [`leave`] how it ends. [`log`] takes note of their events and
//! effects, and replays them. [`parts`] composes them.
//!
//! Pure: nothing here reads a clock or a file, waits, looks into a process or knows the kernel's interfaces. Whoever owns these carries
//! the effects out.
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
pub mod decision;
pub mod greeting;
pub mod intake;
pub mod leave;
pub mod log;
pub mod members;
pub mod parts;
pub mod process;
pub mod request;
pub mod requests;
