//! What /proc and the cgroups show of a process without a probe: its CPU time, run-queue time and context
//! switches, how many CPUs it may use, how many of these others keep busy, and their clock frequency. Reads
//! only.

mod cores;
mod counters;
mod cpus;
mod frequency;
mod groups;
mod heaps;
mod memory;
mod others;
mod shares;

pub use cores::{TooFewCores, dealt};
pub use counters::Sampler;
pub use cpus::{CpuShare, Periods, available, memory_nodes, online, reach, usable};
pub use frequency::frequency;
pub use memory::MemoryGroups;
pub use others::{Busy, Others};
pub use profile::{Counters, Frequency};
pub use shares::{CpuLimits, Shares};
