//! The part of the evaluation on the nodes of the processes: hits go in, partial results come out.
//!
//! Only tests use this module today: node agents are not built (docs/decisions/0010). Sessions evaluate all
//! rules in one engine on one machine.
//!
//! A node agent would pass observations of its own processes to its [`Node`], and from time to time the
//! resulting [`Report`] to the coordinator's [`Engine`](crate::Engine). Hits that carry the key of their
//! instance are folded here, so that a report has one state for each instance, process and fold, for any
//! number of hits. Boundaries, joins, hits placed by time, and measures are passed on, because only the
//! coordinator knows their order.
//!
//! Only the coordinator knows when instances began and ended. It sends a [`Schedule`]: up to the schedule's
//! reach, a node knows the instance of each of its hits, and reports that time. Reports and schedules may
//! arrive twice, late and in any order; a report that never arrives is a loss. An agent that was restarted
//! knows nothing of the hits of the one before it: it has a greater incarnation, and numbers its reports from 0.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::capture::Captures;
use super::instance_table::{Entry, InstanceTable};
use super::keyed_intake::{ByKey, Instances, KeyedIntake};
use super::output::{Dropped, Observation};
use super::relay::Acknowledged;
use super::stream::Arrived;
use crate::eval::partial::{Content, MORE_THAN_KEPT, Room};
use crate::facts::ProcessFacts;
use crate::hit::Hit;
use crate::ids::{ProbeId, RuleId};
use crate::rule::CheckedRule;
use crate::term::Term;
use crate::value::{Key, Machine, ProcessId, Reads, Time};

/// Evaluates the parts of rules that can be evaluated on the node of the processes.
#[derive(Clone, Debug, Default)]
pub struct Node {
    machine: Machine,
    incarnation: u64,
    rules: Vec<Local>,
    processes: BTreeMap<ProcessId, ProcessPlace>,
    watermarks: BTreeMap<ProcessId, Time>,
    /// Observations that are passed on unchanged.
    observations: Vec<Observation>,
    reports: u64,
}

#[derive(Clone, Debug)]
struct ProcessPlace {
    rank: Option<u32>,
    host: Option<Arc<str>>,
}

/// A node's state of one rule.
#[derive(Clone, Debug, Default)]
struct Local {
    captures: Vec<Captures>,
    by_key: ByKey,
    /// For each probe, whether a timed window needs its hits: the coordinator selects them.
    of_time: Vec<bool>,
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

/// The message of a node to the coordinator, as plain data.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Report {
    pub node: Machine,
    /// Distinguishes the agent of the node from earlier ones: the greater is the newer.
    pub incarnation: u64,
    /// Number of the report of this incarnation, from 0.
    pub sequence: u64,
    /// In the order in which the node got them.
    pub observations: Vec<Observation>,
    /// Aggregates of the hits since the last report.
    pub partials: Vec<Partial>,
    /// For each rule, the time up to which the hits that the node folds have been placed.
    pub settled: Vec<Option<Time>>,
    /// For each rule, what was left out since the last report.
    pub dropped: Vec<Dropped>,
    pub(super) incomplete: Vec<(RuleId, usize, u64, String)>,
    pub(super) late: Vec<(RuleId, Time)>,
}

/// A node's aggregates for one instance of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    pub rule: RuleId,
    /// The window's index in the file.
    pub window: usize,
    pub index: u64,
    pub(super) content: Content,
}

impl Partial {
    /// The number of aggregates: one for each process and fold, or for each of their rows.
    pub fn states(&self) -> usize {
        self.content.states()
    }
}

