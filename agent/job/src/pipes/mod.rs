//! Processes joined by pipes, read from /proc: who has which end open, what moved, what threads wait for.
//! Needs neither root nor probes for one's own processes.

mod ends;
mod find;
mod sampler;

pub use find::{NoPipeline, find};
pub use sampler::{PipeSampler, StageEnded};
