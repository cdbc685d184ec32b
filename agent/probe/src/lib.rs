//! What the kernel side does for us: [`probe`] goes from functions to links and keeps them as processes come
//! and go, [`kernel`] loads the BPF objects, attaches, and reads totals, sequences and hits, [`rendezvous`]
//! holds threads at a sync point. The one crate that knows BPF; it decides nothing and knows no rule.
#![deny(unsafe_code)]

pub mod awake;
pub mod kernel;
pub mod probe;
pub mod rendezvous;
