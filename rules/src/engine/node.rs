//! The part of the evaluation on the nodes of the processes: hits go in, partial results come out.
//!
//! A session on several machines uses it on each of them, its coordinator's included (`agent/session/src/nodes`); on one
//! machine all rules are evaluated in one engine.
//!
//! The agent of a node passes observations of its own processes to its [`Node`], and from time to time the
//! resulting [`Report`] to the coordinator's [`Engine`](crate::Engine). Hits that carry the key of their
//! instance are folded here, so that a report has one state for each instance and fold, for any number of hits
//! and processes; it has one for each process where a formula needs that. Windows of a length are folded here,
//! too, see [`super::timed`]. Boundaries, joins and hits placed by time are passed on, because only the
//! coordinator knows their order.
//!
//! Only the coordinator knows when instances began and ended. It sends a [`Schedule`]: up to the schedule's
//! reach, a node knows the instance of each of its hits, and reports that time. Reports and schedules may
//! arrive twice, late and in any order; a report that never arrives is a loss. An agent that was restarted
//! knows nothing of the hits of the one before it: it has a greater incarnation, and numbers its reports from 0.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Process;
use super::capture::Captures;
use super::instance_table::{Entry, InstanceTable};
use super::keyed_intake::{ByKey, Instances, KeyedIntake};
use super::output::{Dropped, Observation};
use super::samples::Samples;
use super::stream::Arrived;
use super::timed::TimedEntry;
use super::timed_part::{TimedPart, TimedRule};
use super::timed_plan::TimedPlan;
use super::window::Observed;
use crate::eval::partial::{Content, MORE_THAN_KEPT, Room};
use crate::facts::ProcessFacts;
use crate::hit::Hit;
use crate::ids::{ProbeId, RuleId};
use crate::rule::CheckedRule;
use crate::value::{Key, Machine, ProcessId, Subject, Time};

/// Evaluates the parts of rules that can be evaluated on the node of the processes.
#[derive(Clone, Debug, Default)]
pub struct Node {
    machine: Machine,
    incarnation: u64,
    rules: Vec<Local>,
    processes: BTreeMap<ProcessId, Process>,
    samples: Samples,
    watermarks: BTreeMap<ProcessId, Time>,
    /// Observations that are passed on unchanged.
    observations: Vec<Observation>,
    reports: u64,
}

/// A node's state of one rule.
#[derive(Clone, Debug)]
struct Local {
    rule: Arc<CheckedRule>,
    /// For each role, its processes on this node.
    roles: Vec<BTreeSet<ProcessId>>,
    captures: Vec<Captures>,
    by_key: ByKey,
    timed: TimedPlan,
    /// It has windows from probe to probe, or pairs of hits.
    is_ordered: bool,
    /// For each window of a length: the next one to compute, and its begin.
    next: Vec<(u64, Time)>,
    parts: Vec<TimedPart>,
    keyed_intake: KeyedIntake,
    tables: Vec<InstanceTable>,
    reach: Option<Time>,
    kept: Kept,
    late: Vec<Time>,
    dropped: Dropped,
}

/// Aggregates of the hits since the last report, by window and instance.
#[derive(Clone, Debug, Default)]
struct Kept {
    folds: Vec<Arc<crate::folds::WindowFolds>>,
    room: Room,
    contents: BTreeMap<(usize, u64), Content>,
    incomplete: Vec<(usize, u64, String)>,
}

/// The message of a node to the coordinator, as plain data. What serde skips are further items of the message.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    pub node: Machine,
    /// Distinguishes the agent of the node from earlier ones: the greater is the newer.
    pub incarnation: u64,
    /// Number of the report of this incarnation, from 0.
    pub sequence: u64,
    /// The time up to which all its processes were observed, and that of the one that was observed furthest;
    /// `None` without processes.
    pub observed: Option<(Time, Time)>,
    /// In the order in which the node got them.
    #[serde(skip)]
    pub observations: Vec<Observation>,
    /// Aggregates of the hits since the last report.
    #[serde(skip)]
    pub partials: Vec<Partial>,
    /// Its parts of windows of a length.
    #[serde(skip)]
    pub(super) parts: Vec<TimedPart>,
    /// For each rule, the time up to which the hits that the node folds have been placed.
    pub settled: Vec<Option<Time>>,
    /// For each rule, what was left out since the last report.
    pub dropped: Vec<Dropped>,
    pub(super) incomplete: Vec<(RuleId, usize, u64, String)>,
    pub(super) late: Vec<(RuleId, Time)>,
}

