//! The engine: observations go in, decisions, findings and verdicts come out.
//!
//! Deterministic and pure: time is what [`Engine::tick`] is told, nothing is iterated in an order that is not fixed,
//! and nothing is done but to say what should be. A window closes at the first tick on or after its end and lasts
//! until that tick: its `duration` is the actual one, and the next window begins there.

mod advance;
mod capture;
mod close;
mod content;
mod decide;
mod desk;
mod holds;
mod initial;
mod instance;
mod join;
mod ledger;
mod live;
mod nest;
mod node;
mod output;
mod passing;
mod phase;
mod placement;
mod remote;
mod samples;
mod stream;
mod tallied;
mod tallies;
#[cfg(test)]
mod tests;
mod track;
mod trial;
mod tune;
mod turn;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use advance::{Awaiting, Inside};
use capture::Captures;
use close::Evaluated;
use desk::{ByKey, Desk};
use join::Joiner;
pub use live::Conflict;
use nest::Nesting;
pub use node::{Node, NodeId, Partial, Report, Schedule};
pub use output::{
    Change, ClosedWindow, Decision, DecisionId, Dropped, Finding, FindingState, Mode, Observation, Outcome,
    Output, ProbeId, Reading, RuleId, Standing, TuneStatus, Verdict,
};
pub use placement::{PlacedFold, Placement};
use remote::Remote;
use samples::Samples;
use stream::{Arrived, Stream};
use tallies::Tallies;
use track::Track;
use tune::TuneState;

use crate::calls::Past;
use crate::facts::ProcessFacts;
use crate::hit::Hit;
use crate::partial::{Content, Past as Contents, WindowFolds};
use crate::rule::{CheckedRule, Window, WindowKind};
use crate::run::RunState;
use crate::value::{ProcessId, Time};

/// Evaluates rules on what is observed of a job.
#[derive(Clone, Debug)]
pub struct Engine {
    rules: Vec<Running>,
    processes: BTreeMap<ProcessId, Process>,
    /// Of them, when those that have not left joined, and the ranks of all: asked at every tick, changed seldom.
    joined: Arc<BTreeMap<ProcessId, Time>>,
    ranks: Arc<BTreeMap<ProcessId, u32>>,
    /// The nodes that hand in what they fold by themselves.
    nodes: BTreeMap<NodeId, Remote>,
    samples: Samples,
    decisions: u64,
    /// The windows that closed and were not asked for yet, the newest last.
    closed: VecDeque<Arc<Evaluated>>,
}

/// A rule with what has become of it.
#[derive(Clone, Debug)]
struct Running {
    /// Never changed: copies of an engine share it.
    rule: Arc<CheckedRule>,
    mode: Mode,
    /// Hits before this moment are not its.
    since: Time,
    is_removed: bool,
    /// For each window what of it is open.
    windows: Vec<Open>,
    nesting: Nesting,
    /// There is a window of a length; one from probe to probe, or pairs of hits.
    timed: bool,
    probed: bool,
    /// Hits that windows from probe to probe wait for, and those that need no order.
    stream: Stream,
    desk: Desk,
    by_key: ByKey,
    /// What was added up of hits, and waits for its instance.
    tallies: Tallies,
    /// For each probe what is made of what it reads.
    captures: Vec<Captures>,
    /// Instances that are over and wait for what nodes have of them.
    awaiting: VecDeque<Awaiting>,
    /// For each window what is kept of its closed instances.
    contents: Vec<Contents>,
    /// For each window its metrics in those that closed before, the newest last.
    history: Vec<Vec<Past>>,
    /// For each window around others the instances of those that closed within its open ones.
    inner: Vec<Inside>,
    /// Folds over every window.
    runs: Vec<RunState>,
    /// For each join the hits that wait for their second.
    joiners: Vec<Joiner>,
    /// For each role its processes.
    roles: Vec<BTreeSet<ProcessId>>,
    tunes: Vec<TuneState>,
    /// For each window the instance that closed last, and who was left out of the last of all, or that nobody was in it.
    last: Vec<Option<Arc<Evaluated>>>,
    left_out: Vec<String>,
    saw_nobody: bool,
    /// Somebody was in one of them.
    had_processes: bool,
}

