//! The actions that are carried out in one process: one enum from the check of a rule to the actuator.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::call::{Argument, CallRequest, FunctionName, Inverse, Invocation, ReturnType};
use crate::cpus::CpuList;
use crate::expression::Expression;
use crate::sync::Moment;
use crate::value::{Scalar, ValueType};

/// Wait of the session for a function that a rule calls, in ms. A slower call continues; its result appears
/// in the journal later.
const CALL_WAIT_MS: u64 = 2_000;
/// Wait for the dynamic linker, in ms.
const LOAD_WAIT_MS: u64 = 8_000;

/// An action on one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Writes a value to a variable.
    Set(Set),
    /// Calls a function once.
    Call(CallRequest),
    Load {
        /// Its absolute path, as the program sees it, or a name that its dynamic linker finds.
        path: String,
        /// See [`CallRequest`].
        wait_ms: u64,
    },
    Patch(PatchRequest),
    /// Binds all threads to CPUs.
    Affinity(Affinity),
    /// Switches a probe of the rule; done by the session.
    Switch(Switch),
}

/// A variable, or a part of one, and its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Set {
    /// The variable in the user's notation: `cfg.chunk`.
    pub variable: String,
    /// Its type, for programs without debug information.
    pub value_type: Option<ValueType>,
    /// Writes in every library that has a variable of this name, not in one only.
    pub everywhere: bool,
    /// A boolean or a plain number.
    pub value: Scalar,
}

/// A change of code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchRequest {
    /// Redirects every call of one function to another.
    Replace {
        function: FunctionName,
        /// The replacement, which takes and returns the same types.
        with: FunctionName,
    },
    /// Calls a function whenever another one is entered or returns.
    InsertCall {
        /// The called function. It must not throw exceptions.
        function: FunctionName,
        arguments: Vec<Argument>,
        into: FunctionName,
        /// Before its first instruction, or before each return instruction.
        place: Moment,
    },
    /// Skips calls of a function. Code that uses its result gets an arbitrary register value.
    RemoveCall {
        function: FunctionName,
        /// The calling function; `None` for all callers.
        within: Option<FunctionName>,
    },
    /// Changes an argument of a function before its body runs.
    SetArgument {
        function: FunctionName,
        /// Index of the argument, from 0.
        index: usize,
        /// Its type, if the debug information does not contain it. Without debug information, the arguments
        /// before it are assumed to be of the same class (integers and addresses, or floating-point numbers).
        value_type: Option<ValueType>,
        value: Expression,
    },
    /// Changes the size that the program requests for its OpenMP teams, in all functions of
    /// [`crate::TEAM_SIZES`] that it calls.
    SetTeamSize { value: Expression },
}

/// Which CPUs the threads of a process are bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Affinity {
    /// The process's share of the cores of the job. The session resolves it to a list.
    Cores(Cores),
    Cpus(CpuList),
}

crate::words! {
    serde:
    /// How the cores of a job are distributed over its processes, each of which gets cores of its own.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Cores {
        /// Evenly over the cores that the job may use.
        Spread = "spread",
        /// Next to the cores of the preceding rank.
        Compact = "compact",
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Affinity::Cores(cores) => cores.fmt(f),
            Affinity::Cpus(list) => list.fmt(f),
        }
    }
}

/// A probe of a rule that is switched on or off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// The probe's index in the rule.
    pub probe: usize,
    pub name: String,
    pub on: bool,
}

crate::words! {
    serde:
    /// The keywords by which rules request actions.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Keyword {
        #[default]
        Set = "set",
        Call = "call",
        Load = "load",
        Replace = "replace",
        InsertCall = "insert_call",
        RemoveCall = "remove_call",
        SetArgument = "set_arg",
        Affinity = "affinity",
        Enable = "enable",
        Disable = "disable",
    }
}

impl Action {
    /// A call as rules request it.
    pub fn call(call: Invocation, inverse: Inverse) -> Action {
        let Invocation { function, arguments } = call;
        Action::Call(CallRequest {
            function,
            arguments,
            returns: Some(ReturnType::IfKnown),
            wait_ms: CALL_WAIT_MS,
            thread: None,
            inverse,
        })
    }

