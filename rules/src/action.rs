//! What a decision asks to be done to a process, as plain data. How it is done is not known here.

use std::fmt;

use crate::ids::ProbeId;
use crate::read::{Layout, PlannedCapture, Source};
use crate::target::{Site, Target};
use crate::value::Scalar;

/// How formulas of an inverse name what was read just before the call.
pub(crate) const WAS: &str = "was";

/// Something to be done to one process.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A variable, or a part of one, gets a value.
    Set {
        /// Where it lies.
        variable: Source,
        /// Its type, where the rule states it: for programs without debug information.
        layout: Option<Layout>,
        /// In every library that has a variable of this name, not in one alone.
        everywhere: bool,
        /// A boolean or a plain number.
        value: Scalar,
    },
    /// A function is called once.
    Call {
        /// The function.
        function: String,
        /// What it is called with.
        arguments: Vec<Argument>,
        /// How it is taken back.
        inverse: Inverse,
    },
    /// A shared library is loaded.
    Load {
        /// Its file, as the process finds it.
        library: String,
    },
    /// Every call of a function goes to another one.
    Replace {
        /// The function.
        function: String,
        /// The other one.
        with: String,
    },
    /// A function is called whenever another one is entered or left.
    InsertCall {
        /// The function that is called.
        function: String,
        /// What it is called with.
        arguments: Vec<Argument>,
        /// The other one.
        inside: String,
        /// At its entry or its return.
        place: Site,
    },
    /// A function is called no more.
    RemoveCall {
        /// The function.
        function: String,
        /// The function out of which it is called no more; none is every one.
        inside: Option<String>,
    },
    /// An argument of a function is changed at its entry.
    SetArgument {
        /// The function.
        function: String,
        /// Which argument, the first is 0.
        argument: u8,
        /// What it becomes.
        value: Computed,
    },
    /// Its threads are bound to cores.
    Affinity(Affinity),
    /// A probe of the rule that is off is switched on.
    Enable {
        /// The probe.
        probe: ProbeId,
    },
    /// A probe of the rule that is on is switched off.
    Disable {
        /// The probe.
        probe: ProbeId,
    },
}

/// What a function is called with.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A value that the rule computed.
    Value(Scalar),
    /// What the program has in a variable when the call is made.
    Variable(Source),
    /// What was read just before the call that is taken back; only an inverse passes it.
    Was,
}

/// How a call is taken back.
#[derive(Clone, Debug, PartialEq)]
pub enum Inverse {
    /// The rule does not say: the call stays.
    Unstated,
    /// There is nothing to take back, for this reason.
    NotNeeded(String),
    /// By a call of the thread that made the first one.
    Call {
        /// What that thread calls just before the first call, for its result.
        reader: Option<Invocation>,
        /// The call that takes it back.
        call: Invocation,
    },
}

/// A function with what it is called with.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// The function.
    pub function: String,
    /// What it is called with.
    pub arguments: Vec<Argument>,
}

/// What a patched function computes at each call. All that does not depend on the value that was passed is a constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Computed {
    /// A number or a boolean.
    Constant(Scalar),
    /// The value that was passed.
    Original,
    /// `a + b`.
    Add(Box<Computed>, Box<Computed>),
    /// `a - b`.
    Subtract(Box<Computed>, Box<Computed>),
    /// `a * b`.
    Multiply(Box<Computed>, Box<Computed>),
    /// `a / b`.
    Divide(Box<Computed>, Box<Computed>),
    /// The least.
    Min(Vec<Computed>),
    /// The greatest.
    Max(Vec<Computed>),
}

/// Which cores the threads of the processes are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Each process to cores of its own, evenly over those the job may use.
    Spread,
    /// Each process to cores of its own, next to those of the rank before.
    Compact,
}

/// Where each process takes a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncPoint {
    /// At the entry or the return.
    pub site: Site,
    /// The function, or any of a set.
    pub target: Target,
    /// The process waits there, within the bound of the hold, until the window closed last is evaluated.
    pub decide: bool,
}

/// The begin of an instance of a window, at which all processes take a change, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together {
    /// The window.
    pub window: String,
    /// Where it begins in the program, and what tells which instance it is; or why processes cannot agree on one.
    pub boundary: Result<Boundary, String>,
}

/// Where a process begins an instance, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// At the entry or the return.
    pub site: Site,
    /// The function.
    pub function: String,
    /// Where the program says which instance begins: a number that counts up alike in all processes.
    pub key: PlannedCapture,
}

