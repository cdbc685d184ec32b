//! What /proc and the cgroups tell of a process without any probe: the CPU time it got, the time it waited for a CPU, how
//! often it was switched away, and how many CPUs it may use. Reads only.

mod cores;
mod counters;
mod cpus;

pub use cores::Cores;
pub use counters::{Counters, Sampler};
pub use cpus::{CpuShare, available, usable};
