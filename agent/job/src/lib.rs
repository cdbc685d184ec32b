//! The processes of a job, and what is known of them without a probe: `discover` resolves a target to the
//! processes of a job, `mpi` knows the libraries and what their functions carry, `os_metrics` reads counters
//! of /proc and the cgroups. Changes nothing.
#![forbid(unsafe_code)]

mod clock;
mod discover;
mod hosts;
mod mpi;
// Used as `os_metrics::reach`, `os_metrics::Shares`.
pub mod os_metrics;
// Used as `pipes::find`.
pub mod pipes;
mod place;
mod root;

// The processes of the job.
pub use discover::{
    DiscoverError, Discovery, Job, Machines, Member, ProcessTable, TargetError, Variables, WatchedSite,
    end_time_s, host, is_launcher, job_id, launcher_above, name_of, resolve as resolve_target,
};
pub use hosts::{HOSTS_MAX, HostsError, NodeChoice};

// Their MPI.
pub use mpi::{Implementation, may_settle, spec as mpi_spec, world as mpi_world, world_size};

// Names of places, clocks, commands that need root.
pub use clock::unix_s;
pub use place::Namer;
pub use root::as_root;
pub use tuner::{CpuClock, monotonic_ns, rfc3339};
