//! Measurements as plain data, and the numbers computed from them. [`probe`] defines what is probed and
//! `os_metrics` what the operating system counts. `profile` takes readings and computes rates, iterations and
//! efficiencies; [`cost`] computes prices and estimates; a `snapshot` contains everything that is shown.
//!
//! Pure: readings carry their times. Nothing here reads a clock or a file, inspects a process or knows the
//! kernel's interfaces.
#![forbid(unsafe_code)]

mod calls;
// Prices, budgets and the cost of watching. Not re-exported: names such as `Load` and `Turn` are too short.
pub mod cost;
// Errors as text with their causes.
pub mod error;
mod fieldwise;
// Used as `format::bytes`.
pub mod format;
// Used as `mpi::find`.
pub mod mpi;
mod os_metrics;
// What is probed and required. Not re-exported: names such as `Read` are too short.
pub mod probe;
mod profile;
// How far a program is.
pub mod progress;
mod snapshot;
// Stream programs as observed, and what is learned of them. Not re-exported: names such as `Pipe` are too short.
mod statistics;
mod stream_views;
pub mod streams;
mod student;

// Iterations, call sites, teams.
pub use calls::efficiency::{Efficiencies, Scalability};
pub use calls::place::SourcePlace;
pub use calls::{
    Baseline, BoundarySide, CallSite, Collectives, EndedIteration, Inflation, IterationBoundary,
    IterationNumbers, Iterations, Losses, Pace, PredictedSize, Ratio, ScalingLaw, ScalingPrediction,
    ScalingView, SiteTotals, SizeView, SpeedupHint, Split, TeamPart, TeamTotals, UnusedIteration, Visit,
    is_library_of_bindings,
};
pub use rules::matches_glob;

// Readings, and the values computed from them.
pub use os_metrics::{Counters, Frequency, MemoryEvents, MemoryGroup, OutOfMemory};
pub use profile::{
    CALL_NS, Inputs, Metered, ProcessRank, Profile, Reading, Threads, UnknownThreads, Usage, has_mpi, hits,
    threads_of,
};

// The data that is shown.
pub use snapshot::{
    CallSiteView, ChangeView, CpusView, EfficienciesView, EventsView, FindingView, FunctionTotals, GuardView,
    Histogram, IterationView, JobView, LeftLoop, LoadView, LoopBegin, MatrixView, Messages, NodeNumbers,
    NodeState, NodeView, PaceView, PairView, ProcessView, RANKS_OF_NODE_MAX, RISK, RULE_VALUES_MAX,
    RankMessages, Rates, Reaction, RegionsView, RuleValue, RuleView, SequenceView, Snapshot, Standing, Steps,
    TeamsView, TimeBucket, TimeByMpi, TimeParts, TimeView, TraceView, name_programs, node_list, outcome,
};
