//! The rule language of tuneagent.
#![forbid(unsafe_code)]

mod check;
mod diag;
mod eval;
mod facts;
mod file;
mod function;
mod lang;
mod measure;
mod plan;
mod term;
mod unit;
mod value;

pub use check::CheckedRule;
pub use diag::{Diagnostic, Severity, Span, has_errors, line_column, render};
pub use facts::{MPI_LIBRARIES, ProcessFacts, fits};
pub use file::{RuleFile, Site};
pub use function::{FUNCTIONS, Function};
pub use measure::{Kind, Measure, Scope};
pub use plan::{Delivery, Plan, PlannedProbe, PlannedVariable, VariableKind};
pub use unit::{Dimension, human};
pub use value::{ProcessId, Scalar, Time};