/// A node's aggregates for one instance of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    pub rule: RuleId,
    /// The window's index in the file.
    pub window: usize,
    pub index: u64,
    #[serde(skip)]
    pub(super) content: Content,
}

impl Partial {
    /// The number of aggregates: one for each process and fold, or for each of their rows.
    pub fn states(&self) -> usize {
        self.content.states()
    }
}

/// The message of the coordinator to its nodes: which instances began and ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    pub(super) rules: Vec<Scheduled>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Scheduled {
    /// The time up to which everything is known.
    pub(super) reach: Option<Time>,
    /// For each window, the instances that may not be settled everywhere.
    pub(super) windows: Vec<Vec<Entry>>,
    /// The windows of a length of which not all parts are here, in the order in which they closed.
    pub(super) timed: Vec<TimedEntry>,
}

impl Scheduled {
    /// Bytes of its memory, at most.
    pub(super) fn bytes(&self) -> usize {
        let text = |entry: &Entry| match &entry.key {
            Some(Key::Text(text)) => text.len(),
            _ => 0,
        };
        let of_window = |entries: &Vec<Entry>| {
            let texts: usize = entries.iter().map(text).sum();
            size_of::<Vec<Entry>>() + entries.capacity() * size_of::<Entry>() + texts
        };
        let timed = self.timed.capacity() * size_of::<TimedEntry>();
        size_of::<Scheduled>() + timed + self.windows.iter().map(of_window).sum::<usize>()
    }
}

impl Instances for Kept {
    fn take(&mut self, window: usize, index: u64, probe: usize, hit: &Hit) {
        let folds = self.folds.get(window).cloned().unwrap_or_default();
        let content = self.contents.entry((window, index));
        let content = content.or_insert_with(|| Content::new(folds, self.room));
        let had_room = content.has_room();
        content.take(probe, hit);
        if had_room && !content.has_room() {
            self.mark_incomplete(window, index, MORE_THAN_KEPT);
        }
    }

    fn mark_incomplete(&mut self, window: usize, index: u64, reason: &str) {
        self.incomplete.push((window, index, reason.to_string()));
    }
}

impl Node {
    /// A node for the rules of the coordinator's engine, in the same order. `incarnation` is greater than that
    /// of each earlier agent of the machine.
    pub fn new(machine: Machine, incarnation: u64, rules: Vec<CheckedRule>) -> Node {
        Node {
            machine,
            incarnation,
            rules: rules.iter().map(Local::new).collect(),
            ..Node::default()
        }
    }

    /// A process of this node exists from `now` on. It must be the time of [`crate::Engine::process_joined`],
    /// which informs the coordinator.
    pub fn process_joined(&mut self, process: ProcessId, facts: ProcessFacts, now: Time) {
        self.forget(process);
        for local in &mut self.rules {
            for (role, members) in local.rule.roles.iter().zip(&mut local.roles) {
                if role.has(&facts) {
                    members.insert(process);
                }
            }
        }
        let known = Process {
            host: facts.host.as_deref().map(Arc::from),
            facts,
            joined: now,
            left: None,
        };
        self.processes.insert(process, known);
        self.make_room();
    }

