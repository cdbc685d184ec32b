//! The agent: the program `tuneagent`. It finds the job, attaches the probes, reads their counters, has the
//! rules evaluated, passes their decisions to the actuator, and shows the results.
//!
//! The entry point is [`commands::run`]. A session is `session::Session`. It reads from the kernel through
//! [`probe::kernel`], evaluates rules through `rulebook`, and makes changes through `actuator`, which is a
//! separate process. Everything shown is a [`profile::Snapshot`].
#![deny(unsafe_code)]

#[macro_use]
mod print;

mod actuator;
mod atomic_file;
pub mod cli;
pub mod commands;
mod connections;
mod control;
mod diagnostics;
pub mod exit;
mod heap;
mod hint;
mod http;
mod nodes;
mod output_name;
mod priority;
mod readable;
mod report_file;
mod rights;
mod rulebook;
mod service;
mod session;
mod similar_name;
mod watchdog;
