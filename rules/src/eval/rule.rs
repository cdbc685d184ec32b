//! Evaluates a rule's roles, metrics and texts in a context.

use syntax::quantity;

use super::called::Memory;
use super::{Context, WindowData};
use crate::facts::ProcessFacts;
use crate::rule::{CheckedRule, Filled, FilledPart, Role};
use crate::term::Typed;
use crate::value::{Scalar, Value};

impl Role {
    /// Whether a process has the role; false if a fact is unknown.
    pub(crate) fn has(&self, facts: &ProcessFacts) -> bool {
        let context = Context {
            facts: Some(facts),
            ..Context::default()
        };
        let holds = |condition| context.eval(condition).single() == Ok(Scalar::Boolean(true));
        self.conditions.iter().any(holds)
    }
}

impl Filled {
    /// The text with the values of `context` filled in, for reading.
    pub(crate) fn fill(&self, context: Context<'_>) -> String {
        self.fill_with(|typed| context.eval(typed).show(typed.type_of))
    }

    /// As `fill`, for a command that is copied: its numbers have no spaces between thousands.
    pub(crate) fn fill_to_copy(&self, context: Context<'_>) -> String {
        self.fill_with(|typed| {
            let value = context.eval(typed);
            let shown = value.show(typed.type_of);
            match value.single() {
                Ok(Scalar::Number(_)) => quantity::ungrouped(&shown),
                _ => shown,
            }
        })
    }

    fn fill_with(&self, show: impl Fn(&Typed) -> String) -> String {
        let part = |part: &FilledPart| match part {
            FilledPart::Literal(text) => text.clone(),
            FilledPart::Value(typed) => show(typed),
        };
        self.0.iter().map(part).collect()
    }
}

impl CheckedRule {
    /// The metrics of a closed window, each with its name, in the order of evaluation; those of other windows
    /// are none.
    pub(crate) fn evaluate(
        &self,
        index: usize,
        window: &WindowData,
        memory: Memory<'_>,
    ) -> Vec<(String, Value)> {
        let context = Context {
            window: Some(window),
            memory,
            ..Context::default()
        };
        self.evaluate_in(index, context)
    }

    /// As `evaluate`, in a given context.
    pub(crate) fn evaluate_in(&self, index: usize, context: Context<'_>) -> Vec<(String, Value)> {
        let mut values: Vec<(String, Value)> = Vec::with_capacity(self.metrics.len());
        for metric in &self.metrics {
            let value = if metric.is_called {
                Value::none("it has no value by itself")
            } else if metric.window != index {
                Value::none("it lives in another window")
            } else {
                let metrics = &values;
                Context { metrics, ..context }.eval(&metric.value)
            };
            values.push((metric.name.clone(), value));
        }
        values
    }

    /// The names of the rule's roles that a process with these facts has.
    pub fn roles_of(&self, facts: &ProcessFacts) -> Vec<&str> {
        self.roles
            .iter()
            .filter(|role| role.has(facts))
            .map(|role| role.name.as_str())
            .collect()
    }
}