    /// A process of this node has ended. Call it before a watermark of the process that is later, and with the
    /// time of [`crate::Engine::process_left`].
    pub fn process_left(&mut self, process: ProcessId, now: Time) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.left.get_or_insert(now);
        }
    }

    fn forget(&mut self, process: ProcessId) {
        if self.processes.remove(&process).is_some() {
            self.samples.drop_process(process);
            self.watermarks.remove(&process);
            for local in &mut self.rules {
                local.roles.iter_mut().for_each(|members| {
                    members.remove(&process);
                });
            }
        }
    }

    fn make_room(&mut self) {
        let room = Room::of(self.processes.len());
        self.rules.iter_mut().for_each(|local| local.kept.room = room);
    }

    /// Takes a measurement of this node or of one of its processes.
    pub fn observe(&mut self, observation: Observation) {
        let is_passed = match &observation {
            Observation::Hit { rule, probe, .. } => return self.hit(rule.0, probe.0, observation),
            Observation::Watermark { process, time } => {
                let known = self.watermarks.entry(*process).or_insert(*time);
                *known = (*known).max(*time);
                return;
            }
            Observation::ProbeTotals { rule, probe, .. } => {
                self.samples.observe(&observation);
                let local = self.rules.get(rule.0);
                local.is_some_and(|local| local.timed.passes_hits.get(probe.0) == Some(&true))
            }
            // Of the measurements of processes, the coordinator needs some.
            Observation::Counter {
                of: Subject::Process(_),
                measure,
                ..
            }
            | Observation::Gauge {
                of: Subject::Process(_),
                measure,
                ..
            } => {
                self.samples.observe(&observation);
                let mut rules = self.rules.iter();
                rules.any(|local| local.timed.passed.contains(measure))
            }
            _ => true,
        };
        if is_passed {
            self.observations.push(observation);
        }
    }

    fn hit(&mut self, rule: usize, probe: usize, observation: Observation) {
        let Observation::Hit { process, time, .. } = observation else {
            return;
        };
        let (Some(known), Some(local)) = (self.processes.get(&process), self.rules.get_mut(rule)) else {
            return;
        };
        let by_key = local.by_key.has(probe);
        let is_passed = local.timed.passes_hits.get(probe) == Some(&true);
        let watermark = self.watermarks.get(&process).copied();
        // Iterations of the detected loop are known later than they end.
        if local.is_ordered && !by_key && !local.rule.follows_loop() && watermark >= Some(time) {
            return local.leave_out(time);
        }
        if is_passed || (local.is_ordered && !by_key) {
            self.observations.push(observation.clone());
        }
        if !by_key && is_passed {
            return;
        }
        let captures = local.captures.get(probe);
        let Some(hit) = captures.and_then(|captures| known.hit(captures, observation)) else {
            return;
        };
        if !is_passed && local.timed.has_windows() {
            self.samples
                .hit((RuleId(rule), ProbeId(probe), process), hit.clone());
        }
        if by_key {
            local.take(watermark, Arrived { probe, hit });
        }
    }

    /// Takes a schedule of the coordinator. An outdated one changes nothing.
    pub fn learn(&mut self, schedule: &Schedule) {
        let observed = Observed {
            processes: &self.processes,
            samples: &self.samples,
            room: Room::of(self.processes.len()),
        };
        for (index, (local, scheduled)) in self.rules.iter_mut().zip(&schedule.rules).enumerate() {
            for entry in &scheduled.timed {
                local.compute(RuleId(index), observed, *entry);
            }
            for (table, entries) in local.tables.iter_mut().zip(&scheduled.windows) {
                entries.iter().for_each(|entry| table.learn(entry));
            }
            local.reach = local.reach.max(scheduled.reach);
            if let Some(reach) = local.reach {
                let (keyed_intake, dropped) = (&mut local.keyed_intake, &mut local.dropped);
                keyed_intake.settle(reach, &local.by_key, &mut local.tables, dropped, &mut local.kept);
            }
        }
        let begins = self
            .rules
            .iter()
            .flat_map(|local| &local.next)
            .map(|(_, begin)| *begin);
        if let Some(floor) = begins.min() {
            self.samples.forget(floor);
            let gone = self
                .processes
                .iter()
                .filter(|(_, known)| known.left.is_some_and(|left| left < floor));
            let gone: Vec<ProcessId> = gone.map(|(process, _)| *process).collect();
            gone.into_iter().for_each(|process| self.forget(process));
        }
    }

    fn observed(&self) -> Option<(Time, Time)> {
        let there = self.processes.iter().filter(|(_, known)| known.left.is_none());
        let observed = |(process, known): (&ProcessId, &Process)| {
            self.watermarks.get(process).copied().unwrap_or(known.joined)
        };
        let (least, greatest) = (there.clone().map(observed).min(), there.map(observed).max());
        least.zip(greatest)
    }

    /// Everything to be passed on since the last report.
    pub fn report(&mut self) -> Report {
        let mut report = Report {
            node: self.machine,
            incarnation: self.incarnation,
            sequence: self.reports,
            observed: self.observed(),
            observations: std::mem::take(&mut self.observations),
            settled: self.rules.iter().map(Local::settled).collect(),
            ..Report::default()
        };
        self.reports += 1;
        for (rule, local) in self
            .rules
            .iter_mut()
            .enumerate()
            .map(|(at, local)| (RuleId(at), local))
        {
            let partial = |((window, index), content)| Partial {
                rule,
                window,
                index,
                content,
            };
            let contents = local.settled_contents(&self.processes);
            report.partials.extend(contents.into_iter().map(partial));
            report.parts.append(&mut local.parts);
            let incomplete = local.kept.incomplete.drain(..);
            report
                .incomplete
                .extend(incomplete.map(|(window, index, reason)| (rule, window, index, reason)));
            report.late.extend(local.late.drain(..).map(|time| (rule, time)));
            report.dropped.push(std::mem::take(&mut local.dropped));
        }
        report
    }
}

