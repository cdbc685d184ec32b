//! What is measured, as plain data, and the numbers that follow from it. [`probe`] says what is probed,
//! `os_metrics` what the operating system counts; `profile` takes readings and computes rates,
//! iterations, efficiencies, [`cost`] prices and estimates; a `snapshot` has all that is shown.
//!
//! Pure: readings come with their times. Nothing here reads a clock or a file, looks into a process or knows
//! the kernel's interfaces.
#![forbid(unsafe_code)]

mod calls;
// Prices, budgets, and what watching costs: short names such as `Load` and `Turn`.
pub mod cost;
// Read as `format::bytes`.
pub mod format;
// Read as `glob::matches`.
pub mod glob;
// Read as `mpi::find`.
pub mod mpi;
mod os_metrics;
// What is probed and what is wanted: short names such as `Read`.
pub mod probe;
mod profile;
mod snapshot;

// Iterations, call sites, teams.
pub use calls::efficiency::{Efficiencies, Scalability};
pub use calls::place::SourcePlace;
pub use calls::{
    Collectives, Iterations, Pace, SiteTotals, Split, TeamPart, TeamTotals, is_library_of_bindings,
};

// Readings, and what follows from them.
pub use os_metrics::{Counters, Frequency};
pub use profile::{
    CALL_NS, Inputs, Metered, ProcessRank, Profile, Reading, Threads, UnknownThreads, Usage, has_mpi, hits,
    threads_of,
};

// What is shown.
pub use snapshot::{
    CallSiteView, ChangeView, CpusView, EfficienciesView, EventsView, FindingView, FunctionTotals, GuardView,
    Histogram, IterationView, JobView, LoadView, MatrixView, Messages, PaceView, PairView, ProcessView,
    RULE_VALUES_MAX, RankMessages, Rates, Reaction, RegionsView, RuleValue, RuleView, SequenceView, Snapshot,
    Standing, Steps, TeamsView, TraceView, outcome,
};
