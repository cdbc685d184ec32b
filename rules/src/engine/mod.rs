//! The engine: observations go in, decisions, findings and verdicts come out.
//!
//! Deterministic and pure: time is an argument of [`Engine::tick`], iteration orders are fixed, and the only
//! result is a list of outputs. A window closes at the first tick on or after its end and lasts until that
//! tick: its `duration` is the actual one, and the next window begins there.
//!
//! This file has the state of the engine, `running` that of a rule. The modules, in the order in which an
//! observation passes through them:
//! - Processes and rules that come and go: `processes`, `live`.
//! - Intake: `observe` dispatches; `stream` orders the hits of a rule, `keyed_intake` and `join` those with keys;
//!   `capture` computes captured values; `samples` and `series` keep what is sampled.
//! - Placing hits in windows: `advance`, `track` (windows from probe to probe), `instance`, `instance_table`, `extent`,
//!   `nest`, `iteration`, `hit_placement`.
//! - Closing windows: `close`, `window`, `pending_sums`; `unsampled` says why a sample gave no value, `retained` is
//!   what is kept of closed ones.
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
mod retained;
mod running;
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

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ::plan::Mode;
pub use live::Conflict;
pub use message::{MESSAGE_MAX, MessageError};
pub use node::{Node, Partial, Report, Schedule};
pub use output::{
    ClosedWindow, Decision, DecisionOutcome, Dropped, Finding, FindingState, IterationTeams, LeftOut,
    LoopIteration, LoopNumber, Observation, Output, ProcessAction, Standing, TrialProgress, TuneStatus,
    Verdict,
};
pub use placement::{PlacedFold, Placement};
use remote::Remote;
use retained::Evaluated;
use running::Running;
use samples::Samples;
use variables::Variables;

use crate::facts::ProcessFacts;
use crate::ids::{DecisionId, RuleId};
use crate::rule::CheckedRule;
use crate::value::{Machine, ProcessId, Time};

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
            for (index, probe) in running.probes.iter_mut().enumerate() {
                probe.absent = absent.get(&index).cloned();
            }
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
                    running.progress.switched = Some((now, true));
                    return true;
                }
            }
        }
        false
    }
}
