//! Knowledge of MPI: which functions communicate or wait, what they carry, how an implementation is detected,
//! and where it stores ranks. Nothing here probes.

mod handles;
mod implementation;
mod rank;
mod spec;
mod world;

pub use implementation::Implementation;
pub(crate) use implementation::{is_stripped_of, recognise};

pub(crate) use rank::Rank;
pub use spec::spec;
pub(crate) use world::is_alone;
pub use world::{may_settle, size as world_size, world};