    /// Loads a library, within the time limit for loading.
    pub fn load(path: impl Into<String>) -> Action {
        Action::Load {
            path: path.into(),
            wait_ms: LOAD_WAIT_MS,
        }
    }

    /// The keyword by which a rule requests it.
    pub fn keyword(&self) -> Keyword {
        match self {
            Action::Set(_) => Keyword::Set,
            Action::Call(_) => Keyword::Call,
            Action::Load { .. } => Keyword::Load,
            Action::Patch(patch) => patch.keyword(),
            Action::Affinity(_) => Keyword::Affinity,
            Action::Switch(Switch { on: true, .. }) => Keyword::Enable,
            Action::Switch(_) => Keyword::Disable,
        }
    }

    /// The name of what it acts on.
    pub fn target(&self) -> String {
        match self {
            Action::Set(set) => set.variable.clone(),
            Action::Call(call) => call.function.to_string(),
            Action::Load { path, .. } => path.clone(),
            Action::Patch(patch) => patch.target(),
            Action::Affinity(_) => "affinity".to_owned(),
            Action::Switch(switch) => switch.name.clone(),
        }
    }

    /// Keyword and target, as in a rule: `set cfg.chunk`.
    pub fn label(&self) -> String {
        let (keyword, target) = (self.keyword().name(), self.target());
        match self {
            Action::Patch(PatchRequest::SetArgument { index, .. }) => format!("{keyword} {target}({index})"),
            Action::Affinity(_) => keyword.to_owned(),
            _ => format!("{keyword} {target}"),
        }
    }

    /// The value that a `Set` writes.
    pub fn value(&self) -> Option<&Scalar> {
        match self {
            Action::Set(set) => Some(&set.value),
            _ => None,
        }
    }

    /// Whether it changes the program's code or loads a library.
    pub fn changes_code(&self) -> bool {
        matches!(self, Action::Load { .. } | Action::Patch(_))
    }

    /// Whether it is a call without a stated inverse, so that it stays.
    pub fn stays(&self) -> bool {
        matches!(self, Action::Call(call) if call.inverse == Inverse::Unstated)
    }

    /// What remains of it in the program after it was reverted, in words.
    pub fn remains(&self) -> Option<&str> {
        match self {
            Action::Call(CallRequest {
                inverse: Inverse::Call { remains, .. },
                ..
            }) => remains.as_deref(),
            _ => None,
        }
    }

    /// Whether it is a call that leaves nothing to revert.
    pub fn leaves_nothing(&self) -> bool {
        matches!(self, Action::Call(call) if matches!(call.inverse, Inverse::NotNeeded(_)))
    }

    /// For a call whose inverse is the same call with the value of `was`: the argument. If `was` has this
    /// value already, the call changes nothing.
    pub fn changes_nothing_where_was_is(&self) -> Option<&Argument> {
        let Action::Call(CallRequest {
            function,
            arguments,
            inverse: Inverse::Call {
                call, was: Some(_), ..
            },
            ..
        }) = self
        else {
            return None;
        };
        let place = call.arguments.iter().position(|of| *of == Argument::Was)?;
        let mut same = call.arguments.clone();
        same[place] = arguments.get(place)?.clone();
        (call.function == *function && same == *arguments).then(|| &arguments[place])
    }