/// What is open of a window.
#[derive(Clone, Debug)]
enum Open {
    Timed {
        since: Time,
        index: u64,
        /// What is made of the pairs of hits that became known in it.
        pairs: Arc<Content>,
        /// Why they cannot be all.
        spoiled: Option<String>,
    },
    Probed(Box<Track>),
    /// At work, among the others.
    Busy,
}

#[derive(Clone, Debug)]
struct Process {
    facts: ProcessFacts,
    host: Option<Arc<str>>,
    joined: Time,
    left: Option<Time>,
}

/// Closed windows kept for [`Engine::drain_windows`].
const MOST_CLOSED: usize = 1024;

impl Engine {
    /// An engine for `rules`, all of them advising, whose first windows begin at `now`.
    ///
    /// # Errors
    /// When two rules have one name or change the same thing.
    pub fn new(rules: Vec<CheckedRule>, now: Time) -> Result<Engine, Conflict> {
        let mut engine = Engine {
            rules: Vec::new(),
            processes: BTreeMap::new(),
            joined: Arc::default(),
            ranks: Arc::default(),
            nodes: BTreeMap::new(),
            samples: Samples::default(),
            decisions: 0,
            closed: VecDeque::new(),
        };
        for rule in rules {
            engine.add(rule, now)?;
        }
        // Nothing was observed before: whatever comes is theirs.
        engine
            .rules
            .iter_mut()
            .for_each(|running| running.since = Time(0));
        Ok(engine)
    }

    /// A process of the job is there from `now` on. One with the number of an earlier one takes its place.
    ///
    /// It counts in the windows that begin at `now` or later.
    pub fn process_joined(&mut self, process: ProcessId, facts: ProcessFacts, now: Time) {
        self.forget(process);
        self.processes.insert(
            process,
            Process {
                host: facts.host.as_deref().map(Arc::from),
                facts: facts.clone(),
                joined: now,
                left: None,
            },
        );
        self.count();
        self.assign(process, &facts);
    }

