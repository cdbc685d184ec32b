//! What a tune does, checked, with the formulas that say with which values; and the [`Action`] it comes to for a process.

use crate::action::{self, Action, Affinity, Argument, Computed};
use crate::engine::ProbeId;
use crate::eval::{Context, boolean};
use crate::file::{Keyword, Site};
use crate::function::ScalarFunction;
use crate::lang::ast::Operator;
use crate::read::{Layout, Source};
use crate::rule::Guard;
use crate::term::{Term, Typed};
use crate::value::{Cell, Key, ProcessId, Scalar, Value};

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

    /// The values of its formulas, which are the same for all processes or tables by process.
    pub(crate) fn values(&self, context: Context<'_>) -> Vec<Value> {
        match self {
            // What depends on the value that is passed has none yet.
            Deed::SetArgument { .. } => Vec::new(),
            _ => self.formulas().into_iter().map(|of| context.eval(of)).collect(),
        }
    }

    /// What it comes to for a process, with the values of [`Deed::values`].
    pub(crate) fn action(
        &self,
        context: Context<'_>,
        values: &[Value],
        process: ProcessId,
    ) -> Result<Action, String> {
        let mut values = values.iter().map(|value| row(value, process));
        let mut next = || {
            values
                .next()
                .unwrap_or_else(|| Err("it was not computed".to_string()))
        };
        Ok(match self {
            Deed::Set {
                variable,
                layout,
                everywhere,
                ..
            } => Action::Set {
                variable: variable.clone(),
                layout: *layout,
                everywhere: *everywhere,
                value: next()?,
            },
            Deed::Call { call, inverse } => Action::Call {
                function: call.function.clone(),
                arguments: given(&call.arguments, &mut next)?,
                inverse: taken_back(inverse, &mut next)?,
            },
            Deed::Load { library } => Action::Load {
                library: library.clone(),
            },
            Deed::Replace { function, with } => Action::Replace {
                function: function.clone(),
                with: with.clone(),
            },
            Deed::InsertCall {
                function,
                arguments,
                inside,
                place,
            } => Action::InsertCall {
                function: function.clone(),
                arguments: given(arguments, &mut next)?,
                inside: inside.clone(),
                place: *place,
            },
            Deed::RemoveCall { function, inside } => Action::RemoveCall {
                function: function.clone(),
                inside: inside.clone(),
            },
            Deed::SetArgument {
                function,
                argument,
                value,
            } => Action::SetArgument {
                function: function.clone(),
                argument: *argument,
                value: computed(context, value, process)?,
            },
            Deed::Affinity(affinity) => Action::Affinity(*affinity),
            Deed::Enable { probe, .. } => Action::Enable {
                probe: ProbeId(*probe),
            },
            Deed::Disable { probe, .. } => Action::Disable {
                probe: ProbeId(*probe),
            },
        })
    }
}

impl Change {
    /// Whether an action may be done; the error says why not.
    pub(crate) fn permits(&self, context: Context<'_>, action: &Action) -> Result<(), String> {
        let value = match action {
            Action::Set { value, .. } => value,
            Action::SetArgument {
                value: Computed::Constant(value),
                ..
            } => value,
            _ => return Ok(()),
        };
        let Some((range, text)) = &self.range else {
            return Ok(());
        };
        let context = Context {
            proposed: Some(value),
            ..context
        };
        if boolean(&context.eval(range).single()?)? {
            return Ok(());
        }
        Err(format!("{value} is outside the range {text}"))
    }
}

impl Given {
    fn value(&self) -> Option<&Typed> {
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

fn given(arguments: &[Given], mut next: impl FnMut() -> Cell) -> Result<Vec<Argument>, String> {
    let argument = |given: &Given| match given {
        Given::Value(_) => next().map(Argument::Value),
        Given::Variable(source) => Ok(Argument::Variable(source.clone())),
        Given::Was => Ok(Argument::Was),
    };
    arguments.iter().map(argument).collect()
}

fn taken_back(inverse: &Inverse, mut next: impl FnMut() -> Cell) -> Result<action::Inverse, String> {
    let mut invocation = |call: &Invocation| {
        Ok::<_, String>(action::Invocation {
            function: call.function.clone(),
            arguments: given(&call.arguments, &mut next)?,
        })
    };
    Ok(match inverse {
        Inverse::Unstated => action::Inverse::Unstated,
        Inverse::NotNeeded(why) => action::Inverse::NotNeeded(why.clone()),
        Inverse::Call { reader, call } => action::Inverse::Call {
            reader: reader.as_ref().map(&mut invocation).transpose()?,
            call: invocation(call)?,
        },
    })
}

/// The value for a process: its row, or the value for all.
fn row(value: &Value, process: ProcessId) -> Cell {
    match value {
        Value::Single(cell) => cell.clone(),
        Value::Table(rows) => rows
            .get(&Key::Process(process))
            .cloned()
            .unwrap_or_else(|| Err("a process has no row".to_string())),
    }
}

/// What is left to be computed at each call.
fn computed(context: Context<'_>, of: &Typed, process: ProcessId) -> Result<Computed, String> {
    let mut passed = false;
    of.visit(&mut |term| passed |= matches!(term, Term::Original));
    if !passed {
        return row(&context.eval(of), process).map(Computed::Constant);
    }
    let part = |of: &Typed| computed(context, of, process);
    let boxed = |of: &Typed| part(of).map(Box::new);
    match &of.term {
        Term::Original => Ok(Computed::Original),
        Term::Negate(of) => {
            let zero = Computed::Constant(Scalar::Number(0.0));
            Ok(Computed::Subtract(Box::new(zero), boxed(of)?))
        }
        Term::Arithmetic(operator, a, b) => {
            let (a, b) = (boxed(a)?, boxed(b)?);
            match operator {
                Operator::Add => Ok(Computed::Add(a, b)),
                Operator::Subtract => Ok(Computed::Subtract(a, b)),
                Operator::Multiply => Ok(Computed::Multiply(a, b)),
                Operator::Divide => Ok(Computed::Divide(a, b)),
                Operator::Power | Operator::Remainder | Operator::And | Operator::Or => {
                    Err("it cannot be computed where it is passed".to_string())
                }
            }
        }
        Term::Apply(function, parts) => {
            let parts = parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
            match (function, parts.as_slice()) {
                (ScalarFunction::Min, _) => Ok(Computed::Min(parts)),
                (ScalarFunction::Max, _) => Ok(Computed::Max(parts)),
                (ScalarFunction::Clamp, [of, low, high]) => Ok(Computed::Min(vec![
                    Computed::Max(vec![of.clone(), low.clone()]),
                    high.clone(),
                ])),
                _ => Err("it cannot be computed where it is passed".to_string()),
            }
        }
        _ => Err("it cannot be computed where it is passed".to_string()),
    }
}
