//! The part of a window of a length that a node computes from its processes: aggregates of hits, reductions of
//! measures, and rows where formulas need them. Parts of different processes merge exactly.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::timed::TimedEntry;
use super::timed_plan::{TimedPlan, TimedWindow, measures_of};
use super::window::Observed;
use crate::eval::partial::{AggregateState, Content, Reduced, first};
use crate::eval::{Context, HitsInWindow, WindowData};
use crate::function::Reduction;
use crate::ids::{ProbeId, RuleId};
use crate::measure::Measure;
use crate::plan::Delivery;
use crate::rule::CheckedRule;
use crate::term::Typed;
use crate::value::{ProcessId, Subject, Time, Value, WhyMissing, WhyUnknown};

/// A part of a window, from the processes of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TimedPart {
    pub(super) numbers: TimedNumbers,
    /// Aggregates of the hits.
    pub(super) content: Content,
}

/// All of a part but the aggregates of hits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TimedNumbers {
    pub(super) rule: RuleId,
    /// The window's index in the file.
    pub(super) window: usize,
    pub(super) index: u64,
    /// The processes of the node that have a role and were there from boundary to boundary.
    pub(super) processes: usize,
    /// For each probe, why some of its hits are unknown, with the first process of which they are.
    pub(super) lacking: Vec<Option<(ProcessId, String)>>,
    /// For each probe, its hits by process; one row for all if no formula needs rows.
    pub(super) hits: Vec<Vec<HitRow>>,
    /// The rows of measures that formulas need.
    pub(super) rows: Vec<(Measure, Vec<MeasureRow>)>,
    /// In the order of the rule's reductions.
    pub(super) reduced: Vec<Reduced>,
}

/// The hits of a probe in a process, or why they are unknown.
type HitRow = (ProcessId, Result<HitsInWindow, WhyUnknown>);
/// A measure of a process, or why it is unknown.
pub(super) type MeasureRow = (ProcessId, Result<f64, WhyUnknown>);

/// What is evaluated, and for which processes.
pub(super) struct TimedRule<'a> {
    pub(super) id: RuleId,
    pub(super) rule: &'a CheckedRule,
    pub(super) plan: &'a TimedPlan,
    pub(super) roles: &'a [BTreeSet<ProcessId>],
}

impl TimedRule<'_> {
    /// The part of a window of the observed processes that have a role.
    pub(super) fn part(&self, observed: Observed<'_>, entry: TimedEntry) -> TimedPart {
        let complete = observed.complete(self.roles, entry.span, &mut Vec::new());
        let mut part = TimedPart {
            numbers: TimedNumbers {
                rule: self.id,
                window: entry.window,
                index: entry.index,
                processes: complete.len(),
                ..TimedNumbers::default()
            },
            content: Content::new(
                self.rule.folds.get(entry.window).cloned().unwrap_or_default(),
                observed.room,
            ),
        };
        let Some(window) = self.plan.window(entry.window) else {
            return part;
        };
        self.add_hits(&mut part, window, observed, &complete, entry.span);
        part.content.collapse(|_| true);
        let rows = |measure: &Measure| {
            let row = |process: &ProcessId| {
                let value = observed.one(*measure, Subject::Process(*process), entry.span);
                (*process, value)
            };
            (*measure, complete.iter().map(row).collect())
        };
        let needed = window
            .rows
            .iter()
            .filter(|measure| !self.plan.passed.contains(measure));
        part.numbers.rows = needed.map(rows).collect();
        let data = WindowData {
            index: entry.index,
            duration: Some(Ok(entry.span.1.since(entry.span.0) as f64 / 1e9)),
            measures: window
                .reductions
                .iter()
                .flat_map(|(_, of)| measures_of(of))
                .map(|measure| {
                    (
                        measure,
                        Value::Table(observed.rows(measure, &complete, entry.span)),
                    )
                })
                .collect(),
            ..WindowData::default()
        };
        let context = Context {
            window: Some(&data),
            ..Context::default()
        };
        let reduced = window.reductions.iter();
        part.numbers.reduced = reduced
            .map(|(reduction, of)| Reduced::of(*reduction, context.eval(of)))
            .collect();
        part
    }

    fn add_hits(
        &self,
        part: &mut TimedPart,
        window: &TimedWindow,
        observed: Observed<'_>,
        complete: &BTreeSet<ProcessId>,
        span: (Time, Time),
    ) {
        let probes = self.rule.probes.iter().zip(&self.rule.plan.probes).enumerate();
        for (index, (probe, planned)) in probes {
            let members = self
                .roles
                .get(probe.role)
                .map_or_else(BTreeSet::new, |members| members & complete);
            let (of, each) = ((self.id, ProbeId(index)), planned.delivers == Delivery::EachHit);
            let (mut lacking, mut rows) = (None, Vec::new());
            if self.plan.passes_hits.get(index) == Some(&false) {
                if each {
                    let named = (probe.name.as_str(), &members);
                    lacking = observed.each_hit(&mut part.content, of, named, span).err();
                }
                rows = observed.probed(of, (&probe.name, each), &members, span);
                if window.hit_rows.get(index) == Some(&false) {
                    rows = together(rows).into_iter().collect();
                }
            }
            part.numbers.lacking.push(lacking);
            part.numbers.hits.push(rows);
        }
    }
}