    /// More is known of a process: its roles are decided again. Nothing happens for one that never joined.
    pub fn process_learned(&mut self, process: ProcessId, facts: ProcessFacts) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.facts = facts.clone();
            known.host = facts.host.as_deref().map(Arc::from);
            self.count();
            self.assign(process, &facts);
        }
    }

    /// A process has ended. It does not count in the windows open at `now`.
    pub fn process_left(&mut self, process: ProcessId, now: Time) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.left.get_or_insert(now);
            self.count();
        }
    }

    /// Processes have come, gone, or are known better.
    fn count(&mut self) {
        let there = self
            .processes
            .iter()
            .filter(|(_, process)| process.left.is_none());
        self.joined = Arc::new(there.map(|(id, process)| (*id, process.joined)).collect());
        let rank = |(id, process): (&ProcessId, &Process)| Some((*id, process.facts.rank?));
        self.ranks = Arc::new(self.processes.iter().filter_map(rank).collect());
    }

    fn assign(&mut self, process: ProcessId, facts: &ProcessFacts) {
        self.rules
            .iter_mut()
            .for_each(|running| running.assign(process, facts));
    }

    fn forget(&mut self, process: ProcessId) {
        self.processes.remove(&process);
        self.count();
        self.samples.drop_process(process);
        for running in &mut self.rules {
            running.roles.iter_mut().for_each(|members| {
                members.remove(&process);
            });
            running.stream.forget(process);
            running.tallies.forget(process);
            running.tunes.iter_mut().for_each(|tune| tune.forget(process));
        }
    }

    /// Takes a measurement. One of a process or a probe that is not known is ignored.
    pub fn observe(&mut self, observation: Observation) {
        self.observe_of(observation, false);
    }

    /// `elsewhere` if a node handed it on, which folds by itself what it can.
    fn observe_of(&mut self, observation: Observation, elsewhere: bool) {
        let known =
            |process: Option<ProcessId>| process.is_none_or(|process| self.processes.contains_key(&process));
        let probed = |rule: RuleId, probe: ProbeId, process: ProcessId| {
            known(Some(process))
                && self
                    .rules
                    .get(rule.0)
                    .is_some_and(|running| probe.0 < running.rule.probes.len())
        };
        match observation {
            Observation::Counter {
                process,
                measure,
                time,
                total,
            } if known(process) => {
                self.samples.counter(process, measure, time, total);
            }
            Observation::CallCounter {
                process,
                measure,
                call,
                time,
                total,
            } if known(Some(process)) => {
                self.samples.call((process, measure), &call, time, total);
            }
            Observation::Gauge {
                process,
                measure,
                time,
                value,
            } if known(process) && value.is_finite() => {
                self.samples.gauge(process, measure, time, value);
            }
            Observation::ProbeTotals {
                rule,
                probe,
                process,
                time,
                count,
                duration_sum_ns,
            } if probed(rule, probe, process) => {
                self.samples
                    .totals((rule, probe, process), time, (count, duration_sum_ns));
            }
            Observation::Hit { .. } => self.hit(observation, elsewhere),
            Observation::Tally {
                rule,
                probe,
                process,
                tally,
            } if probed(rule, probe, process) => {
                if let Some(running) = self.rules.get_mut(rule.0) {
                    running.take_tally(probe.0, process, &tally);
                }
            }
            Observation::Watermark { process, time } if known(Some(process)) => {
                let streams = self.rules.iter_mut().map(|running| &mut running.stream);
                streams.for_each(|stream| stream.watermark(process, time));
            }
            Observation::Lost { process, from, to } if known(Some(process)) => {
                for running in &mut self.rules {
                    running.stream.lose(from, to);
                    running.joiners.iter_mut().for_each(Joiner::clear);
                    running.spoil(to, "hits were lost in it");
                }
            }
            Observation::Counter { .. }
            | Observation::CallCounter { .. }
            | Observation::Gauge { .. }
            | Observation::ProbeTotals { .. }
            | Observation::Tally { .. }
            | Observation::Watermark { .. }
            | Observation::Lost { .. } => {}
        }
    }

    /// Puts a hit where the windows of its rule look for it.
    fn hit(&mut self, hit: Observation, elsewhere: bool) {
        let Observation::Hit {
            rule,
            probe,
            process,
            thread,
            time,
            duration_ns,
            captures,
        } = hit
        else {
            return;
        };
        let (Some(running), Some(known)) = (self.rules.get_mut(rule.0), self.processes.get(&process)) else {
            return;
        };
        let Some(made) = running.captures.get(probe.0).filter(|_| time >= running.since) else {
            return;
        };
        let hit = Hit {
            time,
            process,
            rank: known.facts.rank,
            host: known.host.clone(),
            thread,
            duration_ns,
            captures: made.made(captures),
        };
        if running.timed {
            self.samples.hit((rule, probe, process), hit.clone());
        }
        if running.probed {
            running.take(probe.0, hit, elsewhere);
        }
    }

    /// Sets what a rule may do. Applying takes tunes off hold; leaving it gives up a change that is still on trial:
    /// the verdict says to undo it. Switching off closes findings.
    pub fn set_mode(&mut self, rule: RuleId, mode: Mode) -> Vec<Output> {
        let Some(running) = self.rules.get_mut(rule.0) else {
            return Vec::new();
        };
        running.mode = mode;
        let mut out = Vec::new();
        for (place, (tune, checked)) in running.tunes.iter_mut().zip(&running.rule.tunes).enumerate() {
            out.extend(tune.set_mode(rule, place, mode, checked));
        }
        out
    }

    /// Drops samples and ended processes that no open window can need.
    fn forget_the_past(&mut self, now: Time) {
        let floor = self.rules.iter().filter_map(Running::floor).min().unwrap_or(now);
        self.samples.forget(floor);
        self.rules
            .iter_mut()
            .for_each(|running| running.stream.forget_before(floor));
        let gone = self
            .processes
            .iter()
            .filter(|(_, process)| process.left.is_some_and(|left| left <= floor));
        let gone: Vec<ProcessId> = gone.map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|process| self.forget(process));
    }

    /// What came of a decision; `Applied` starts its guard's trial.
    ///
    /// False if no such decision is waiting: it was given up when its rule was switched, and what was written is to
    /// be undone.
    pub fn receipt(&mut self, decision: DecisionId, outcome: Outcome, now: Time) -> bool {
        for running in &mut self.rules {
            for (tune, checked) in running.tunes.iter_mut().zip(&running.rule.tunes) {
                if tune.receipt(decision, &outcome, checked, now) {
                    return true;
                }
            }
        }
        false
    }

    /// For every tune where it stands and why it does not act, in the order of rules and tunes.
    pub fn status(&self) -> Vec<TuneStatus> {
        let mut out = Vec::new();
        for (index, running) in self.rules.iter().enumerate() {
            for (place, (tune, checked)) in running.tunes.iter().zip(&running.rule.tunes).enumerate() {
                let label = checked.action.as_ref().map(|change| change.deed.label());
                let (standing, why) = tune.status(running.mode, checked);
                out.push(TuneStatus {
                    rule: RuleId(index),
                    rule_name: running.rule.name.clone(),
                    tune: place,
                    label: label.unwrap_or_else(|| "advice".to_string()),
                    standing,
                    why,
                    left_out: running.left_out.clone(),
                    saw_nobody: running.saw_nobody,
                    had_processes: running.had_processes,
                    had_value: tune.has_turned(),
                });
            }
        }
        out
    }

    /// The decisions that are being judged, each after how many windows of how many.
    pub fn on_trial(&self) -> Vec<(DecisionId, usize, u32)> {
        let tunes = |running: &'_ Running| -> Vec<_> {
            let tunes = running.tunes.iter().zip(&running.rule.tunes);
            tunes.flat_map(|(state, tune)| state.on_trial(tune)).collect()
        };
        self.rules.iter().flat_map(tunes).collect()
    }

    /// The findings there are, with the numbers of the last window, or of the last before a change.
    pub fn findings(&self) -> Vec<Finding> {
        self.rules
            .iter()
            .flat_map(|running| &running.tunes)
            .filter_map(TuneState::finding)
            .collect()
    }

    /// The rules, in the order of their [`RuleId`]s, without those that were removed.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &CheckedRule, Mode)> {
        let rules = self.rules.iter().enumerate();
        rules
            .filter(|(_, running)| !running.is_removed)
            .map(|(index, running)| (RuleId(index), &*running.rule, running.mode))
    }

    /// One of them; none if it was removed.
    pub fn rule(&self, rule: RuleId) -> Option<&CheckedRule> {
        let running = self.rules.get(rule.0).filter(|running| !running.is_removed);
        running.map(|running| &*running.rule)
    }

    /// The metrics of the window a rule closed last, each with its value as people read it or `none (reason)`.
    pub fn metrics(&self, rule: RuleId) -> Vec<(String, String)> {
        self.rules.get(rule.0).map_or_else(Vec::new, Running::shown)
    }

    /// The windows that a rule closed last, one of each that it has.
    pub fn last_windows(&self, rule: RuleId) -> Vec<ClosedWindow> {
        let running = self.rules.get(rule.0).into_iter();
        running
            .flat_map(|running| {
                running
                    .last
                    .iter()
                    .flatten()
                    .map(|over| over.shown(&running.rule))
            })
            .collect()
    }

    /// The windows that closed since this was last asked, in the order they were evaluated; the oldest are dropped
    /// where nobody asks.
    pub fn drain_windows(&mut self) -> Vec<ClosedWindow> {
        let rules = &self.rules;
        let shown = |over: Arc<Evaluated>| Some(over.shown(&rules.get(over.rule.0)?.rule));
        self.closed.drain(..).filter_map(shown).collect()
    }

    /// Those that closed until now are not asked for.
    pub fn forget_windows(&mut self) {
        self.closed.clear();
    }

    /// What of a rule's hits and windows was left out, since the beginning.
    pub fn dropped(&self, rule: RuleId) -> Dropped {
        self.rules
            .get(rule.0)
            .map_or_else(Dropped::default, |running| running.stream.dropped)
    }

    /// The processes that have a role of a rule: those its measures and probes are asked of, each with its roles.
    pub fn members(&self, rule: RuleId) -> BTreeMap<ProcessId, Vec<&str>> {
        let mut out: BTreeMap<ProcessId, Vec<&str>> = BTreeMap::new();
        if let Some(running) = self.rules.get(rule.0) {
            for (role, members) in running.rule.roles.iter().zip(&running.roles) {
                members
                    .iter()
                    .for_each(|process| out.entry(*process).or_default().push(&role.name));
            }
        }
        out
    }
}

