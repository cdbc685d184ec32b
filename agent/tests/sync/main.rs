//! Changes at a sync point on a real kernel: at the right iteration or not at all, and the program continues
//! whatever happens to the agent. Needs root; otherwise skipped with a message.
//!
//! TUNEAGENT_LONG=1 makes a thousand changes in each case instead of twenty. TUNEAGENT_SYNC_ANSWER_US sets
//! the maximum duration of a hold, for slow (emulated) machines. TUNEAGENT_SYNC_PROGRAMS is a folder with
//! compiled programs, for machines without a compiler.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod hold;
mod instant;
mod reported;
#[path = "../running/mod.rs"]
mod running;
mod target;
mod together;
