//! From a process number to the job: its launcher, its ranks, its MPI. Reads /proc and the files that the processes have
//! mapped; attaches nothing and writes nothing.

mod job;
mod launcher;
mod rank;
mod table;
mod target;

pub use job::{DiscoverError, Job, Member, Mpi, Scout, WatchedSite};
pub use rank::Rank;
pub use table::ProcessTable;
pub use target::{TargetError, resolve};
