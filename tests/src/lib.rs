//! The harness of the whole-program tests: real MPI jobs, the real agent, deadlines on everything.
//!
//! `problem` is how things fail here, `needs` decides whether a test can run on this machine, `turns`
//! which tests may run beside each other, `programs` compiles
//! the small programs of `programs/`, `lines` waits for what a program prints, `family` ends process trees, `job`
//! starts programs under an MPI launcher, `knobs` is a program to be changed and users with exact rights, `underload` one of many
//! threads that check their results, `agent` starts `tuneagent`, `lammps` and `gromacs` know the real programs we run, `crowd`
//! several programs that fight for the same cores, `repairs` what the run-time rules are tried on, `prometheus` a Prometheus of our own,
//! `screen` a terminal, `browser` a browser, `slurm` a Slurm with nodes of its own, `sight` how soon there is something on it, `usage` what a process takes of the machine.
//!
//! No test sleeps to synchronise: programs stop at gates (files), tests wait for lines. Nothing started here
//! outlives the value that stands for it, nor the test process, however that ends.
//!
//! The tests themselves are in `e2e/`. The demo (`cargo xtask demo`) uses this harness too.

pub mod agent;
pub mod browser;
pub mod crowd;
pub mod family;
pub mod gromacs;
pub mod group;
pub mod job;
pub mod knobs;
pub mod lammps;
pub mod lines;
pub mod needs;
pub mod problem;
pub mod programs;
pub mod prometheus;
pub mod repairs;
pub mod resized;
pub mod screen;
pub mod sessions;
pub mod sight;
pub mod slurm;
pub mod turns;
pub mod underload;
pub mod usage;
pub mod wheels;

pub use problem::{Outcome, Problem};

/// The elements of an array of a report; none of what is no array.
pub fn each(value: &serde_json::Value) -> std::slice::Iter<'_, serde_json::Value> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter()
}
