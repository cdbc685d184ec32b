//! The [`Action`] that a tune comes to for a process, with the values of its formulas.

use super::{Context, boolean};
use crate::action::{self, Action, Argument, Computed};
use crate::change::{Change, Deed, Given, Inverse, Invocation};
use crate::function::ScalarFunction;
use crate::ids::ProbeId;
use crate::lang::ast::Operator;
use crate::term::{Term, Typed};
use crate::value::{Cell, Key, ProcessId, Scalar, Value};

impl Deed {
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
