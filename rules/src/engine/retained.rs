//! What a rule keeps of its closed windows: for formulas that look back, and for display.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::output::ClosedWindow;
use crate::eval::called::{Memory, Past};
use crate::eval::partial::Past as Contents;
use crate::eval::run::RunState;
use crate::eval::{Context, WindowData};
use crate::ids::RuleId;
use crate::rule::{CheckedRule, Metric};
use crate::value::{Value, WhyUnknown};

/// Instances of an inner window kept for the enclosing one; beyond this number its formulas have no value.
const INSIDE_MAX: usize = 4096;

/// What is kept of the closed instances, by window.
#[derive(Clone, Debug)]
pub(super) struct Retained {
    /// What folds over several instances need of them.
    contents: Vec<Contents>,
    /// The metrics of earlier instances, the newest last.
    history: Vec<Vec<Past>>,
    /// For each enclosing window, the inner instances that closed within its open ones.
    inner: Vec<Inside>,
    /// Folds over every instance.
    runs: Vec<RunState>,
    last: Vec<Option<Arc<Evaluated>>>,
}

impl Retained {
    pub(super) fn of(rule: &CheckedRule) -> Retained {
        let contents = rule.folds.iter().map(|folds| Contents::new(Arc::clone(folds)));
        Retained {
            contents: contents.collect(),
            history: vec![Vec::new(); rule.windows.len()],
            inner: vec![Inside::default(); rule.windows.len()],
            runs: rule.runs.iter().map(RunState::new).collect(),
            last: vec![None; rule.windows.len()],
        }
    }

    pub(super) fn memory(&self) -> Memory<'_> {
        Memory {
            windows: &self.history,
            runs: &self.runs,
        }
    }

    /// Adds the contents of closed instances, for folds over them.
    pub(super) fn looking_back(&self, index: usize, mut window: WindowData) -> WindowData {
        if let Some(past) = self.contents.get(index) {
            (window.earlier, window.run) = (past.earlier(), past.run());
        }
        window
    }

    /// The inner instances that closed within a closing instance; they are forgotten.
    pub(super) fn take_inner(
        &mut self,
        index: usize,
        number: u64,
    ) -> BTreeMap<usize, Result<Vec<Past>, WhyUnknown>> {
        let inside = self.inner.get_mut(index);
        inside.map_or_else(BTreeMap::new, |inside| inside.take(number))
    }

    /// Takes an evaluated instance with its data.
    pub(super) fn push(&mut self, rule: &CheckedRule, window: &WindowData, over: &Arc<Evaluated>) {
        let past = || Past {
            number: window.number,
            metrics: over.metrics.clone(),
        };
        let keep = rule.windows.get(over.window).map_or(0, |window| window.history);
        if let Some(history) = self.history.get_mut(over.window).filter(|_| keep > 0) {
            history.push(past());
            let beyond = history.len().saturating_sub(keep);
            history.drain(..beyond);
        }
        self.runs = self.runs_with(window, over);
        self.push_content(over.window, window);
        for (around, number, _) in &window.outer {
            if let Some(inside) = self.inner.get_mut(*around) {
                inside.push(*number, over.window, past());
            }
        }
        if let Some(last) = self.last.get_mut(over.window) {
            *last = Some(Arc::clone(over));
        }
    }

    /// The folds over every window; those of this window include the closing instance.
    fn runs_with(&self, window: &WindowData, over: &Evaluated) -> Vec<RunState> {
        let context = Context {
            window: Some(window),
            metrics: &over.metrics,
            memory: self.memory(),
            ..Context::default()
        };
        let with = |run: &RunState| {
            let mut run = run.clone();
            if run.window() == over.window {
                run.take(context);
            }
            run
        };
        self.runs.iter().map(with).collect()
    }

    /// Keeps what folds over closed instances need of a complete one.
    fn push_content(&mut self, index: usize, data: &WindowData) {
        let (Some(past), Some(content)) = (self.contents.get_mut(index), &data.content) else {
            return;
        };
        if data.lacking.iter().any(Option::is_some) {
            return;
        }
        let mut content = Arc::clone(content);
        if !data.excluded.is_empty() {
            Arc::make_mut(&mut content).leave_out(&data.excluded);
        }
        past.push(&content);
    }

    /// The instance of a window that closed last.
    pub(super) fn last(&self, window: usize) -> Option<&Evaluated> {
        self.last.get(window)?.as_deref()
    }

    /// The instance of each window that closed last.
    pub(super) fn last_of_each(&self) -> impl Iterator<Item = &Evaluated> {
        self.last.iter().flatten().map(Arc::as_ref)
    }

    /// The metrics of the last closed windows, for display.
    pub(super) fn shown(&self, rule: &CheckedRule) -> Vec<(String, String)> {
        let some = self.last_of_each().next();
        let shown = |(at, metric): (usize, &Metric)| {
            let (name, value) = self.last(metric.window).or(some)?.metrics.get(at)?;
            Some((name.clone(), value.show(metric.value.type_of)))
        };
        rule.metrics.iter().enumerate().filter_map(shown).collect()
    }
}

/// The instances of inner windows that closed within an open one.
#[derive(Clone, Debug, Default)]
struct Inside {
    /// By the number of the open instance and the index of the inner window.
    closed: BTreeMap<(u64, usize), Vec<Past>>,
}

impl Inside {
    fn push(&mut self, number: u64, window: usize, past: Past) {
        let known = self.closed.entry((number, window)).or_default();
        // One more than the maximum indicates that there were too many.
        if known.len() <= INSIDE_MAX {
            known.push(past);
        }
    }

    /// The instances that closed within a closing one; earlier ones are forgotten.
    fn take(&mut self, number: u64) -> BTreeMap<usize, Result<Vec<Past>, WhyUnknown>> {
        let later = self.closed.split_off(&(number + 1, 0));
        let until = std::mem::replace(&mut self.closed, later);
        let of_it = until.into_iter().filter(|((of, _), _)| *of == number);
        let row = |((_, window), past): ((u64, usize), Vec<Past>)| match past.len() {
            0..=INSIDE_MAX => (window, Ok(past)),
            _ => (
                window,
                Err(format!("more than {INSIDE_MAX} windows closed in it")),
            ),
        };
        of_it.map(row).collect()
    }
}

/// The results of a window. Formatted only on request, because a decision must not wait for it.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    pub(super) rule: RuleId,
    pub(super) window: usize,
    pub(super) index: u64,
    pub(super) duration: Option<f64>,
    /// All metrics of the rule, by index.
    pub(super) metrics: Vec<(String, Value)>,
}

impl Evaluated {
    pub(super) fn shown(&self, rule: &CheckedRule) -> ClosedWindow {
        let values = rule.metrics.iter().zip(&self.metrics);
        let lives_here = |metric: &Metric| metric.window == self.window && !metric.is_called;
        let own = values.filter(|(metric, _)| lives_here(metric));
        let (metrics, readings) = own
            .map(|(metric, (name, value))| {
                let text = value.show(metric.value.type_of);
                ((name.clone(), text), value.reading(metric.value.type_of))
            })
            .unzip();
        let window = rule.windows.get(self.window);
        ClosedWindow {
            rule: self.rule,
            window: window.map_or_else(String::new, |window| window.name.clone()),
            index: self.index,
            duration: self.duration,
            metrics,
            readings,
        }
    }
}
