//! What is measured, as plain data, and the numbers that follow from it. [`probe`] says what is probed,
//! [`os_metrics`] what the operating system counts; [`profile`] takes readings and computes rates,
//! iterations, efficiencies, [`cost`] prices and estimates; a [`snapshot`] has all that is shown.
//!
//! Pure: readings come with their times. Nothing here reads a clock or a file, looks into a process or knows
//! the kernel's interfaces.
#![forbid(unsafe_code)]

pub mod calls;
pub mod cost;
pub mod format;
pub mod glob;
pub mod mpi;
pub mod os_metrics;
pub mod probe;
pub mod profile;
pub mod snapshot;
