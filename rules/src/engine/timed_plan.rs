//! What nodes compute of the windows of a length of a rule, and what they pass on instead: derived from its formulas.

use std::collections::BTreeSet;

use super::timed_part::TimedPart;
use crate::eval::partial::Reduced;
use crate::function::Reduction;
use crate::measure::{Measure, Scope};
use crate::rule::CheckedRule;
use crate::term::{Term, Typed};
use crate::value::WhyMissing;

/// What nodes compute of the windows of a length of a rule, and what they pass on instead.
#[derive(Clone, Debug, Default)]
pub(super) struct TimedPlan {
    /// By window; `None` for a window from probe to probe.
    windows: Vec<Option<TimedWindow>>,
    /// Measures of processes that are passed on: another kind of window needs them.
    pub(super) passed: BTreeSet<Measure>,
    /// By probe: whether its hits and totals are passed on, because a fold waits for the close.
    pub(super) passes_hits: Vec<bool>,
}

/// The same of one window.
#[derive(Clone, Debug, Default)]
pub(super) struct TimedWindow {
    /// The measures of which a formula needs a row for each process.
    pub(super) rows: BTreeSet<Measure>,
    /// The reductions that nodes compute.
    pub(super) reductions: Vec<(Reduction, Typed)>,
    /// By probe: whether a formula needs the totals of each process.
    pub(super) hit_rows: Vec<bool>,
}

impl TimedPlan {
    pub(super) fn of(rule: &CheckedRule) -> TimedPlan {
        let mut plan = TimedPlan {
            passes_hits: vec![false; rule.probes.len()],
            ..TimedPlan::default()
        };
        for (index, folds) in rule.folds.iter().enumerate() {
            let runs = rule.runs.iter().filter(|run| run.window == index);
            let runs = runs.flat_map(|run| std::iter::once(&run.of).chain(&run.by));
            let formulas: Vec<&Typed> = rule.formulas_of(index).into_iter().chain(runs).collect();
            let is_timed = rule
                .windows
                .get(index)
                .is_some_and(|window| window.boundaries().is_none());
            let mut window = TimedWindow {
                hit_rows: vec![false; rule.probes.len()],
                ..TimedWindow::default()
            };
            formulas.iter().for_each(|formula| window.needs(formula));
            if is_timed {
                for (probe, passes) in plan.passes_hits.iter_mut().enumerate() {
                    *passes |= folds.keeps(probe);
                }
                // What is known from rows need not be reduced before.
                let rows = &window.rows;
                window
                    .reductions
                    .retain(|(_, of)| !measures_of(of).is_subset(rows));
            } else {
                let reduced = window.reductions.iter().flat_map(|(_, of)| measures_of(of));
                plan.passed.extend(window.rows.iter().copied().chain(reduced));
            }
            plan.windows.push(is_timed.then_some(window));
        }
        plan
    }

    /// Whether the rule has windows of a length.
    pub(super) fn has_windows(&self) -> bool {
        self.windows.iter().any(Option::is_some)
    }

    pub(super) fn window(&self, index: usize) -> Option<&TimedWindow> {
        self.windows.get(index)?.as_ref()
    }

    /// The reductions of a window, from all parts.
    pub(super) fn reduced(
        &self,
        window: usize,
        all: &TimedPart,
        missing: Option<&str>,
    ) -> Vec<(Reduction, Typed, Reduced)> {
        let reductions = self.window(window).map_or(&[][..], |window| &window.reductions);
        let read = |((reduction, of), reduced): (&(Reduction, Typed), &Reduced)| {
            let mut reduced = reduced.clone();
            reduced.none = missing.map(WhyMissing::from).or(reduced.none);
            (*reduction, of.clone(), reduced)
        };
        reductions.iter().zip(&all.numbers.reduced).map(read).collect()
    }
}

impl CheckedRule {
    /// Whether nodes compute a part of a formula of a window: a reduction, or what is reduced.
    pub(crate) fn is_reduced_by_nodes(&self, window: usize, of: &Typed) -> bool {
        let plan = TimedPlan::of(self);
        plan.window(window).is_some_and(|window| match &of.term {
            Term::Reduce(reduction, rows) => {
                let mut reductions = window.reductions.iter();
                reductions.any(|(known, of)| known == reduction && of == &**rows)
            }
            _ => {
                let measures = measures_of(of);
                let reduced = window.reductions.iter().flat_map(|(_, of)| measures_of(of));
                let reduced: BTreeSet<Measure> = reduced.collect();
                let travel: BTreeSet<Measure> = &window.rows | &plan.passed;
                is_of_process(of)
                    && !measures.is_empty()
                    && measures.is_subset(&reduced)
                    && measures.is_disjoint(&travel)
            }
        })
    }
}

impl TimedWindow {
    /// Notes what a formula needs.
    fn needs(&mut self, of: &Typed) {
        match &of.term {
            Term::Reduce(reduction, rows) if is_reduced_by_nodes(*reduction, rows) => {
                let known = self.reductions.iter();
                if !known
                    .into_iter()
                    .any(|(known, of)| known == reduction && *of == **rows)
                {
                    self.reductions.push((*reduction, (**rows).clone()));
                }
            }
            Term::Measure(measure) | Term::At { measure, .. } if measure.scope() == Scope::Process => {
                self.rows.insert(*measure);
            }
            Term::Hits {
                probe,
                by_process: true,
                ..
            } => {
                if let Some(rows) = self.hit_rows.get_mut(*probe) {
                    *rows = true;
                }
            }
            _ => of.children().into_iter().for_each(|part| self.needs(part)),
        }
    }
}

/// Whether each row depends on one process alone, so that nodes can reduce their rows.
fn is_reduced_by_nodes(reduction: Reduction, rows: &Typed) -> bool {
    !matches!(reduction, Reduction::ArgMin | Reduction::ArgMax)
        && is_of_process(rows)
        && !measures_of(rows).is_empty()
}

fn is_of_process(of: &Typed) -> bool {
    let known = match &of.term {
        Term::Measure(measure) => measure.scope() == Scope::Process,
        Term::Apply(function, _) => function.scalar().is_some_and(|scalar| scalar.is_by_row),
        Term::Constant(_)
        | Term::WindowDuration
        | Term::WindowIndex
        | Term::Negate(_)
        | Term::Not(_)
        | Term::Arithmetic(..)
        | Term::Both(..)
        | Term::Either(..)
        | Term::Compare { .. } => true,
        _ => false,
    };
    known && of.children().into_iter().all(is_of_process)
}

pub(super) fn measures_of(of: &Typed) -> BTreeSet<Measure> {
    let mut found = BTreeSet::new();
    of.visit(&mut |term| {
        if let Term::Measure(measure) = term {
            found.insert(*measure);
        }
    });
    found
}