fn open(window: &Window, folds: &Arc<WindowFolds>, now: Time) -> Open {
    match window.kind {
        WindowKind::Timed(_) => Open::Timed {
            since: now,
            index: 0,
            pairs: Arc::new(Content::new(Arc::clone(folds))),
            spoiled: None,
        },
        WindowKind::Probed(_) => Open::Probed(Box::new(Track::new(Arc::clone(folds)))),
    }
}

impl Open {
    fn track(&mut self) -> Option<&mut Track> {
        match self {
            Open::Probed(track) => Some(track),
            Open::Timed { .. } | Open::Busy => None,
        }
    }
}

impl Running {
    /// Decides which roles a process has.
    fn assign(&mut self, process: ProcessId, facts: &ProcessFacts) {
        for (role, members) in self.rule.roles.iter().zip(&mut self.roles) {
            if role.has(facts) {
                members.insert(process);
            } else {
                members.remove(&process);
            }
        }
    }

    /// Puts a hit where windows from probe to probe look for it.
    fn take(&mut self, probe: usize, hit: Hit, elsewhere: bool) {
        let by_key = self.by_key.has(probe);
        if by_key && elsewhere {
            return;
        }
        let time = hit.time;
        if self.stream.is_late(hit.process, time) {
            self.stream.dropped.late += 1;
            return self.spoil(time, "a hit came late");
        }
        let arrived = Arrived { probe, hit };
        if !by_key {
            self.stream.push(arrived);
        } else if !self.desk.push(arrived) {
            self.stream.overflow(time);
        }
    }

    /// Something is missing of this time: the instances that it could belong to are not complete.
    fn spoil(&mut self, time: Time, reason: &str) {
        for open in &mut self.windows {
            match open {
                Open::Probed(track) => track.spoil(time, reason),
                // Its pair would become known later than the hit.
                Open::Timed { spoiled, .. } => *spoiled = Some(reason.to_string()),
                Open::Busy => {}
            }
        }
        for Awaiting { due, .. } in &mut self.awaiting {
            let instance = due.instance();
            if instance.start() <= time {
                instance.spoil(reason);
            }
        }
    }

    /// Since when samples are needed; none if by no window.
    fn floor(&self) -> Option<Time> {
        let floor = |open: &Open| match open {
            Open::Busy => None,
            Open::Timed { since, .. } => Some(*since),
            Open::Probed(track) => track.floor().or(self.stream.frontier()),
        };
        let awaiting = self.awaiting.iter().map(|awaiting| awaiting.due.start());
        self.windows.iter().filter_map(floor).chain(awaiting).min()
    }
}
