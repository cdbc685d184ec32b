//! Changes at a sync point, on a real kernel: at the right iteration or not at all, and the program goes on
//! whatever happens to us. Needs root; says so where it is not there.
//!
//! TUNEAGENT_LONG=1 makes a thousand changes in each case instead of twenty; TUNEAGENT_SYNC_ANSWER_US sets
//! the bound on a hold for machines on which everything takes longer (emulated ones), TUNEAGENT_SYNC_PROGRAMS
//! is a folder with the programs, where there is no compiler.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod hold;
mod instant;
#[path = "../needs/mod.rs"]
mod needs;
mod reported;
#[path = "../running/mod.rs"]
mod running;
mod target;
mod together;
