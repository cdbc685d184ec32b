//! Every formula, table and test vector of the works that the product is built on (`docs/sources.md`), a file
//! or two for each work, evaluated through the language: a rule and hits go in, numbers come out. Each row
//! names its section.
//!
//! S0 is the MATE thesis (2007), S1 MATE for MPI (2010), S2 PMSL (2009), S3 ASSIST contracts, S4
//! SelfAnalyzer. What a work prints wrongly stands beside its correction: the corrected value is asserted,
//! and that the printed one differs.

/// `found => expected`, to so many digits behind the point.
macro_rules! near {
    ($found:expr => $expected:expr, $digits:expr, $($what:tt)+) => {
        $crate::bench::near($found, $expected, $digits, &format!($($what)+))
    };
}
mod bench;
mod tape;

mod aggregates;
mod assist;
mod findings;
mod mate;
mod mate_mpi;
mod mate_mpi_workers;
mod pmsl;
mod pmsl_metrics;
mod recordings;
mod selfanalyzer;
