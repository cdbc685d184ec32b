//! What a tune does, checked, with the formulas that say with which values. They are evaluated in [`crate::eval`].

use crate::action::{Affinity, Keyword};
use crate::guard::Guard;
use crate::read::{Layout, Source};
use crate::target::Site;
use crate::term::Typed;

/// A change of the processes of a role.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) role: usize,
    pub(crate) deed: Deed,
    /// What must hold of the value, and how it is written.
    pub(crate) range: Option<(Typed, String)>,
    /// Without it nothing is judged, and the change does not occupy the trial.
    pub(crate) guard: Option<Guard>,
}

/// What is done, with what is to be computed for it.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Set {
        variable: Source,
        layout: Option<Layout>,
        everywhere: bool,
        value: Typed,
    },
    Call {
        call: Invocation,
        inverse: Inverse,
    },
    Load {
        library: String,
    },
    Replace {
        function: String,
        with: String,
    },
    InsertCall {
        function: String,
        arguments: Vec<Given>,
        inside: String,
        place: Site,
    },
    RemoveCall {
        function: String,
        inside: Option<String>,
    },
    SetArgument {
        function: String,
        argument: u8,
        value: Typed,
    },
    Affinity(Affinity),
    Enable {
        probe: usize,
        name: String,
    },
    Disable {
        probe: usize,
        name: String,
    },
}

/// A function with what it is called with.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) function: String,
    pub(crate) arguments: Vec<Given>,
}

/// How a call is taken back.
#[derive(Clone, Debug)]
pub(crate) enum Inverse {
    /// The rule does not say: the call stays.
    Unstated,
    /// There is nothing to take back, for this reason.
    NotNeeded(String),
    Call {
        /// What is called just before the call, for the value that is passed as `was`.
        reader: Option<Invocation>,
        call: Invocation,
    },
}

/// What a function is called with.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Value(Typed),
    Variable(Source),
    /// What was read just before the call that is taken back.
    Was,
}

impl Inverse {
    /// Its calls, in the order in which they are made.
    fn calls(&self) -> impl Iterator<Item = &Invocation> {
        let (reader, call) = match self {
            Inverse::Call { reader, call } => (reader.as_ref(), Some(call)),
            Inverse::Unstated | Inverse::NotNeeded(_) => (None, None),
        };
        reader.into_iter().chain(call)
    }

    fn calls_mut(&mut self) -> impl Iterator<Item = &mut Invocation> {
        let (reader, call) = match self {
            Inverse::Call { reader, call } => (reader.as_mut(), Some(call)),
            Inverse::Unstated | Inverse::NotNeeded(_) => (None, None),
        };
        reader.into_iter().chain(call)
    }
}

impl Deed {
    /// What it acts on, as `after` names it.
    pub(crate) fn target(&self) -> String {
        match self {
            Deed::Set { variable, .. } => variable.to_string(),
            Deed::Call { call, .. } => call.function.clone(),
            Deed::Replace { function, .. }
            | Deed::InsertCall { function, .. }
            | Deed::RemoveCall { function, .. }
            | Deed::SetArgument { function, .. } => function.clone(),
            Deed::Load { library } => library.clone(),
            Deed::Affinity(_) => "affinity".to_string(),
            Deed::Enable { name, .. } | Deed::Disable { name, .. } => name.clone(),
        }
    }

    pub(crate) fn keyword(&self) -> Keyword {
        match self {
            Deed::Set { .. } => Keyword::Set,
            Deed::Call { .. } => Keyword::Call,
            Deed::Load { .. } => Keyword::Load,
            Deed::Replace { .. } => Keyword::Replace,
            Deed::InsertCall { .. } => Keyword::InsertCall,
            Deed::RemoveCall { .. } => Keyword::RemoveCall,
            Deed::SetArgument { .. } => Keyword::SetArgument,
            Deed::Affinity(_) => Keyword::Affinity,
            Deed::Enable { .. } => Keyword::Enable,
            Deed::Disable { .. } => Keyword::Disable,
        }
    }