    /// Why it has no place in the program at which it takes effect, if so.
    pub fn why_nowhere(&self) -> Option<&'static str> {
        match self {
            Action::Set(_) | Action::Call(_) => None,
            Action::Load { .. } => Some("a library is loaded by whichever thread can"),
            Action::Patch(_) => Some("code is changed while no thread runs, wherever each stands"),
            Action::Affinity(_) => Some("threads are bound from outside, wherever they stand"),
            Action::Switch(_) => Some("a probe is switched by the session"),
        }
    }

    /// Its effect on a program, in words. `computed` describes a value or argument that is not known yet, by
    /// its index in [`Action::arguments_mut`].
    pub fn effect(&self, computed: impl Fn(usize) -> Option<String>, range: &str) -> String {
        let value = || computed(0).unwrap_or_default();
        let shown = |arguments: &[Argument], first: usize| {
            let text = |(place, argument): (usize, &Argument)| {
                computed(first + place).unwrap_or_else(|| argument.to_string())
            };
            arguments
                .iter()
                .enumerate()
                .map(text)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self {
            Action::Set(Set {
                variable, everywhere, ..
            }) => {
                let copies = if *everywhere { ", every copy of it" } else { "" };
                format!("writes {variable} ({}{range}{copies})", value())
            }
            Action::Call(call) => {
                let reverted = call.inverse.effect(call.arguments.len(), &shown);
                format!(
                    "calls {}({}) ({reverted})",
                    call.function,
                    shown(&call.arguments, 0)
                )
            }
            Action::Load { path, .. } => format!("loads {path}"),
            Action::Patch(PatchRequest::Replace { function, with }) => {
                format!("patches {function} so that {with} runs instead")
            }
            Action::Patch(PatchRequest::InsertCall {
                function,
                arguments,
                into,
                place,
            }) => format!(
                "patches {into} so that {function}({}) is called at every {}",
                shown(arguments, 0),
                place.name()
            ),
            Action::Patch(PatchRequest::RemoveCall {
                function,
                within: Some(within),
            }) => format!("patches {within} so that {function} is not called in it"),
            Action::Patch(PatchRequest::RemoveCall { function, .. }) => {
                format!("patches {function} so that no call of it does anything")
            }
            Action::Patch(PatchRequest::SetArgument { function, index, .. }) => {
                format!(
                    "patches {function} so that argument {index} becomes {}{range}",
                    value()
                )
            }
            Action::Patch(PatchRequest::SetTeamSize { .. }) => {
                format!(
                    "patches the functions by which the program states the size of a team so that it becomes {}{range}",
                    value()
                )
            }
            Action::Affinity(_) => "binds the threads to cores".to_owned(),
            Action::Switch(Switch { name, on, .. }) => {
                format!("switches the probe {name} {}", if *on { "on" } else { "off" })
            }
        }
    }

    /// The target that only one tune of a job may act on, in words; `None` if several may.
    pub fn claim(&self) -> Option<String> {
        match self {
            Action::Set(set) => Some(format!("the variable {}", set.variable)),
            Action::Patch(patch) => patch.claim(),
            Action::Affinity(_) => Some("the cores of the processes".to_owned()),
            Action::Call(_) | Action::Load { .. } | Action::Switch(_) => None,
        }
    }

    /// The arguments of its calls: the call, the call made before it, and its inverse.
    pub fn arguments_mut(&mut self) -> Vec<&mut Argument> {
        match self {
            Action::Call(CallRequest {
                arguments, inverse, ..
            }) => {
                let others = inverse
                    .calls_mut()
                    .into_iter()
                    .flat_map(|call| &mut call.arguments);
                arguments.iter_mut().chain(others).collect()
            }
            Action::Patch(PatchRequest::InsertCall { arguments, .. }) => arguments.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    /// The functions that it names.
    pub fn functions_mut(&mut self) -> Vec<&mut FunctionName> {
        match self {
            Action::Call(CallRequest {
                function, inverse, ..
            }) => {
                let others = inverse.calls_mut().into_iter().map(|call| &mut call.function);
                std::iter::once(function).chain(others).collect()
            }
            Action::Patch(patch) => patch.functions_mut(),
            Action::Set(_) | Action::Load { .. } | Action::Affinity(_) | Action::Switch(_) => Vec::new(),
        }
    }
}

impl Inverse {
    fn effect(&self, first: usize, shown: &dyn Fn(&[Argument], usize) -> String) -> String {
        match self {
            Inverse::Unstated => "it stays".to_owned(),
            Inverse::NotNeeded(why) => format!("nothing to revert: {why}"),
            Inverse::Call { call, was, remains } => {
                let read = was.as_ref().map_or(0, |was| was.arguments.len());
                let inverse = format!("{}({})", call.function, shown(&call.arguments, first + read));
                let reader = was.as_ref().map(|was| {
                    let reader = shown(&was.arguments, first);
                    format!(", with was from {}({reader})", was.function)
                });
                let remains = remains.as_ref().map(|remains| format!("; {remains}"));
                format!(
                    "reverted by {inverse}{}{}",
                    reader.unwrap_or_default(),
                    remains.unwrap_or_default()
                )
            }
        }
    }

    /// Its calls, in the order in which they are made.
    fn calls_mut(&mut self) -> Vec<&mut Invocation> {
        match self {
            Inverse::Call { call, was, .. } => was.iter_mut().chain([call]).collect(),
            Inverse::Unstated | Inverse::NotNeeded(_) => Vec::new(),
        }
    }
}

impl PatchRequest {
    /// The notation in rules for the size that programs request for their OpenMP teams.
    pub const TEAM_SIZE: &'static str = "openmp.size";

    fn keyword(&self) -> Keyword {
        match self {
            PatchRequest::Replace { .. } => Keyword::Replace,
            PatchRequest::InsertCall { .. } => Keyword::InsertCall,
            PatchRequest::RemoveCall { .. } => Keyword::RemoveCall,
            PatchRequest::SetArgument { .. } | PatchRequest::SetTeamSize { .. } => Keyword::SetArgument,
        }
    }

    /// Its target in a rule's notation.
    fn target(&self) -> String {
        match self {
            PatchRequest::Replace { function, .. }
            | PatchRequest::InsertCall { function, .. }
            | PatchRequest::RemoveCall { function, .. }
            | PatchRequest::SetArgument { function, .. } => function.to_string(),
            PatchRequest::SetTeamSize { .. } => PatchRequest::TEAM_SIZE.to_owned(),
        }
    }

    fn functions_mut(&mut self) -> Vec<&mut FunctionName> {
        match self {
            PatchRequest::Replace { function, with } => vec![function, with],
            PatchRequest::InsertCall { function, into, .. } => vec![function, into],
            PatchRequest::RemoveCall { function, within } => {
                std::iter::once(function).chain(within).collect()
            }
            PatchRequest::SetArgument { function, .. } => vec![function],
            PatchRequest::SetTeamSize { .. } => Vec::new(),
        }
    }

    fn claim(&self) -> Option<String> {
        match self {
            PatchRequest::Replace { function, .. } => Some(format!("the function {function}")),
            PatchRequest::RemoveCall { function, .. } => Some(format!("the calls of {function}")),
            PatchRequest::SetArgument { function, index, .. } => {
                Some(format!("argument {index} of {function}"))
            }
            PatchRequest::SetTeamSize { .. } => Some("the stated size of OpenMP teams".to_owned()),
            PatchRequest::InsertCall { .. } => None,
        }
    }
}

/// For display: `set cfg.chunk = 64`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())?;
        match self {
            Action::Set(set) => write!(f, " = {}", set.value),
            Action::Call(call) => write!(f, "({})", listed(&call.arguments)),
            Action::Patch(PatchRequest::Replace { with, .. }) => write!(f, " with {with}"),
            Action::Patch(PatchRequest::InsertCall { arguments, into, .. }) => {
                write!(f, " in {into}")?;
                match arguments.is_empty() {
                    true => Ok(()),
                    false => write!(f, " with {}", listed(arguments)),
                }
            }
            Action::Patch(PatchRequest::RemoveCall {
                within: Some(within), ..
            }) => write!(f, " in {within}"),
            Action::Patch(PatchRequest::SetArgument { value, .. } | PatchRequest::SetTeamSize { value }) => {
                write!(f, " = {value}")
            }
            Action::Affinity(affinity) => write!(f, ": {affinity}"),
            Action::Patch(PatchRequest::RemoveCall { within: None, .. })
            | Action::Load { .. }
            | Action::Switch(_) => Ok(()),
        }
    }
}

/// The text between the parentheses of a call.
fn listed(arguments: &[Argument]) -> String {
    let parts: Vec<String> = arguments.iter().map(Argument::to_string).collect();
    parts.join(", ")
}
