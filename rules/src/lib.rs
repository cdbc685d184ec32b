//! The rule language of tuneagent: a rule file goes in, decisions come out.
//!
//! ```text
//! text ── RuleFile::parse ──▶ RuleFile ── check ──▶ CheckedRule ── plan ──▶ Plan (what to measure)
//!                                                       │
//!                              observations, ticks ──▶ Engine ──▶ decisions, findings, verdicts
//!                                                       ▲               │
//!                                                       └── receipts ◀──┘
//! ```
//! Everything here is pure: no files, no clock, no threads, no access to processes; the same observations
//! give the same decisions. Inside the language, numbers are in seconds and bytes; the agent passes in
//! nanoseconds and bytes, as the kernel counts. A value may be *none*, with a reason: none propagates, never
//! becomes 0 and never causes an action.
//!
//! In addition, [`schema()`] is the JSON Schema of a rule file and [`page()`] a rule's page for readers, both
//! generated from the declarations of the language; [`fit()`] compares a rule with what a program has before
//! anything is attached; [`explain()`] has a page for every error. The crate `recording` stores what an engine
//! observed, so that rules can be replayed on it.
//!
//! `LANGUAGE.md` in this folder describes the language. Where to read: the crate `syntax` (YAML, and formulas as trees),
//! `file` (its tree to a [`RuleFile`]), `check` (names, types, units), `eval` (values), `engine` (windows,
//! findings, trials).
//!
//! ```
//! use rules::{
//!     CheckedRule, DecisionOutcome, Engine, Measure, Mode, Observation, Output, ProcessFacts, ProcessId,
//!     RuleId, Subject, Time,
//! };
//!
//! let source = "
//! rule: fewer-threads
//! about: Threads that only wait for CPUs are in each other's way.
//! roles:
//!   worker: exe == \"simulate\"
//! windows:
//!   pulse: {every: 500ms}
//! metrics:
//!   waiting: sum(runqueue.time) / sum(cpu.time + runqueue.time)
//! tune:
//!   - set: number_of_threads
//!     role: worker
//!     value: max(1, floor(cpus.available))
//!     range: 1 <= value <= 64
//!     when: waiting > 20%
//!     guard: {maximize: sum(cpu.time), over: 1, undo_if_worse_by: 5%}
//!     finding: \"{waiting:%} of the time is spent waiting for a CPU\"
//! ";
//! // Parse and check; what is wrong would come back as diagnostics with places in the text.
//! let rule = CheckedRule::from_source(source).map_err(|wrong| rules::render("rule.yaml", source, &wrong)).unwrap();
//! assert_eq!(rule.plan().variables[0].name, "number_of_threads");
//!
//! // A process joins, and is measured.
//! let mut engine = Engine::new(vec![rule], Time(0)).unwrap();
//! engine.set_mode(RuleId(0), Mode::Applying);
//! let worker = ProcessId(1);
//! engine.process_joined(worker, ProcessFacts { exe: "simulate".into(), ..ProcessFacts::default() }, Time(0));
//! for (time, cpu, queue) in [(Time(0), 0, 0), (Time(500_000_000), 400_000_000, 600_000_000)] {
//!     let of = Subject::Process(worker);
//!     engine.observe(Observation::Counter { of, measure: Measure::CpuTime, time, total: cpu });
//!     engine.observe(Observation::Counter { of, measure: Measure::RunqueueTime, time, total: queue });
//!     engine.observe(Observation::Gauge { of, measure: Measure::CpusAvailable, time, value: 2.0 });
//! }
//!
//! // The window closes: a finding, and a decision with the numbers it was made from.
//! let outputs = engine.tick(Time(500_000_000));
//! let [Output::FindingOpened(finding), Output::Decision(decision)] = outputs.as_slice() else { panic!() };
//! assert_eq!(finding.text, "60 % of the time is spent waiting for a CPU");
//! assert_eq!(decision.changes[0].action.to_string(), "set number_of_threads = 2");
//! assert_eq!(decision.because[0], ("waiting".to_string(), "60 %".to_string()));
//!
//! // With the receipt of the change, the guard's trial begins.
//! engine.receipt(decision.id, DecisionOutcome::Applied, Time(500_100_000));
//! assert!(engine.status()[0].why.starts_with("on trial"));
//! ```
#![forbid(unsafe_code)]

pub mod aggregate;
mod change;
mod check;
mod codes;
mod cpu_shares;
mod engine;
mod eval;
mod explain;
mod facts;
mod file;
mod fit;
mod folds;
mod function;
mod graph;
mod guard;
mod hit;
mod ids;
mod library;
mod measure;
mod page;
mod partial_sum;
pub mod period;
mod plan;
pub mod policy;
pub mod pseudo_random;
mod read;
mod requirements;
mod rule;
mod target;
mod term;
mod types;
mod value;
mod window;

pub use ::plan::Mode;
pub use codes::{Page, explain};
pub use engine::{
    ClosedWindow, Conflict, Decision, DecisionOutcome, Dropped, Engine, Finding, FindingState,
    IterationTeams, LeftOut, LoopIteration, LoopNumber, MESSAGE_MAX, MessageError, Node, Observation, Output,
    Partial, PlacedFold, Placement, ProcessAction, Report, Schedule, Standing, TrialProgress, TuneStatus,
    Verdict,
};
pub use facts::{MPI_LIBRARIES, ProcessFacts, matches_glob};
pub use file::{Bindings, RuleFile, schema};
pub use fit::{
    AllNames, FitRequest, NoVariable, RuleFit, SeenMark, SeenProcess, SeenVariable, WriteObstacle, fit,
};
pub use function::{FUNCTIONS, FormulaFunction};
pub use graph::{Graph, GraphNode, Named, SharedProbe, graph};
pub use ids::{DecisionId, ProbeId, RuleId};
pub use library::{is_built_in, is_loaded, library, models, shipped, shipped_text};
pub use measure::{Measure, MeasureKind, Scope};
pub use page::page;
pub use plan::{
    Delivery, Plan, PlannedAction, PlannedEffect, PlannedProbe, PlannedVariable, PlannedWindow, VariableKind,
};
pub use read::{Base, Known, Layout, PlannedCapture, Source, Step};
pub use rule::CheckedRule;
pub use syntax::diag::{Diagnostic, Severity, Span, did_you_mean, has_errors, line_column, nearest, render};
pub use syntax::quantity;

pub use partial_sum::{Group, Grouping, PartialSum, PlannedSum, SummedValue, Sums};
pub use syntax::unit::Dimension;
pub use target::{FunctionSet, Site, Target};
pub use value::{Machine, MetricReading, ProcessId, Reads, Scalar, Subject, Time, WhyUnknown};
