//! What the agent knows of MPI: which functions communicate or wait, what they carry, and how an implementation is
//! recognised. Nothing here probes or reads a process.

mod functions;
mod implementation;

pub use functions::{Bytes, BytesKind, FUNCTIONS, Function, find};
pub use implementation::{Implementation, recognise};
