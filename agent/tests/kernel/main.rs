//! The kernel side on a real kernel: counting, timing, pairing and losses of both objects. Needs root;
//! otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod hits;
mod links;
mod messages;
mod processes;
#[path = "../running/mod.rs"]
mod running;
#[path = "../running/send.rs"]
mod send;
mod target;
