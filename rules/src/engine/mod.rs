//! The engine: observations go in, decisions, findings and verdicts come out.
//!
//! Deterministic and pure: time is an argument of [`Engine::tick`], nothing is iterated in an order that is
//! not fixed, and the only result is a list of outputs. A window closes at the first tick on or after its end
//! and lasts until that tick: its `duration` is the actual one, and the next window begins there.
//!
//! This file has the engine's state. `processes`: who joined and left; `observe`: incoming observations;
//! `tune_status`: status for users.

mod advance;
mod capture;
mod close;
mod content;
mod decide;
mod hit_placement;
mod holds;
mod initial;
mod instance;
mod join;
mod keyed_intake;
mod ledger;
mod live;
mod nest;
mod node;
mod observe;
mod output;
mod pending_sums;
mod phase;
mod placement;
mod planned_sums;
mod processes;
mod remote;
mod samples;
mod series;
mod stream;
#[cfg(test)]
mod tests;
mod track;
mod trial;
mod tune;
mod tune_status;
mod tune_trial;
mod turn;
mod variables;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ::plan::Mode;
use advance::{Awaiting, Inside};
use capture::Captures;
use close::Evaluated;
use join::Joiner;
use keyed_intake::{ByKey, KeyedIntake};
pub use live::Conflict;
use nest::Nesting;
pub use node::{Node, Partial, Report, Schedule};
pub use output::{
    ClosedWindow, Decision, DecisionOutcome, Dropped, Finding, FindingState, LeftOut, Observation, Output,
    ProcessAction, Standing, TrialProgress, TuneStatus, Verdict,
};
use pending_sums::PendingSums;
pub use placement::{PlacedFold, Placement};
use remote::Remote;
use samples::Samples;
use stream::Stream;
use track::Track;
use tune::TuneState;
use variables::Variables;

use crate::eval::called::Past;
use crate::eval::partial::{Content, Past as Contents};
use crate::eval::run::RunState;
use crate::facts::ProcessFacts;
use crate::folds::WindowFolds;
use crate::ids::{DecisionId, RuleId};
use crate::rule::CheckedRule;
use crate::value::{Machine, ProcessId, Time};
use crate::window::{Window, WindowKind};

/// Evaluates rules on what is observed of a job.
#[derive(Clone, Debug)]
pub struct Engine {
    rules: Vec<Running>,
    processes: BTreeMap<ProcessId, Process>,
    /// Of them, when those that have not left joined, and the ranks of all: read at every tick, changed
    /// seldom.
    joined: Arc<BTreeMap<ProcessId, Time>>,
    ranks: Arc<BTreeMap<ProcessId, u32>>,
    /// The nodes that hand in what they fold by themselves.
    nodes: BTreeMap<Machine, Remote>,
    samples: Samples,
    variables: Arc<Variables>,
    decisions: u64,
    /// The windows that closed and were not taken yet, the newest last.
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
    keyed_intake: KeyedIntake,
    by_key: ByKey,
    /// What was added up of hits, and waits for its instance.
    partial_sums: PendingSums,
    /// For each probe what is made of what it reads.
    captures: Vec<Captures>,
    /// The probes that no process has, and what they are in, for people: nothing that is made of their hits has a value.
    absent: BTreeMap<usize, String>,
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
    /// For each window the instance that closed last, and the processes that were left out of it, or that it
    /// had none.
    last: Vec<Option<Arc<Evaluated>>>,
    left_out: Vec<String>,
    saw_no_process: bool,
    /// Somebody was in one of them.
    had_processes: bool,
    /// Windows that closed and were evaluated.
    closed: u64,
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
const CLOSED_MAX: usize = 1024;

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
            variables: Arc::default(),
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

    /// Which of its probes a rule has in no process, each with what is said of that.
    pub fn lacks(&mut self, rule: RuleId, absent: BTreeMap<usize, String>) {
        if let Some(running) = self.rules.get_mut(rule.0) {
            running.absent = absent;
        }
    }

    /// Sets what a rule may do. Applying takes tunes off hold; leaving it gives up a change that is still on
    /// trial: the verdict says to revert it. Switching off closes findings.
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

    /// Whether a decision waits for its receipt. False once it was given up: it grew stale, or its rule was
    /// switched or removed.
    pub fn awaits(&self, decision: DecisionId) -> bool {
        let mut tunes = self.rules.iter().flat_map(|running| &running.tunes);
        tunes.any(|tune| tune.awaits(decision))
    }

    /// What came of a decision; `Applied` starts its guard's trial.
    ///
    /// False if no such decision is waiting: it was given up when its rule was switched, and what was written
    /// is to be reverted.
    pub fn receipt(&mut self, decision: DecisionId, outcome: DecisionOutcome, now: Time) -> bool {
        for running in &mut self.rules {
            for (tune, checked) in running.tunes.iter_mut().zip(&running.rule.tunes) {
                if tune.receipt(decision, &outcome, checked, now) {
                    return true;
                }
            }
        }
        false
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