impl Local {
    fn new(rule: &CheckedRule) -> Local {
        Local {
            roles: vec![BTreeSet::new(); rule.roles.len()],
            captures: rule.probes.iter().map(Captures::of).collect(),
            by_key: ByKey::of(rule),
            timed: TimedPlan::of(rule),
            is_ordered: rule.windows.iter().any(|window| window.boundaries().is_some())
                || !rule.joins.is_empty(),
            next: vec![(0, Time(0)); rule.windows.len()],
            tables: rule.windows.iter().map(|_| InstanceTable::default()).collect(),
            kept: Kept {
                folds: rule.folds.clone(),
                ..Kept::default()
            },
            rule: Arc::new(rule.clone()),
            parts: Vec::new(),
            keyed_intake: KeyedIntake::default(),
            reach: None,
            late: Vec::new(),
            dropped: Dropped::default(),
        }
    }

    /// The time up to which its hits have been placed. Those of windows of a length need no place.
    fn settled(&self) -> Option<Time> {
        match self.is_ordered {
            true => self.reach,
            false => Some(Time(u64::MAX)),
        }
    }

    /// A hit of this time came late.
    fn leave_out(&mut self, time: Time) {
        self.dropped.late += 1;
        self.late.push(time);
    }

    /// Takes a hit that carries the key of its instance.
    fn take(&mut self, watermark: Option<Time>, arrived: Arrived) {
        let time = arrived.hit.time;
        if self.reach.max(watermark) >= Some(time) {
            self.leave_out(time);
        } else if !self.keyed_intake.push(arrived, self.kept.room) {
            self.dropped.overflow += 1;
            self.late.push(time);
        }
    }

    /// Computes its part of a window of a length, once.
    fn compute(&mut self, id: RuleId, observed: Observed<'_>, entry: TimedEntry) {
        let Some((next, begin)) = self.next.get_mut(entry.window) else {
            return;
        };
        if entry.index < *next {
            return;
        }
        (*next, *begin) = (entry.index.saturating_add(1), entry.span.1);
        let rule = TimedRule {
            id,
            rule: &self.rule,
            plan: &self.timed,
            roles: &self.roles,
        };
        self.parts.push(rule.part(observed, entry));
    }

    /// The contents of the instances that are over, or no longer known, with one row for all processes that were
    /// there from the begin, where no formula needs the row of each.
    fn settled_contents(
        &mut self,
        processes: &BTreeMap<ProcessId, Process>,
    ) -> BTreeMap<(usize, u64), Content> {
        let tables = &self.tables;
        let entry = |(window, index): (usize, u64)| tables.get(window).and_then(|table| table.get(index));
        let goes_on = |of: &(usize, u64)| entry(*of).is_some_and(|entry| entry.over.is_none());
        let all = std::mem::take(&mut self.kept.contents);
        let (open, mut over): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(of, _)| goes_on(of));
        for (of, content) in &mut over {
            if let Some(begun) = entry(*of).map(|entry| entry.begun) {
                content.collapse(|process| {
                    let known = processes.get(&process);
                    known.is_some_and(|known| known.joined <= begun && known.left.is_none())
                });
            }
        }
        self.kept.contents = open;
        over
    }
}
