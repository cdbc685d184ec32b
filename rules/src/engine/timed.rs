//! Windows of a length on the job's clock, in an evaluation over several nodes.
//!
//! The coordinator closes a window at a tick and sends its times with the schedule. Each node folds the hits of
//! its own processes between these times, and reduces their measures, and reports one part; the coordinator
//! merges the parts and evaluates the window when all are here. Without nodes nothing waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::window::Observed;
use super::{Engine, Running};
use crate::eval::partial::{AggregateState, Content, HitPosition};
use crate::eval::{Context, HitsInWindow, WindowData};
use crate::function::{Reduction, ScalarFunction};
use crate::ids::{ProbeId, RuleId};
use crate::measure::{Measure, Scope};
use crate::plan::Delivery;
use crate::rule::CheckedRule;
use crate::term::{Term, Typed};
use crate::value::{Cell, Key, Machine, ProcessId, Subject, Time, Value, WhyMissing, finite};

/// The shortest wait for the parts of nodes, in nanoseconds. A longer window is waited for as long as it lasts.
const WAITS_NS: u64 = 5_000_000_000;

/// Why a window has no values whose part a node did not report in time.
const PART_MISSING: &str = "the window is partial: a node has not handed in its part";
/// The same if a node saw other processes than the coordinator.
const OTHERS: &str = "the window is partial: a process came or left while a node computed its part";

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

#[derive(Clone, Debug, Default)]
struct TimedWindow {
    /// The measures of which a formula needs a row for each process.
    rows: BTreeSet<Measure>,
    /// The reductions that nodes compute.
    reductions: Vec<(Reduction, Typed)>,
    /// By probe: whether a formula needs the totals of each process.
    hit_rows: Vec<bool>,
}

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
    processes: usize,
    /// For each probe, why some of its hits are unknown, with the first process of which they are.
    lacking: Vec<Option<(ProcessId, String)>>,
    /// For each probe, its hits by process; one row for all if no formula needs rows.
    hits: Vec<Vec<HitRow>>,
    /// The rows of measures that formulas need.
    rows: Vec<(Measure, Vec<MeasureRow>)>,
    /// In the order of the rule's reductions.
    reduced: Vec<Reduced>,
}

/// The hits of a probe in a process, or why they are unknown.
type HitRow = (ProcessId, Result<HitsInWindow, WhyMissing>);
/// A measure of a process, or why it is unknown.
type MeasureRow = (ProcessId, Result<f64, WhyMissing>);

/// A reduction over processes, before it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reduced {
    rows: u64,
    /// The first process whose row is none, and why.
    wrong: Option<(ProcessId, String)>,
    /// Why there is no table.
    none: Option<String>,
    state: AggregateState,
}

/// A window that waits for the parts of nodes.
#[derive(Clone, Debug)]
pub(super) struct AwaitedWindow {
    pub(super) place: usize,
    pub(super) index: u64,
    pub(super) span: (Time, Time),
    /// Aggregates of the pairs of hits that became known in it.
    pub(super) pairs: Arc<Content>,
    /// Why pairs may be missing.
    pub(super) incomplete: Option<String>,
    pub(super) parts: BTreeMap<Machine, TimedPart>,
}

/// A closed window, for the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TimedEntry {
    pub(super) window: usize,
    pub(super) index: u64,
    pub(super) span: (Time, Time),
}