/// What a tune does, by its keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    Set,
    Call,
    Load,
    Replace,
    InsertCall,
    RemoveCall,
    SetArgument,
    Affinity,
    Enable,
    Disable,
}

impl Keyword {
    pub(crate) const ALL: &'static [(&'static str, Keyword)] = &[
        ("set", Keyword::Set),
        ("call", Keyword::Call),
        ("load", Keyword::Load),
        ("replace", Keyword::Replace),
        ("insert_call", Keyword::InsertCall),
        ("remove_call", Keyword::RemoveCall),
        ("set_arg", Keyword::SetArgument),
        ("affinity", Keyword::Affinity),
        ("enable", Keyword::Enable),
        ("disable", Keyword::Disable),
    ];

    pub(crate) fn name(self) -> &'static str {
        let found = Keyword::ALL.iter().find(|(_, keyword)| *keyword == self);
        found.map_or("", |(name, _)| name)
    }
}

impl Affinity {
    /// Every one with its name.
    pub(crate) const ALL: &'static [(&'static str, Affinity)] =
        &[("spread", Affinity::Spread), ("compact", Affinity::Compact)];
}

impl Action {
    /// The keyword of a rule, and what it acts on: `set cfg.chunk`.
    pub fn label(&self) -> String {
        match self {
            Action::Set { variable, .. } => format!("set {variable}"),
            Action::Call { function, .. } => format!("call {function}"),
            Action::Load { library } => format!("load {library}"),
            Action::Replace { function, .. } => format!("replace {function}"),
            Action::InsertCall { function, inside, .. } => format!("insert_call {function} in {inside}"),
            Action::RemoveCall { function, .. } => format!("remove_call {function}"),
            Action::SetArgument {
                function, argument, ..
            } => format!("set_arg {function}({argument})"),
            Action::Affinity(_) => "affinity".to_string(),
            Action::Enable { .. } => "enable a probe".to_string(),
            Action::Disable { .. } => "disable a probe".to_string(),
        }
    }

    /// The keyword of a rule: `set`.
    pub fn keyword(&self) -> &'static str {
        let keyword = match self {
            Action::Set { .. } => Keyword::Set,
            Action::Call { .. } => Keyword::Call,
            Action::Load { .. } => Keyword::Load,
            Action::Replace { .. } => Keyword::Replace,
            Action::InsertCall { .. } => Keyword::InsertCall,
            Action::RemoveCall { .. } => Keyword::RemoveCall,
            Action::SetArgument { .. } => Keyword::SetArgument,
            Action::Affinity(_) => Keyword::Affinity,
            Action::Enable { .. } => Keyword::Enable,
            Action::Disable { .. } => Keyword::Disable,
        };
        keyword.name()
    }

    /// The value that is set, if it is one.
    pub fn value(&self) -> Option<&Scalar> {
        match self {
            Action::Set { value, .. } => Some(value),
            _ => None,
        }
    }
}

/// As people read it: `set cfg.chunk = 64`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())?;
        match self {
            Action::Set { value, .. } => write!(f, " = {value}"),
            Action::SetArgument { value, .. } => write!(f, " = {value}"),
            Action::Call { arguments, .. } => write!(f, "({})", listed(arguments)),
            Action::InsertCall { arguments, .. } if !arguments.is_empty() => {
                write!(f, " with {}", listed(arguments))
            }
            Action::Replace { with, .. } => write!(f, " with {with}"),
            Action::RemoveCall {
                inside: Some(inside), ..
            } => write!(f, " in {inside}"),
            Action::Affinity(Affinity::Spread) => f.write_str(": spread"),
            Action::Affinity(Affinity::Compact) => f.write_str(": compact"),
            _ => Ok(()),
        }
    }
}

fn listed<T: fmt::Display>(parts: &[T]) -> String {
    let parts: Vec<String> = parts.iter().map(T::to_string).collect();
    parts.join(", ")
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Value(value) => write!(f, "{value}"),
            Argument::Variable(source) => write!(f, "{source}"),
            Argument::Was => f.write_str(WAS),
        }
    }
}

impl fmt::Display for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Computed::Constant(value) => write!(f, "{value}"),
            Computed::Original => f.write_str("original"),
            Computed::Add(a, b) => write!(f, "({a} + {b})"),
            Computed::Subtract(a, b) => write!(f, "({a} - {b})"),
            Computed::Multiply(a, b) => write!(f, "({a} * {b})"),
            Computed::Divide(a, b) => write!(f, "({a} / {b})"),
            Computed::Min(parts) => write!(f, "min({})", listed(parts)),
            Computed::Max(parts) => write!(f, "max({})", listed(parts)),
        }
    }
}