    /// The keyword of a rule, and what it acts on.
    pub(crate) fn label(&self) -> String {
        let keyword = self.keyword().name();
        match self {
            Deed::SetArgument { argument, .. } => format!("{keyword} {}({argument})", self.target()),
            Deed::Affinity(_) => keyword.to_string(),
            _ => format!("{keyword} {}", self.target()),
        }
    }

    /// Whether it changes the program's code or loads a library.
    pub(crate) fn changes_code(&self) -> bool {
        match self {
            Deed::Load { .. }
            | Deed::Replace { .. }
            | Deed::InsertCall { .. }
            | Deed::RemoveCall { .. }
            | Deed::SetArgument { .. } => true,
            Deed::Set { .. }
            | Deed::Call { .. }
            | Deed::Affinity(_)
            | Deed::Enable { .. }
            | Deed::Disable { .. } => false,
        }
    }

    /// Whether it is a call of which the rule does not say how it is taken back: it stays.
    pub(crate) fn stays(&self) -> bool {
        matches!(
            self,
            Deed::Call {
                inverse: Inverse::Unstated,
                ..
            }
        )
    }

    /// What no two tunes of a job may both act on, in words; nothing where several may.
    pub(crate) fn claim(&self) -> Option<String> {
        match self {
            Deed::Set { variable, .. } => Some(format!("the variable {variable}")),
            Deed::Replace { function, .. } => Some(format!("the function {function}")),
            Deed::SetArgument {
                function, argument, ..
            } => Some(format!("argument {argument} of {function}")),
            Deed::RemoveCall { function, .. } => Some(format!("the calls of {function}")),
            Deed::Affinity(_) => Some("the cores of the processes".to_string()),
            Deed::Call { .. }
            | Deed::Load { .. }
            | Deed::InsertCall { .. }
            | Deed::Enable { .. }
            | Deed::Disable { .. } => None,
        }
    }

    /// Its formulas.
    pub(crate) fn formulas(&self) -> Vec<&Typed> {
        match self {
            Deed::Set { value, .. } | Deed::SetArgument { value, .. } => vec![value],
            Deed::Call { call, inverse } => {
                let calls = std::iter::once(call).chain(inverse.calls());
                calls
                    .flat_map(|call| &call.arguments)
                    .filter_map(Given::value)
                    .collect()
            }
            Deed::InsertCall { arguments, .. } => arguments.iter().filter_map(Given::value).collect(),
            Deed::Load { .. }
            | Deed::Replace { .. }
            | Deed::RemoveCall { .. }
            | Deed::Affinity(_)
            | Deed::Enable { .. }
            | Deed::Disable { .. } => Vec::new(),
        }
    }

    /// Its formulas, to be changed.
    pub(crate) fn formulas_mut(&mut self) -> Vec<&mut Typed> {
        match self {
            Deed::Set { value, .. } | Deed::SetArgument { value, .. } => vec![value],
            Deed::Call { call, inverse } => {
                let calls = std::iter::once(call).chain(inverse.calls_mut());
                let arguments = calls.flat_map(|call| &mut call.arguments);
                arguments.filter_map(Given::value_mut).collect()
            }
            Deed::InsertCall { arguments, .. } => arguments.iter_mut().filter_map(Given::value_mut).collect(),
            Deed::Load { .. }
            | Deed::Replace { .. }
            | Deed::RemoveCall { .. }
            | Deed::Affinity(_)
            | Deed::Enable { .. }
            | Deed::Disable { .. } => Vec::new(),
        }
    }
}

impl Given {
    pub(crate) fn value(&self) -> Option<&Typed> {
        match self {
            Given::Value(value) => Some(value),
            Given::Variable(_) | Given::Was => None,
        }
    }

    fn value_mut(&mut self) -> Option<&mut Typed> {
        match self {
            Given::Value(value) => Some(value),
            Given::Variable(_) | Given::Was => None,
        }
    }
}
