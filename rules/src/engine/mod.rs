//! The engine: observations go in, decisions, findings and verdicts come out.
//!
//! Deterministic and pure: time is an argument of [`Engine::tick`], iteration orders are fixed, and the only
//! result is a list of outputs. A window closes at the first tick on or after its end and lasts until that
//! tick: its `duration` is the actual one, and the next window begins there.
//!
//! This file has the engine's state. The modules, in the order in which an observation passes through them:
//! - Processes and rules that come and go: `processes`, `live`.
//! - Intake: `observe` dispatches; `stream` orders the hits of a rule, `keyed_intake` and `join` those with keys;
//!   `capture` computes captured values; `samples` and `series` keep what is sampled.
//! - Placing hits in windows: `advance`, `track` (windows from probe to probe), `instance`, `instance_table`, `extent`,
//!   `nest`, `iteration`, `hit_placement`.
//! - Closing windows: `close`, `window`, `pending_sums`; `unsampled` says why a sample gave no value.
//! - Tunes: `tune` is the state of one; `holds` is its condition, `decide` its decision, `initial` its first values;
//!   `phase`, `trial`, `tune_trial` and `turn` are its trial; `variables` are the values that the program has.
//! - Results: `output`, and `tune_status` for display.
//! - Aggregation at the probe: `planned_sums` and `not_summed` decide what the kernel side may sum.
//! - Several nodes: `placement` and `timed_plan` decide where a fold is computed; `node` and `timed_part` compute on a
//!   node, `message` is what it sends, `remote` and `timed` are the coordinator's part.

mod advance;
mod capture;
mod close;
mod decide;
mod extent;
mod hit_placement;
mod holds;
mod initial;
mod instance;
mod instance_table;
mod iteration;
mod join;
mod keyed_intake;
mod live;
mod message;
mod nest;
mod node;
mod not_summed;
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
mod timed;
mod timed_part;
mod timed_plan;
mod track;
mod trial;
mod tune;
mod tune_status;
mod tune_trial;
mod turn;
mod unsampled;
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
pub use message::{MESSAGE_MAX, MessageError};
use nest::Nesting;
pub use node::{Node, Partial, Report, Schedule};
pub use output::{
    ClosedWindow, Decision, DecisionOutcome, Dropped, Finding, FindingState, IterationTeams, LeftOut,
    LoopIteration, LoopNumber, Observation, Output, ProcessAction, Standing, TrialProgress, TuneStatus,
    Verdict,
};
use pending_sums::PendingSums;
pub use placement::{PlacedFold, Placement};
use remote::Remote;
use samples::Samples;
use stream::Stream;
use timed::AwaitedWindow;
use timed_plan::TimedPlan;
use track::Track;
use tune::TuneState;
use variables::Variables;

use crate::eval::called::Past;
use crate::eval::partial::{Content, Past as Contents, Room};
use crate::eval::run::RunState;
use crate::facts::ProcessFacts;
use crate::folds::WindowFolds;
use crate::ids::{DecisionId, RuleId};
use crate::rule::CheckedRule;
use crate::value::{Machine, ProcessId, Time};
use crate::window::{Window, WindowKind};

/// Evaluates rules on the observations of a job.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    rules: Vec<Running>,
    processes: BTreeMap<ProcessId, Process>,
    /// The times at which present processes joined, and the ranks of all processes: read at every tick,
    /// rarely changed.
    joined: Arc<BTreeMap<ProcessId, Time>>,
    /// Those of `joined` that are on no node.
    alone: Arc<BTreeMap<ProcessId, Time>>,
    ranks: Arc<BTreeMap<ProcessId, u32>>,
    /// The nodes that pass in partial results; none in a session on one machine.
    nodes: BTreeMap<Machine, Remote>,
    samples: Samples,
    variables: Arc<Variables>,
    decisions: u64,
    /// Closed windows that were not taken yet, the newest last.
    closed: VecDeque<Arc<Evaluated>>,
}

