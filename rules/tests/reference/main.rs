//! Every formula, table and test vector of the works on which the product is based (`docs/sources.md`), in
//! one or two files per work. They are evaluated through the language, from a rule and hits to numbers. Each
//! row names its section.
//!
//! S0 is the MATE thesis (2007), S1 MATE for MPI (2010), S2 PMSL (2009), S3 ASSIST contracts (here only
//! rates by a rule; the rest is in `rules/contract/tests`), S4 SelfAnalyzer. For each error in a work, a test asserts the corrected value and that the printed value
//! differs.

#[macro_use]
mod near;
mod bench;
mod tape;
mod tapes;

mod aggregates;
mod assist_rates;
mod findings;
mod mate;
mod mate_mpi;
mod mate_mpi_workers;
mod pmsl;
mod pmsl_metrics;
mod recordings;
mod selfanalyzer;
