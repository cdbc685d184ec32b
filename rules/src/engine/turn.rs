//! The inputs of a tune's evaluation, and the destination of its outputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::Mode;

use super::output::Output;
use super::variables::Variables;
use crate::change::Change;
use crate::eval::called::Memory;
use crate::eval::{Context, WindowData};
use crate::explain::comparisons;
use crate::guard::Guard;
use crate::ids::RuleId;
use crate::rule::{CheckedRule, Tune};
use crate::value::{Cell, Time, Value};

/// The inputs of one tune at a closed window.
pub(super) struct TuneEvaluation<'a> {
    pub(super) id: RuleId,
    pub(super) rule: &'a CheckedRule,
    /// The tune's index in the file.
    pub(super) index: usize,
    pub(super) mode: Mode,
    pub(super) window: &'a WindowData,
    pub(super) metrics: &'a [(String, Value)],
    pub(super) memory: Memory<'a>,
    /// The target of the tune that must be applied first and is not.
    pub(super) first: Option<String>,
    /// Of a tune that only finds: why its rule needs to change nothing.
    pub(super) needless: Option<String>,
    pub(super) now: Time,
}

/// The outputs and the shared state of an engine's tunes at one tick.
pub(super) struct Outbox<'a> {
    /// The rule whose change is on trial, or will be after its receipt.
    pub(super) busy: Option<String>,
    /// The targets that rules claim or have changed, each with the claiming rule of the highest priority.
    pub(super) claimed: BTreeMap<String, (i64, String)>,
    /// The number of decisions so far.
    pub(super) decisions: &'a mut u64,
    /// The current values of the variables that rules would write.
    pub(super) variables: Arc<Variables>,
    pub(super) outputs: Vec<Output>,
}

impl Outbox<'_> {
    /// Claims a target, unless a rule of a higher priority does; then returns the obstacle.
    pub(super) fn claim(&mut self, rule: &CheckedRule, action: &Change) -> Option<String> {
        let claim = action.action.claim()?;
        let mine = (rule.priority, rule.name.clone());
        let known = self.claimed.entry(claim.clone()).or_insert(mine.clone());
        if known.0 < mine.0 {
            *known = mine;
            return None;
        }
        let (priority, other) = known;
        (*priority > mine.0).then(|| format!("{claim} is claimed by {other}, whose priority is {priority}"))
    }

    pub(super) fn end_trial(&mut self, is_over: bool) {
        self.busy = self.busy.take().filter(|_| !is_over);
    }
}

impl<'a> TuneEvaluation<'a> {
    pub(super) fn context(&self) -> Context<'a> {
        Context {
            window: Some(self.window),
            metrics: self.metrics,
            memory: self.memory,
            ..Context::default()
        }
    }

    /// The current value of the guard's `was`; `None` if it has none.
    pub(super) fn was(&self, guard: &Guard) -> Option<Cell> {
        let was = guard.was.as_ref()?;
        Some(self.context().eval(was).single())
    }

    /// The guard's objective in this window, with the given value of `was`.
    pub(super) fn objective(&self, guard: &Guard, was: Option<Cell>) -> Cell {
        let variables: Vec<Value> = was.map(Value::Single).into_iter().collect();
        let context = Context {
            variables: &variables,
            ..self.context()
        };
        context.eval(&guard.objective).single()
    }

    /// The metrics behind the tune, then both sides of its condition, then what was left out.
    pub(super) fn because(&self, tune: &Tune) -> Vec<(String, String)> {
        let metric = |index: &usize| {
            let metric = self.rule.metrics.get(*index)?;
            let (name, value) = self.metrics.get(*index)?;
            Some((name.clone(), value.show(metric.value.type_of)))
        };
        let behind = self.rule.requirements.behind(self.index).iter();
        let mut out: Vec<(String, String)> = behind.filter_map(metric).collect();
        let compared = tune.when.iter();
        let compared = compared.flat_map(|when| comparisons(self.rule, when, self.context()));
        out.extend(compared.map(|one| (one.written, format!("{} {}", one.left, one.right))));
        out.extend(
            self.window
                .left_out
                .iter()
                .map(|who| ("left out".to_string(), who.clone())),
        );
        out
    }
}
