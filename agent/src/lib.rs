//! The agent: the program `tuneagent`. It finds the job, arms the probes, reads what they count, has the
//! rules evaluate it, passes their decisions to the actuator, and shows all of it.
//!
//! The entry is [`commands::run`]. A session is [`session::Session`]; what it reads from the kernel comes
//! through [`kernel`], what it knows of rules through [`rulebook`], and what it changes it changes through
//! [`actuator`], which is another process. Everything shown is a [`snapshot::Snapshot`].
#![deny(unsafe_code)]

/// Prints a line on standard output.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::console::line(format_args!($($argument)*))
    };
}

/// Prints a line on standard error, after our name.
macro_rules! warn {
    ($($argument:tt)*) => {
        $crate::console::error_line(format_args!("tuneagent: {}", format_args!($($argument)*)))
    };
}

pub use ::probe::{awake, kernel, probe, rendezvous};
pub use ::profile::{calls, cost, format, glob, profile, snapshot};
pub use ::report::{console, metrics, plot, report, trace, view};
pub use ::session::request;
pub use job::{clock, discover, mpi, os_metrics};

pub mod actuator;
pub mod atomic_file;
pub mod cli;
pub mod commands;
pub mod control;
pub mod diagnostics;
pub mod exit;
pub mod heap;
pub mod hint;
pub mod http;
pub mod priority;
pub mod readable;
pub mod report_file;
pub mod rights;
pub mod rulebook;
pub mod session;
pub mod watchdog;