/// One row for several: that of the first process whose hits are unknown, if there is one.
fn together(rows: Vec<HitRow>) -> Option<HitRow> {
    rows.into_iter().reduce(|all, row| match (all, row) {
        ((process, Ok(all)), (_, Ok(row))) => (process, Ok(all.with(&row))),
        (all @ (_, Err(_)), _) => all,
        (_, unknown) => unknown,
    })
}

impl TimedPart {
    /// Whether it is of this rule and of processes of which `is_own` holds, so that it can be merged.
    pub(super) fn fits(
        &self,
        rule: &CheckedRule,
        plan: &TimedPlan,
        is_own: impl Fn(ProcessId) -> bool,
    ) -> bool {
        let numbers = &self.numbers;
        let (Some(window), Some(folds)) = (plan.window(numbers.window), rule.folds.get(numbers.window))
        else {
            return false;
        };
        let rows = numbers.rows.iter().flat_map(|(_, rows)| rows);
        let hits = numbers.hits.iter().flatten().map(|(process, _)| process);
        let named = rows.map(|(process, _)| process).chain(hits).copied();
        let like = |(reduced, (reduction, _)): (&Reduced, &(Reduction, Typed))| {
            let empty = AggregateState::new(*reduction, false);
            reduced.state.is_sound() && reduced.state.is_like(&empty)
        };
        numbers.hits.len() == rule.probes.len()
            && numbers.lacking.len() == rule.probes.len()
            && numbers.reduced.len() == window.reductions.len()
            && numbers.reduced.iter().zip(&window.reductions).all(like)
            && self.content.fits(folds)
            && named.chain(self.content.processes()).all(is_own)
    }

    /// Whether it has the rows of a measure.
    #[cfg(test)]
    pub(super) fn has_row(&self, measure: Measure) -> bool {
        self.numbers.rows.iter().any(|(known, _)| *known == measure)
    }

    pub(super) fn merge(&mut self, other: &TimedPart) {
        self.content.merge(&other.content);
        let (numbers, others) = (&mut self.numbers, &other.numbers);
        numbers.processes += others.processes;
        for (lacking, other) in numbers.lacking.iter_mut().zip(&others.lacking) {
            *lacking = first(lacking.take(), other.clone());
        }
        for (hits, other) in numbers.hits.iter_mut().zip(&others.hits) {
            hits.extend(other.iter().cloned());
        }
        numbers.rows.extend(others.rows.iter().cloned());
        for (reduced, other) in numbers.reduced.iter_mut().zip(&others.reduced) {
            reduced.merge(other);
        }
    }
}

impl TimedNumbers {
    /// Bytes of its memory, at most.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &String| text.len();
        let hits = self.hits.iter().map(|rows| {
            let texts = rows.iter().filter_map(|(_, row)| row.as_ref().err()).map(text);
            size_of_val(rows) + rows.capacity() * size_of::<HitRow>() + texts.sum::<usize>()
        });
        let rows = self.rows.iter().map(|(_, rows)| {
            let texts = rows.iter().filter_map(|(_, row)| row.as_ref().err()).map(text);
            size_of::<(Measure, Vec<HitRow>)>() + rows.capacity() * size_of::<HitRow>() + texts.sum::<usize>()
        });
        let reduced = self.reduced.iter().map(|reduced| {
            let reasons = reduced.wrong.iter().map(|(_, why)| why).chain(&reduced.none);
            let reasons: usize = reasons.map(WhyMissing::bytes).sum();
            size_of::<Reduced>() + reasons + reduced.state.heap_bytes()
        });
        let lacking = self
            .lacking
            .iter()
            .map(|lacking| size_of_val(lacking) + lacking.as_ref().map_or(0, |(_, why)| why.len()));
        size_of::<TimedNumbers>() + hits.chain(rows).chain(reduced).chain(lacking).sum::<usize>()
    }
}
