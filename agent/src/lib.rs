//! The agent: the program `tuneagent`. It finds the job, arms the probes, reads what they count, has the
//! rules evaluate it, passes their decisions to the actuator, and shows all of it.
//!
//! The entry is [`commands::run`]. A session is `session::Session`; what it reads from the kernel comes
//! through [`probe::kernel`], what it knows of rules through `rulebook`, and what it changes it changes through
//! `actuator`, which is another process. Everything shown is a [`profile::Snapshot`].
#![deny(unsafe_code)]

/// Prints a line on standard output.
macro_rules! say {
    ($($argument:tt)*) => {
        report::console::line(format_args!($($argument)*))
    };
}

/// Prints a line on standard error, after our name.
macro_rules! warn {
    ($($argument:tt)*) => {
        report::console::error_line(format_args!("tuneagent: {}", format_args!($($argument)*)))
    };
}

mod actuator;
mod atomic_file;
pub mod cli;
pub mod commands;
mod control;
mod diagnostics;
pub mod exit;
mod heap;
mod hint;
mod http;
mod priority;
mod readable;
mod report_file;
mod rights;
mod rulebook;
mod session;
mod watchdog;
