//! What /proc and the cgroups show of a process without any probe: the CPU time it got, the time it waited
//! for a CPU, how often it was switched away, how many CPUs it may use, how many of these others keep busy,
//! and how fast they are clocked. Reads only.

mod cores;
mod counters;
mod cpus;
mod frequency;
mod groups;
mod heaps;
mod others;
mod shares;

pub use cores::{TooFewCores, dealt};
pub use counters::Sampler;
pub use cpus::{CpuShare, Periods, available, online, reach, usable};
pub use frequency::frequency;
pub use others::{Busy, Others};
pub use profile::{Counters, Frequency};
pub use shares::{Around, Shares};
