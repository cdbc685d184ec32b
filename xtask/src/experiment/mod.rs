//! `cargo xtask experiment`: repeats published experiments on real MPI and compares the figures. Further
//! experiments measure what the run-time rules gain for unprepared programs, and what they cost programs that
//! need no rule.
//!
//! `scenario` runs one program once, alone or with the agent. `sweep` runs each of some fixed settings once.
//! `rounds` repeats scenarios in turns, so that disturbances of the machine affect all of them. An experiment
//! is a module: a list of scenarios, tables of figures, and claims. The programs
//! sleep their compute time, so that 26 ranks fit on two cores and the results show the tuning, not the
//! machine.

mod factoring;
mod fire;
mod index;
mod network;
mod nothing;
mod reaction;
mod resize;
mod rounds;
mod runtime;
mod scenario;
mod sweep;
mod untouched;
mod wildfire;
mod workers;

use crate::Result;
use crate::measure::{self, Measurement, Suite, mpi_here};

#[rustfmt::skip]
const EXPERIMENTS: Suite = Suite {
    command: "experiment",
    folder: "experiments",
    all: &[
        Measurement::new("workers", "MATE 5.1.6: the number of workers, fixed against tuned", &[], workers::run),
        Measurement::new("reaction", "MATE 3.1.3: from the end of an iteration to the write that follows", &[], reaction::run),
        Measurement::new("network", "MATE 5.1.1: latency and cost of a byte, measured", &[], network::run),
        Measurement::new("factoring", "MATE 5.2.6: load balancing by factoring", &[], factoring::run),
        Measurement::new("wildfire", "MATE for MPI 5.5: factors of batches, the original, fixed and tuned", &[], wildfire::run),
        Measurement::new("index", "MATE for MPI 4.3: the number of workers by the performance index", &[], index::run),
        Measurement::new("runtime", "programs that nobody prepared: repaired while they run, against started right", &["--case"], runtime::run),
        Measurement::new("resize", "a quota of CPUs that is halved and restored while a rule follows it", &[], resize::run),
        Measurement::new("nothing", "changes that do nothing: how often the guard confirms one", &[], nothing::run),
        Measurement::new("untouched", "programs that need nothing: what it costs that every rule looks", &[], untouched::run),
    ],
};

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    EXPERIMENTS.all.iter().map(|experiment| experiment.name)
}

pub(crate) fn main(words: &[&str]) -> Result<()> {
    if mpi_here().is_none() {
        return Err("no MPI is here: cargo xtask setup installs it".to_owned());
    }
    measure::run(&EXPERIMENTS, words)
}
