//! The [`Action`] of a tune for a process, with the values of its formulas.

use plan::{Action, Argument, Expression, Operator as Computes, PatchRequest};
use syntax::ast::Operator;

use super::Context;
use crate::change::Change;
use crate::term::{Term, Typed};
use crate::types::Kind;
use crate::value::{Cell, Key, ProcessId, Scalar, Value, WhyMissing, boolean};

/// Integers from here on do not fit an i64.
const INTEGER_MAX: f64 = 9_223_372_036_854_775_808.0;

impl Change {
    /// The values of its formulas, each a single value for all processes or a table by process.
    pub(crate) fn values(&self, context: Context<'_>) -> Vec<Value> {
        match &self.action {
            // A formula over the original value has no value yet.
            Action::Patch(PatchRequest::SetArgument { .. } | PatchRequest::SetTeamSize { .. }) => Vec::new(),
            _ => self.formulas().map(|of| context.eval(of)).collect(),
        }
    }

    /// The action for a process, from the values of [`Change::values`].
    pub(crate) fn action_for(
        &self,
        context: Context<'_>,
        values: &[Value],
        process: ProcessId,
    ) -> Result<Action, WhyMissing> {
        let mut action = self.action.clone();
        match &mut action {
            Action::Patch(PatchRequest::SetArgument { value, .. } | PatchRequest::SetTeamSize { value }) => {
                for formula in self.formulas() {
                    *value = expression(context, formula, process)?;
                }
            }
            Action::Set(set) => {
                for value in values {
                    set.value = row(value, process)?;
                }
            }
            other => {
                let mut arguments = other.arguments_mut();
                for (formula, value) in self.formulas.iter().zip(values) {
                    if let Some(argument) = arguments.get_mut(formula.index) {
                        **argument = number(&row(value, process)?)?;
                    }
                }
            }
        }
        Ok(action)
    }

    /// Whether an action is permitted; the error states why not.
    pub(crate) fn permits(&self, context: Context<'_>, action: &Action) -> Result<(), WhyMissing> {
        let is_boolean = || self.formulas().any(|value| value.type_of.kind == Kind::Boolean);
        let value = match action {
            Action::Set(set) => set.value.clone(),
            Action::Patch(PatchRequest::SetArgument { value, .. } | PatchRequest::SetTeamSize { value }) => {
                match value {
                    Expression::Integer(value) if is_boolean() => Scalar::Boolean(*value != 0),
                    Expression::Integer(value) => Scalar::Number(*value as f64),
                    Expression::Float(value) => Scalar::Number(*value),
                    Expression::Original | Expression::Both(..) => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        let Some((range, text)) = &self.range else {
            return Ok(());
        };
        let context = Context {
            proposed: Some(&value),
            ..context
        };
        if boolean(&context.eval(range).single()?)? {
            return Ok(());
        }
        Err(format!("{value} is outside the range {text}").into())
    }
}

/// A value as an argument of a call. Without a type in the debug information, an integral number is passed as
/// an integer.
fn number(value: &Scalar) -> Result<Argument, WhyMissing> {
    match value {
        Scalar::Boolean(value) => Ok(Argument::Integer(i64::from(*value))),
        Scalar::Number(number) if !number.is_finite() => Err(format!("{number} cannot be passed").into()),
        Scalar::Number(number) if number.fract() == 0.0 && number.abs() < INTEGER_MAX => {
            Ok(Argument::Integer(*number as i64))
        }
        Scalar::Number(number) => Ok(Argument::Double(*number)),
        Scalar::Text(text) => Ok(Argument::Text(text.clone())),
    }
}

/// The value for a process: its row, or the single value.
fn row(value: &Value, process: ProcessId) -> Cell {
    match value {
        Value::Single(cell) => cell.clone(),
        Value::Table(rows) => rows
            .get(&Key::Process(process))
            .cloned()
            .unwrap_or_else(|| Err("a process has no row".into())),
    }
}

/// The expression that is evaluated at each call: parts independent of the original value become constants.
fn expression(context: Context<'_>, of: &Typed, process: ProcessId) -> Result<Expression, WhyMissing> {
    let mut passed = false;
    of.visit(&mut |term| passed |= matches!(term, Term::Original));
    if !passed {
        let value = row(&context.eval(of), process)?;
        return match number(&value)? {
            Argument::Integer(number) => Ok(Expression::Integer(number)),
            Argument::Double(number) => Ok(Expression::Float(number)),
            _ => Err(format!("`{value}` is not a number").into()),
        };
    }
    let both = |operator, a, b| Expression::Both(operator, Box::new(a), Box::new(b));
    let part = |of: &Typed| expression(context, of, process);
    let cannot = || WhyMissing::from("it cannot be computed where it is passed");
    match &of.term {
        Term::Original => Ok(Expression::Original),
        Term::Negate(of) => Ok(both(Computes::Subtract, Expression::Integer(0), part(of)?)),
        Term::Arithmetic(operator, a, b) => {
            let operator = match operator {
                Operator::Add => Computes::Add,
                Operator::Subtract => Computes::Subtract,
                Operator::Multiply => Computes::Multiply,
                Operator::Divide => Computes::Divide,
                Operator::Power | Operator::Remainder | Operator::And | Operator::Or => return Err(cannot()),
            };
            Ok(both(operator, part(a)?, part(b)?))
        }
        Term::Apply(function, parts) => {
            let parts = parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
            let compiled = function.scalar().and_then(|scalar| scalar.compiled);
            compiled.and_then(|compiled| compiled(parts)).ok_or_else(cannot)
        }
        _ => Err(cannot()),
    }
}