/// A rule with its state.
#[derive(Clone, Debug)]
struct Running {
    /// Immutable: copies of an engine share it.
    rule: Arc<CheckedRule>,
    mode: Mode,
    /// Earlier hits do not count for this rule.
    since: Time,
    is_removed: bool,
    /// The open part of each window.
    windows: Vec<Open>,
    nesting: Nesting,
    /// Whether the rule has windows of a fixed length, and windows from probe to probe or pairs of hits.
    timed: bool,
    probed: bool,
    /// Its hits include iterations of the detected loop, which are known later than other hits.
    follows_loop: bool,
    /// Hits that wait for windows from probe to probe, and hits that need no order.
    stream: Stream,
    keyed_intake: KeyedIntake,
    by_key: ByKey,
    /// Partial sums that wait for their instances.
    partial_sums: PendingSums,
    /// The captures of each probe.
    captures: Vec<Captures>,
    /// By probe: whether a hit of it was observed.
    was_hit: Vec<bool>,
    /// Probes that exist in no process, with a text for display: values from their hits are none.
    absent: BTreeMap<usize, String>,
    /// Ended instances that wait for the partial results of nodes.
    awaiting: VecDeque<Awaiting>,
    /// What nodes compute of its windows of a length, and such windows that wait for the parts of nodes.
    timed_plan: TimedPlan,
    awaited_windows: VecDeque<AwaitedWindow>,
    /// For each window, the retained contents of its closed instances.
    contents: Vec<Contents>,
    /// For each window, its metrics in earlier closed instances, the newest last.
    history: Vec<Vec<Past>>,
    /// For each enclosing window, the inner instances that closed within its open ones.
    inner: Vec<Inside>,
    /// Folds over every window.
    runs: Vec<RunState>,
    /// For each join, the hits that wait for their second hit.
    joiners: Vec<Joiner>,
    /// For each role, its processes.
    roles: Vec<BTreeSet<ProcessId>>,
    tunes: Vec<TuneState>,
    /// For each window, the instance that closed last; the processes that were left out of it, and whether it
    /// had no process.
    last: Vec<Option<Arc<Evaluated>>>,
    left_out: Vec<String>,
    saw_no_process: bool,
    /// Whether one of the windows had a process.
    had_processes: bool,
    /// Windows that closed and were evaluated.
    closed: u64,
    /// When a change of the rule was made or reverted last; the window after it is still to come.
    switched: Option<(Time, bool)>,
}

/// The open part of a window.
#[derive(Clone, Debug)]
enum Open {
    Timed {
        since: Time,
        index: u64,
        /// Aggregates of the pairs of hits that became known in it.
        pairs: Arc<Content>,
        /// Why pairs may be missing.
        incomplete: Option<String>,
    },
    Probed(Box<Track>),
    /// Temporarily taken out for processing.
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
    /// An engine for `rules` in advising mode, whose first windows begin at `now`.
    ///
    /// # Errors
    /// If two rules have the same name or change the same target.
    pub fn new(rules: Vec<CheckedRule>, now: Time) -> Result<Engine, Conflict> {
        let mut engine = Engine::default();
        for rule in rules {
            engine.add(rule, now)?;
        }
        // There are no earlier observations: all hits count for these rules.
        engine
            .rules
            .iter_mut()
            .for_each(|running| running.since = Time(0));
        Ok(engine)
    }

    /// Sets which probes of a rule exist in no process, each with a text for display.
    pub fn lacks(&mut self, rule: RuleId, absent: BTreeMap<usize, String>) {
        if let Some(running) = self.rules.get_mut(rule.0) {
            running.absent = absent;
        }
    }

    /// Sets the mode of a rule. Applying releases tunes on hold; leaving it ends a trial with a verdict to
    /// revert the change. Switching off closes findings.
    pub fn set_mode(&mut self, rule: RuleId, mode: Mode) -> Vec<Output> {
        let Some(running) = self.rules.get_mut(rule.0) else {
            return Vec::new();
        };
        running.mode = mode;
        let mut out = Vec::new();
        for (index, (tune, checked)) in running.tunes.iter_mut().zip(&running.rule.tunes).enumerate() {
            out.extend(tune.set_mode(rule, index, mode, checked));
        }
        out
    }

    /// Whether a decision waits for its receipt. False after it was given up: it became stale, or its rule
    /// was switched or removed.
    pub fn awaits(&self, decision: DecisionId) -> bool {
        let mut tunes = self.rules.iter().flat_map(|running| &running.tunes);
        tunes.any(|tune| tune.awaits(decision))
    }

    /// Passes in the outcome of a decision; `Applied` starts its guard's trial.
    ///
    /// False if no such decision is waiting: it was given up when its rule was switched, and what was written
    /// must be reverted.
    pub fn receipt(&mut self, decision: DecisionId, outcome: DecisionOutcome, now: Time) -> bool {
        for running in &mut self.rules {
            for (tune, checked) in running.tunes.iter_mut().zip(&running.rule.tunes) {
                if tune.receipt(decision, &outcome, checked, now) {
                    running.switched = Some((now, true));
                    return true;
                }
            }
        }
        false
    }
}

fn open(window: &Window, folds: &Arc<WindowFolds>, room: Room, now: Time) -> Open {
    match window.kind {
        WindowKind::Timed(_) => Open::Timed {
            since: now,
            index: 0,
            pairs: Arc::new(Content::new(Arc::clone(folds), room)),
            incomplete: None,
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
