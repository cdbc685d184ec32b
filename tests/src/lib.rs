//! Harness of the whole-program tests: real MPI jobs and the real agent. Every wait has a deadline.
//!
//! `problem` has the error type, `needs` decides whether a test can run on this machine, `turns` limits which
//! tests run at the same time, `programs` compiles the programs of `programs/`, `lines` waits for output, `line_program` has programs that answer by line,
//! `family` ends process trees, `job` starts programs under an MPI launcher, `knobs` has a program with
//! variables to change and users with exact rights, `underload` a program with many threads that check their
//! results, `agent` starts `tuneagent`, `bed` makes two
//! machines of this one, `lammps` and `gromacs` start the real programs, `crowd` runs several
//! programs on the same cores, `repairs` has the cases of the run-time rules, `prometheus` a Prometheus
//! server, `screen` a terminal, `browser` Chromium, `firefox` Firefox, `slurm` a Slurm with several nodes, `sight` the time
//! until first numbers are shown, `usage` the resources of a process, `wait` waits for a state with a bound, `json` and `random` have what most tests read
//! and draw.
//!
//! No test sleeps to synchronise: programs stop at gates (files), tests wait for lines. Processes started
//! here end when their value is dropped and when the test process ends, even if it is killed.
//!
//! The tests are in `e2e/`. The demo (`cargo xtask demo`) uses this harness, too.

pub mod agent;
pub mod bed;
pub mod browser;
pub mod crowd;
pub mod family;
pub mod firefox;
pub mod gromacs;
pub mod group;
pub mod job;
pub mod json;
pub mod knobs;
pub mod lammps;
pub mod line_program;
pub mod lines;
pub mod needs;
pub mod problem;
pub mod programs;
pub mod prometheus;
pub mod random;
pub mod repairs;
pub mod resized;
pub mod screen;
pub mod sessions;
pub mod sight;
pub mod slurm;
pub mod turns;
pub mod underload;
pub mod usage;
pub mod wait;
pub mod wheels;

pub use json::each;
pub use problem::{Outcome, Problem};
pub use random::{Draw, mmix};
