//! The kernel side on a real kernel: what the two programs count, time, pair and lose. Needs root; says so
//! where it is not there.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod hits;
mod links;
mod messages;
#[path = "../needs/mod.rs"]
mod needs;
mod processes;
#[path = "../running/mod.rs"]
mod running;
mod target;
