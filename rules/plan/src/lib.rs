//! The vocabulary shared by rules, session, actuator and journal: actions on a process, places in the
//! program, values, and outcomes.
//!
//! Plain data. A text is parsed into one of these types where a user writes it (a rule file, the command
//! line) and formatted where a user reads it; there is no round trip through text in between. The names in
//! the JSON of the journal are part of its format.
#![forbid(unsafe_code)]

mod action;
mod call;
mod cpus;
mod expression;
mod gpu;
mod openmp;
mod outcome;
mod site;
mod sync;
#[cfg(test)]
mod tests;
mod value;
mod words;

pub use action::{Action, Affinity, Cores, Keyword, PatchRequest, Set, Switch};
pub use call::{Argument, CallRequest, FunctionName, Inverse, Invocation, ReturnType, TextError, WAS};
pub use cpus::{CpuList, CpuListError};
pub use expression::{Expression, ExpressionError, Operator};
pub use gpu::GpuCall;
pub use openmp::{TEAM_SIZE_ARGUMENT, TEAM_SIZES, takes_team_size};
pub use outcome::{GuardEffect, MarkKind, Mode, ModeError};
pub use site::Cost;
pub use sync::{CommonIteration, Key, Moment, SyncPoint, SyncPointError};
pub use value::{Bytes, BytesError, Literal, LiteralError, Scalar, Value, ValueError, ValueType};
