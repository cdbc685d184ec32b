//! Who runs, and what can be learnt of it without a probe: [`discover`] goes from what a user names to the
//! processes of a job, [`mpi`] knows the libraries and what their functions carry, [`os_metrics`] reads what
//! /proc and the cgroups count. Changes nothing.
#![forbid(unsafe_code)]

pub mod clock;
pub mod discover;
pub mod mpi;
pub mod os_metrics;
pub mod place;
pub mod root;
