//! Who runs, and what can be learnt of it without a probe: `discover` goes from what a user names to the
//! processes of a job, `mpi` knows the libraries and what their functions carry, `os_metrics` reads what
//! /proc and the cgroups count. Changes nothing.
#![forbid(unsafe_code)]

mod clock;
mod discover;
mod mpi;
// Read as `os_metrics::reach`, `os_metrics::Shares`.
pub mod os_metrics;
mod place;
mod root;

// Who belongs to the job.
pub use discover::{
    DiscoverError, Discovery, Job, Member, ProcessTable, TargetError, Variables, WatchedSite, host,
    is_launcher, job_id, launcher_above, resolve as resolve_target,
};

// Its MPI.
pub use mpi::{Implementation, may_settle, rule as mpi_rule, world as mpi_world, world_size};

// Names of places, clocks, a command as root.
pub use clock::unix_s;
pub use place::Namer;
pub use root::as_root;
pub use tuner::{CpuClock, monotonic_ns, rfc3339};
