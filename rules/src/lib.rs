//! The rule language of tuneagent.
#![forbid(unsafe_code)]

mod check;
mod codes;
mod diag;
mod engine;
mod eval;
mod explain;
mod facts;
mod file;
mod function;
mod lang;
mod library;
mod measure;
mod plan;
mod term;
mod unit;
mod value;

pub use check::CheckedRule;
pub use codes::{PAGES, Page, explain};
pub use diag::{Diagnostic, Severity, Span, has_errors, line_column, render};
pub use engine::{
    Change, Conflict, Decision, DecisionId, Engine, Finding, FindingState, Mode, Observation, Outcome,
    Output, ProbeId, RuleId, Standing, TuneStatus, Verdict,
};
pub use facts::{MPI_LIBRARIES, ProcessFacts, fits};
pub use file::{RuleFile, Site};
pub use function::{FUNCTIONS, Function};
pub use library::library;
pub use measure::{Kind, Measure, Scope};
pub use plan::{Delivery, Plan, PlannedProbe, PlannedVariable, VariableKind};
pub use unit::{Dimension, human};
pub use value::{ProcessId, Scalar, Time};
