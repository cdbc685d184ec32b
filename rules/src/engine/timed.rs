//! Windows of a length on the job's clock, in an evaluation over several nodes.
//!
//! The coordinator closes a window at a tick and sends its times with the schedule. Each node folds the hits of
//! its own processes between these times, and reduces their measures, and reports one part; the coordinator
//! merges the parts and evaluates the window when all are here. Without nodes nothing waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Engine;
use super::running::Running;
use super::timed_part::{MeasureRow, TimedNumbers, TimedPart, TimedRule};
use crate::eval::WindowData;
use crate::eval::partial::Content;
use crate::ids::{ProbeId, RuleId};
use crate::measure::{Measure, Scope};
use crate::plan::Delivery;
use crate::value::{Key, Machine, ProcessId, Time, Value, observed};

/// The shortest wait for the parts of nodes, in nanoseconds. A longer window is waited for as long as it lasts.
const WAITS_NS: u64 = 5_000_000_000;

/// Why a window has no values whose part a node did not report in time.
const PART_MISSING: &str = "the window is partial: a node has not handed in its part";
/// The same if an agent was replaced by another one in it, or a report was lost.
const LOST: &str = "the window is partial: hits were lost in it";
/// The same if a node saw other processes than the coordinator.
const OTHERS: &str = "the window is partial: a process came or left while a node computed its part";

/// A window that waits for the parts of nodes.
#[derive(Clone, Debug)]
pub(super) struct AwaitedWindow {
    pub(super) window: usize,
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
            () if self.nodes.is_empty() => None,
            () if running.intake.stream.lost_between(entry.span.0, entry.span.1) => Some(LOST),
            () if all.numbers.processes != complete.len() => Some(OTHERS),
            () => None,
        };
        left_out.extend(missing.map(str::to_string));
        let mut data = WindowData {
            window: entry.window,
            number: entry.index,
            index: entry.index,
            duration: Some(Ok(entry.span.1.since(entry.span.0) as f64 / 1e9)),
            span: entry.span,
            roles: running.roles.iter().map(|members| members & &complete).collect(),
            measures: self.measures_of_all(running, &complete, entry, &all, missing),
            reduced: running.parts.plan.reduced(entry.window, &all, missing),
            calls: observed.calls(&running.rule, &complete, entry.span),
            probe_roles: running.rule.probe_roles(),
            ranks: observed.ranks(&complete),
            left_out,
            ..WindowData::default()
        };
        self.add_hits_of_all(id, running, &mut data, all, missing);
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
            plan: &running.parts.plan,
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
        all: &TimedPart,
        missing: Option<&str>,
    ) -> BTreeMap<Measure, Value> {
        let own = BTreeMap::new();
        let times = super::window::Times::shared(entry.span, &own);
        let value = |measure: &Measure| {
            let is_here = self.nodes.is_empty()
                || measure.scope() == Scope::Machine
                || running.parts.plan.passed.contains(measure);
            let value = match missing {
                _ if is_here => self.observed().measured(*measure, complete, times),
                Some(why) => Value::none(why),
                None => {
                    let rows = all.numbers.rows.iter().filter(|(of, _)| of == measure);
                    let rows = rows.flat_map(|(_, rows)| rows);
                    let row =
                        |(process, value): &MeasureRow| (Key::Process(*process), observed(value.clone()));
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
        id: RuleId,
        running: &Running,
        data: &mut WindowData,
        mut all: TimedPart,
        missing: Option<&str>,
    ) {
        let (observed, no_process) = (self.observed(), BTreeSet::new());
        let probes = running
            .rule
            .probes
            .iter()
            .zip(&running.rule.plan.probes)
            .enumerate();
        for (index, (probe, planned)) in probes {
            let members = data.roles.get(probe.role).unwrap_or(&no_process);
            let absent = running
                .probes
                .get(index)
                .and_then(|state| state.absent.as_deref());
            let (of, each) = ((id, ProbeId(index)), planned.delivers == Delivery::EachHit);
            let is_passed = self.nodes.is_empty() || running.parts.plan.passes_hits.get(index) == Some(&true);
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
                let lacking = all.numbers.lacking.get_mut(index).and_then(Option::take);
                let rows = all.numbers.hits.get_mut(index).map(std::mem::take);
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
        let ready = running.parts.windows.iter().position(|awaited| waits(&awaited));
        let ready = ready.unwrap_or(running.parts.windows.len());
        running.parts.windows.drain(..ready).collect()
    }

    /// The data of a closed window of a length for formulas. It is made after the preceding windows were evaluated.
    pub(super) fn timed_window(&mut self, id: RuleId, awaited: &AwaitedWindow) -> Option<WindowData> {
        let running = self.rules.get(id.0)?;
        let (entry, incomplete) = (awaited.entry(), awaited.incomplete.as_deref());
        let window = self.timed(id, running, entry, &awaited.parts);
        let window = running.with_pairs(window, &awaited.pairs, incomplete, entry.span);
        let window = running.retained.looking_back(entry.window, window);
        let lacks_part = self.nodes.keys().any(|node| !awaited.parts.contains_key(node));
        let running = self.rules.get_mut(id.0)?;
        running.intake.stream.dropped.partial += u64::from(lacks_part);
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
        let dropped = &mut running.intake.stream.dropped;
        if !part.fits(&running.rule, &running.parts.plan, is_own) {
            dropped.foreign = dropped.foreign.saturating_add(1);
            return;
        }
        let mut awaited = running.parts.windows.iter_mut();
        let is_it = |awaited: &&mut AwaitedWindow| {
            (awaited.window, awaited.index) == (part.numbers.window, part.numbers.index)
        };
        match awaited.find(is_it) {
            Some(awaited) => {
                awaited.parts.entry(node).or_insert(part);
            }
            None => dropped.late = dropped.late.saturating_add(part.content.len() as u64),
        }
    }
}

impl AwaitedWindow {
    pub(super) fn entry(&self) -> TimedEntry {
        TimedEntry {
            window: self.window,
            index: self.index,
            span: self.span,
        }
    }
}
