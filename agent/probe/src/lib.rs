//! The user side of the BPF programs: `probe` turns functions into links and maintains them as processes come
//! and go, [`kernel`] loads the BPF objects, attaches, and reads totals, sequences and hits, `rendezvous`
//! holds threads at a sync point. This is the one crate that knows BPF; it decides nothing and knows no rule.
#![deny(unsafe_code)]

// Used as `awake::is_heeded`, `awake::DEVICE`.
pub mod awake;
// Used as `kernel::version`, `kernel::measure`.
pub mod kernel;
mod probe;
mod rendezvous;

// From functions to links.
pub use probe::{ArmError, Probes, has_regions, selection::FileSelections};

// Threads held at a sync point.
pub use rendezvous::{KernelRendezvous, Prepared, RendezvousError};