impl TimedPlan {
    pub(super) fn of(rule: &CheckedRule) -> TimedPlan {
        let mut plan = TimedPlan {
            passes_hits: vec![false; rule.probes.len()],
            ..TimedPlan::default()
        };
        for (place, folds) in rule.folds.iter().enumerate() {
            let runs = rule.runs.iter().filter(|run| run.window == place);
            let runs = runs.flat_map(|run| std::iter::once(&run.of).chain(&run.by));
            let formulas: Vec<&Typed> = rule.formulas_of(place).into_iter().chain(runs).collect();
            let is_timed = rule
                .windows
                .get(place)
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

    fn window(&self, place: usize) -> Option<&TimedWindow> {
        self.windows.get(place)?.as_ref()
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
        Term::Apply(function, _) => *function != ScalarFunction::CpuShares,
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

fn measures_of(of: &Typed) -> BTreeSet<Measure> {
    let mut found = BTreeSet::new();
    of.visit(&mut |term| {
        if let Term::Measure(measure) = term {
            found.insert(*measure);
        }
    });
    found
}

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
        self.add_hits(&mut part, window, (observed, &complete), entry.span);
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
            duration: Ok(entry.span.1.since(entry.span.0) as f64 / 1e9),
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
        (observed, complete): (Observed<'_>, &BTreeSet<ProcessId>),
        span: (Time, Time),
    ) {
        let probes = self.rule.probes.iter().zip(&self.rule.plan.probes).enumerate();
        for (place, (probe, planned)) in probes {
            let members = self
                .roles
                .get(probe.role)
                .map_or_else(BTreeSet::new, |members| members & complete);
            let (of, each) = ((self.id, ProbeId(place)), planned.delivers == Delivery::EachHit);
            let (mut lacking, mut rows) = (None, Vec::new());
            if self.plan.passes_hits.get(place) == Some(&false) {
                if each {
                    let named = (probe.name.as_str(), &members);
                    lacking = observed.each_hit(&mut part.content, of, named, span).err();
                }
                rows = observed.probed(of, (&probe.name, each), &members, span);
                if window.hit_rows.get(place) == Some(&false) {
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

impl Reduced {
    fn empty(reduction: Reduction) -> Reduced {
        Reduced {
            rows: 0,
            wrong: None,
            none: None,
            state: AggregateState::new(reduction, false),
        }
    }

    fn of(reduction: Reduction, rows: Value) -> Reduced {
        let mut reduced = Reduced::empty(reduction);
        let rows = match rows {
            Value::Table(rows) => rows,
            Value::Single(cell) => {
                reduced.none = Some(cell.err().unwrap_or_else(|| "it is no table".to_string()));
                return reduced;
            }
        };
        for (key, cell) in rows {
            let Key::Process(process) = key else {
                continue;
            };
            reduced.rows += 1;
            match cell {
                Ok(value) => reduced
                    .state
                    .add(Ok(value), None, HitPosition::number(process.0.into())),
                Err(why) => {
                    reduced.wrong.get_or_insert((process, why));
                }
            }
        }
        reduced
    }

    fn merge(&mut self, other: &Reduced) {
        self.rows = self.rows.saturating_add(other.rows);
        self.wrong = first(self.wrong.take(), other.wrong.clone());
        self.none = self.none.take().or_else(|| other.none.clone());
        self.state.merge(&other.state);
    }

    /// As the reduction of a table with all rows.
    pub(crate) fn read(&self, reduction: Reduction, why_empty: &str) -> Cell {
        if let Some(why) = &self.none {
            return Err(why.clone());
        }
        if reduction == Reduction::Count {
            return finite(self.rows as f64);
        }
        match &self.wrong {
            Some((_, why)) => Err(why.clone()),
            None if self.rows == 0 => Err(why_empty.to_owned()),
            None => self
                .state
                .read(reduction)
                .unwrap_or_else(|| Err(why_empty.to_owned())),
        }
    }
}

/// What is said of the first process.
fn first(
    one: Option<(ProcessId, String)>,
    other: Option<(ProcessId, String)>,
) -> Option<(ProcessId, String)> {
    one.into_iter().chain(other).min_by_key(|(process, _)| *process)
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

    fn merge(&mut self, other: &TimedPart) {
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
        let said = |said: &Option<(ProcessId, String)>| said.as_ref().map_or(0, |(_, text)| text.len());
        let hits = self.hits.iter().map(|rows| {
            let texts = rows.iter().filter_map(|(_, row)| row.as_ref().err()).map(text);
            size_of_val(rows) + rows.capacity() * size_of::<HitRow>() + texts.sum::<usize>()
        });
        let rows = self.rows.iter().map(|(_, rows)| {
            let texts = rows.iter().filter_map(|(_, row)| row.as_ref().err()).map(text);
            size_of::<(Measure, Vec<HitRow>)>() + rows.capacity() * size_of::<HitRow>() + texts.sum::<usize>()
        });
        let reduced = self.reduced.iter().map(|reduced| {
            let texts = said(&reduced.wrong) + reduced.none.as_ref().map_or(0, text);
            size_of::<Reduced>() + texts + reduced.state.heap_bytes()
        });
        let lacking = self
            .lacking
            .iter()
            .map(|lacking| size_of_val(lacking) + said(lacking));
        size_of::<TimedNumbers>() + hits.chain(rows).chain(reduced).chain(lacking).sum::<usize>()
    }
}

impl Engine {
    /// The data of a window of a length; `parts` has those of the nodes.
    pub(super) fn timed(
        &self,
        id: RuleId,
        running: &Running,
        entry: TimedEntry,
        parts: &BTreeMap<Machine, TimedPart>,
    ) -> WindowData {
        let (observed, mut left_out) = (self.observed(), Vec::new());
        let complete = observed.complete(&running.roles, entry.span, &mut left_out);
        let all = self.all_parts(id, running, entry, parts);
        let missing = match () {
            () if self.nodes.keys().any(|node| !parts.contains_key(node)) => Some(PART_MISSING),
            () if !self.nodes.is_empty() && all.numbers.processes != complete.len() => Some(OTHERS),
            () => None,
        };
        left_out.extend(missing.map(str::to_string));
        let mut data = WindowData {
            window: entry.window,
            number: entry.index,
            index: entry.index,
            duration: Ok(entry.span.1.since(entry.span.0) as f64 / 1e9),
            span: entry.span,
            roles: running.roles.iter().map(|members| members & &complete).collect(),
            measures: self.measures_of_all(running, &complete, entry, (&all, missing)),
            reduced: running.timed_plan.reduced(entry.window, &all, missing),
            calls: observed.calls(&running.rule, &complete, entry.span),
            probe_roles: running.rule.probe_roles(),
            ranks: observed.ranks(&complete),
            left_out,
            ..WindowData::default()
        };
        self.add_hits_of_all((id, running), &mut data, (all, missing));
        data
    }

    /// The parts of the nodes, and that of the processes that are on none. Nothing is in parts without nodes.
    fn all_parts(
        &self,
        id: RuleId,
        running: &Running,
        entry: TimedEntry,
        parts: &BTreeMap<Machine, TimedPart>,
    ) -> TimedPart {
        if self.nodes.is_empty() {
            let folds = running.rule.folds.get(entry.window).cloned().unwrap_or_default();
            return TimedPart {
                numbers: TimedNumbers::default(),
                content: Content::new(folds, self.room()),
            };
        }
        let is_here = |process: &ProcessId| {
            let known = self.processes.get(process);
            known.is_none_or(|known| !self.nodes.contains_key(&known.facts.machine))
        };
        let here = |members: &BTreeSet<ProcessId>| members.iter().copied().filter(is_here).collect();
        let roles: Vec<BTreeSet<ProcessId>> = running.roles.iter().map(here).collect();
        let rule = TimedRule {
            id,
            rule: &running.rule,
            plan: &running.timed_plan,
            roles: &roles,
        };
        let mut all = rule.part(self.observed(), entry);
        parts.values().for_each(|part| all.merge(part));
        all
    }

    fn measures_of_all(
        &self,
        running: &Running,
        complete: &BTreeSet<ProcessId>,
        entry: TimedEntry,
        (all, missing): (&TimedPart, Option<&str>),
    ) -> BTreeMap<Measure, Value> {
        let own = BTreeMap::new();
        let times = super::window::Times::shared(entry.span, &own);
        let value = |measure: &Measure| {
            let is_here = self.nodes.is_empty()
                || measure.scope() == Scope::Machine
                || running.timed_plan.passed.contains(measure);
            let value = match missing {
                _ if is_here => self.observed().measured(*measure, complete, times),
                Some(why) => Value::none(why),
                None => {
                    let rows = all.numbers.rows.iter().filter(|(of, _)| of == measure);
                    let rows = rows.flat_map(|(_, rows)| rows);
                    let row = |(process, value): &MeasureRow| {
                        (Key::Process(*process), value.clone().and_then(finite))
                    };
                    Value::Table(rows.map(row).collect())
                }
            };
            (*measure, value)
        };
        running.rule.plan.measures.iter().map(value).collect()
    }

    /// Adds the hits: those that nodes folded, and those that they passed on.
    fn add_hits_of_all(
        &self,
        (id, running): (RuleId, &Running),
        data: &mut WindowData,
        (mut all, missing): (TimedPart, Option<&str>),
    ) {
        let (observed, no_process) = (self.observed(), BTreeSet::new());
        let probes = running
            .rule
            .probes
            .iter()
            .zip(&running.rule.plan.probes)
            .enumerate();
        for (place, (probe, planned)) in probes {
            let members = data.roles.get(probe.role).unwrap_or(&no_process);
            let absent = running.absent.get(&place).map(String::as_str);
            let (of, each) = ((id, ProbeId(place)), planned.delivers == Delivery::EachHit);
            let is_passed = self.nodes.is_empty() || running.timed_plan.passes_hits.get(place) == Some(&true);
            let unknown = absent.or(missing.filter(|_| !is_passed));
            let (lacking, rows) = if let Some(why) = unknown {
                let rows = members
                    .iter()
                    .map(|process| (*process, Err(why.to_string())))
                    .collect();
                (each.then(|| why.to_string()).or(absent.map(str::to_string)), rows)
            } else if is_passed {
                let named = (probe.name.as_str(), members);
                let lacking = match each {
                    true => observed.each_hit(&mut all.content, of, named, data.span).err(),
                    false => None,
                };
                let rows = observed.probed(of, (&probe.name, each), members, data.span);
                (lacking.map(|(_, why)| why), rows)
            } else {
                let lacking = all.numbers.lacking.get_mut(place).and_then(Option::take);
                let rows = all.numbers.hits.get_mut(place).map(std::mem::take);
                (lacking.map(|(_, why)| why), rows.unwrap_or_default())
            };
            data.lacking.push(lacking);
            data.probes.push((probe.name.clone(), rows.into_iter().collect()));
        }
        let content = Arc::new(all.content);
        *data = std::mem::take(data).with(content);
    }

    /// The windows of a length of a rule whose parts are here, or have been waited for long enough.
    pub(super) fn timed_ready(&mut self, id: RuleId, now: Time) -> Vec<AwaitedWindow> {
        let Some(running) = self.rules.get_mut(id.0) else {
            return Vec::new();
        };
        let waits = |awaited: &&AwaitedWindow| {
            let (start, end) = awaited.span;
            let lacks_part = self.nodes.keys().any(|node| !awaited.parts.contains_key(node));
            lacks_part && now.since(end) < end.since(start).max(WAITS_NS)
        };
        let ready = running.awaited_windows.iter().position(|awaited| waits(&awaited));
        let ready = ready.unwrap_or(running.awaited_windows.len());
        running.awaited_windows.drain(..ready).collect()
    }

    /// The data of a closed window of a length for formulas. It is made after the preceding windows were evaluated.
    pub(super) fn timed_window(&mut self, id: RuleId, awaited: &AwaitedWindow) -> Option<WindowData> {
        let running = self.rules.get(id.0)?;
        let (entry, incomplete) = (awaited.entry(), awaited.incomplete.as_deref());
        let window = self.timed(id, running, entry, &awaited.parts);
        let window = running.with_pairs(window, &awaited.pairs, incomplete, entry.span);
        let window = running.looking_back(entry.window, window);
        let lacks_part = self.nodes.keys().any(|node| !awaited.parts.contains_key(node));
        let running = self.rules.get_mut(id.0)?;
        running.stream.dropped.partial += u64::from(lacks_part);
        Some(window)
    }

    /// Takes the part of a window from a node. One that comes too late is counted.
    pub(super) fn take_part(&mut self, node: Machine, part: TimedPart) {
        let processes = &self.processes;
        let is_own = |process: ProcessId| {
            processes
                .get(&process)
                .is_some_and(|known| known.facts.machine == node)
        };
        let Some(running) = self.rules.get_mut(part.numbers.rule.0) else {
            return;
        };
        let dropped = &mut running.stream.dropped;
        if !part.fits(&running.rule, &running.timed_plan, is_own) {
            dropped.foreign = dropped.foreign.saturating_add(1);
            return;
        }
        let mut awaited = running.awaited_windows.iter_mut();
        let is_it = |awaited: &&mut AwaitedWindow| {
            (awaited.place, awaited.index) == (part.numbers.window, part.numbers.index)
        };
        match awaited.find(is_it) {
            Some(awaited) => {
                awaited.parts.entry(node).or_insert(part);
            }
            None => dropped.late = dropped.late.saturating_add(part.content.len() as u64),
        }
    }
}

impl TimedPlan {
    /// The reductions of a window, from all parts.
    fn reduced(
        &self,
        window: usize,
        all: &TimedPart,
        missing: Option<&str>,
    ) -> Vec<(Reduction, Typed, Reduced)> {
        let reductions = self.window(window).map_or(&[][..], |window| &window.reductions);
        let read = |((reduction, of), reduced): (&(Reduction, Typed), &Reduced)| {
            let mut reduced = reduced.clone();
            reduced.none = missing.map(str::to_string).or(reduced.none);
            (*reduction, of.clone(), reduced)
        };
        reductions.iter().zip(&all.numbers.reduced).map(read).collect()
    }
}

impl AwaitedWindow {
    pub(super) fn entry(&self) -> TimedEntry {
        TimedEntry {
            window: self.place,
            index: self.index,
            span: self.span,
        }
    }
}