/// The message of the coordinator to its nodes: which reports it has, and which instances began and ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    pub(super) acknowledged: Vec<Acknowledged>,
    pub(super) rules: Vec<Scheduled>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Scheduled {
    /// The time up to which everything is known.
    pub(super) reach: Option<Time>,
    /// For each window, the instances that may not be settled everywhere.
    pub(super) windows: Vec<Vec<Entry>>,
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
        size_of::<Scheduled>() + self.windows.iter().map(of_window).sum::<usize>()
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

    /// A process of this node joined. [`crate::Engine::process_joined`] informs the coordinator.
    pub fn process_joined(&mut self, process: ProcessId, facts: &ProcessFacts) {
        let known = ProcessPlace {
            rank: facts.rank,
            host: facts.host.as_deref().map(Arc::from),
        };
        self.watermarks.remove(&process);
        self.processes.insert(process, known);
        let room = Room::of(self.processes.len());
        self.rules.iter_mut().for_each(|local| local.kept.room = room);
    }

    /// Takes a measurement of this node or of one of its processes.
    pub fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Hit {
                rule: RuleId(rule),
                probe: ProbeId(probe),
                process,
                ..
            } if self.folds(rule, probe) => {
                let Some(known) = self.processes.get(&process) else {
                    return;
                };
                let of_time = self.rules.get(rule).and_then(|local| local.of_time.get(probe));
                if of_time == Some(&true) {
                    self.observations.push(observation.clone());
                }
                let watermark = self.watermarks.get(&process).copied();
                if let Some(local) = self.rules.get_mut(rule) {
                    local.take(probe, known, watermark, observation);
                }
            }
            Observation::Watermark { process, time } => {
                let known = self.watermarks.entry(process).or_insert(time);
                *known = (*known).max(time);
                self.observations.push(observation);
            }
            other => self.observations.push(other),
        }
    }

    fn folds(&self, rule: usize, probe: usize) -> bool {
        self.rules.get(rule).is_some_and(|local| local.by_key.has(probe))
    }

    /// Takes a schedule of the coordinator. An outdated one changes nothing.
    pub fn learn(&mut self, schedule: &Schedule) {
        for (local, scheduled) in self.rules.iter_mut().zip(&schedule.rules) {
            for (table, entries) in local.tables.iter_mut().zip(&scheduled.windows) {
                entries.iter().for_each(|entry| table.learn(entry));
            }
            local.reach = local.reach.max(scheduled.reach);
            if let Some(reach) = local.reach {
                let (keyed_intake, dropped) = (&mut local.keyed_intake, &mut local.dropped);
                keyed_intake.settle(reach, &local.by_key, &mut local.tables, dropped, &mut local.kept);
            }
        }
    }

    /// Everything to be passed on since the last report.
    pub fn report(&mut self) -> Report {
        let mut report = Report {
            node: self.machine,
            incarnation: self.incarnation,
            sequence: self.reports,
            observations: std::mem::take(&mut self.observations),
            settled: self.rules.iter().map(|local| local.reach).collect(),
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
            let contents = std::mem::take(&mut local.kept.contents);
            report.partials.extend(contents.into_iter().map(partial));
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

/// Whether a timed window needs the hits of a probe, whose statistics are those between two totals.
pub(super) fn is_of_time(rule: &CheckedRule, probe: usize) -> bool {
    let windows = rule.windows.iter().zip(&rule.folds);
    let mut timed = windows.filter(|(window, _)| window.boundaries().is_none());
    let mut found = timed.any(|(_, folds)| folds.uses(probe));
    for formula in (0..rule.windows.len()).flat_map(|place| rule.formulas_of(place)) {
        formula.visit(&mut |term| found |= matches!(term, Term::Hits { probe: of, .. } if *of == probe));
    }
    found
}

impl Local {
    fn new(rule: &CheckedRule) -> Local {
        Local {
            captures: rule.probes.iter().map(Captures::of).collect(),
            by_key: ByKey::of(rule),
            of_time: (0..rule.probes.len())
                .map(|probe| is_of_time(rule, probe))
                .collect(),
            tables: rule.windows.iter().map(|_| InstanceTable::default()).collect(),
            kept: Kept {
                folds: rule.folds.clone(),
                ..Kept::default()
            },
            ..Local::default()
        }
    }

    fn take(
        &mut self,
        probe: usize,
        known: &ProcessPlace,
        watermark: Option<Time>,
        observation: Observation,
    ) {
        let Observation::Hit {
            process,
            thread,
            time,
            duration_ns,
            captures,
            ..
        } = observation
        else {
            return;
        };
        if self.reach.max(watermark) >= Some(time) {
            self.dropped.late += 1;
            self.late.push(time);
            return;
        }
        let captures = self
            .captures
            .get(probe)
            .map_or_else(Reads::new, |made| made.made(captures));
        let hit = Hit {
            time,
            process,
            rank: known.rank,
            host: known.host.clone(),
            thread,
            duration_ns,
            captures,
        };
        if !self.keyed_intake.push(Arrived { probe, hit }, self.kept.room) {
            self.dropped.overflow += 1;
            self.late.push(time);
        }
    }
}
