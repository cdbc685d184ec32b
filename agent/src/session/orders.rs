//! Resolves a decision to orders: what each process must do, and how that is shown. Sends no orders.

use std::collections::BTreeSet;

use job::os_metrics;
use plan::{Action, Affinity, Cores, CpuList, Literal, Set, SyncPoint};
use profile::outcome::NO_PROCESS_LEFT;
use profile::{ChangeView, Metered, Reaction};
use tuner::Pid;
use tuner::actuator::{ActCommand, SetCommand, SetWarmUp, TogetherCommand};
use tuner::journal::Reason;

use super::{
    Start,
    actuator_queue::{ProcessTask, SyncWait},
    changes::{self, Decided, Execution, MachineId, MemberProcess, OrderPart},
    resolve,
    switching::switched,
    target::WatchedJob,
    together, warm_up,
};
use crate::rulebook::{ResolvedAction, ResolvedDecision};

/// The times of a decision's steps, by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionTimes {
    pub(super) begun_ns: u64,
    pub(super) evaluated_ns: u64,
    pub(super) ordered_ns: u64,
}

impl DecisionTimes {
    pub(super) fn reaction(&self, (from, to): (u64, u64), done_ns: u64) -> Reaction {
        // If session and actuator share a CPU, the value is written before ordering returns.
        let ordered_ns = self.ordered_ns.min(done_ns);
        Reaction {
            window_ns: to.saturating_sub(from),
            update_ns: self.begun_ns.saturating_sub(to),
            evaluate_ns: self.evaluated_ns.saturating_sub(self.begun_ns),
            order_ns: ordered_ns.saturating_sub(self.evaluated_ns),
            write_ns: done_ns.saturating_sub(ordered_ns),
        }
    }
}

/// The actuator's work for a decision, kept until it is answered.
#[derive(Debug)]
pub(super) struct Ordered {
    /// By the index of the part.
    pub(super) work: Vec<ProcessWork>,
    pub(super) together: Option<Box<TogetherCommand>>,
    /// Begin and end of the window on which the decision is based.
    window_ns: Option<(u64, u64)>,
    /// Its times so far; `None` before everything is ordered.
    pub(super) path: Option<DecisionTimes>,
}

impl Ordered {
    /// Where a part is carried out; `None` if anywhere.
    pub(super) fn at(&self, part: usize) -> Option<&SyncPoint> {
        let common = self.together.as_ref().map(|command| &command.at);
        common.or(self.work(part)?.at.as_ref().map(|wait| &wait.point))
    }

    pub(super) fn reaction(&self, done_ns: u64) -> Option<Reaction> {
        let (path, window_ns) = self.path.zip(self.window_ns)?;
        Some(path.reaction(window_ns, done_ns))
    }

    pub(super) fn work(&self, part: usize) -> Option<&ProcessWork> {
        self.work.get(part)
    }
}

/// What a process does for a decision, once or several times.
struct PartTask {
    /// For display, before the result is known.
    text: String,
    task: ProcessTask,
    at: Option<SyncWait>,
}

/// The work of one part.
#[derive(Debug)]
pub(super) struct ProcessWork {
    pub(super) task: ProcessTask,
    /// Where it is carried out; `None` if anywhere, or where all processes do it together.
    pub(super) at: Option<SyncWait>,
    /// A call that leaves nothing to be reverted, according to the rule.
    pub(super) leaves_nothing: bool,
    /// For display: the value that was in force before a call that changed nothing.
    pub(super) needless_where: Option<String>,
}

/// Why a decision cannot be ordered.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    /// Its processes cannot agree on an iteration; in the words of the rules.
    #[error("{0}")]
    NoCommonIteration(String),
    #[error("{NO_PROCESS_LEFT}")]
    NoProcess,
    #[error(transparent)]
    Function(#[from] resolve::NotOne),
    #[error(transparent)]
    Value(#[from] plan::LiteralError),
    #[error(transparent)]
    Cores(#[from] os_metrics::TooFewCores),
    #[error("the process has ended")]
    Ended,
}

/// The data that resolving a decision needs.
pub(super) struct Resolver<'a> {
    pub(super) target: &'a WatchedJob,
    pub(super) processes: &'a [Metered],
    pub(super) start: &'a Start,
}

impl Resolver<'_> {
    /// Resolves a decision to orders.
    pub(super) fn resolve(&self, decision: ResolvedDecision) -> Result<(Decided, Ordered), OrderError> {
        let common = decision.together.clone().transpose();
        let common = common.map_err(OrderError::NoCommonIteration)?;
        let (mut how, mut together) = (Execution::Each, None);
        let (parts, work): (Vec<OrderPart>, Vec<ProcessWork>) = match decision.switches.is_empty() {
            true => self.parts(&decision)?.into_iter().unzip(),
            false => {
                how = Execution::Switch(decision.switches.clone());
                Default::default()
            }
        };
        if let (Execution::Each, Some(common)) = (&how, &common) {
            match together::together(&self.target.job, common, &parts, &work) {
                Ok(command) => (how, together) = (Execution::Together, Some(Box::new(command))),
                Err(error) => how = Execution::Barred(error.to_string()),
            }
        }
        let is_value = |change: &ResolvedAction| matches!(change.action, Action::Set(_));
        let is_counted = decision.changes.first().is_none_or(is_value) && decision.switches.is_empty();
        let decided = Decided {
            id: decision.id,
            rule: decision.rule,
            expect: decision.expect,
            again: decision.again,
            summary: (!is_counted).then(|| switched(&decision.steps)),
            how,
            parts,
        };
        let ordered = Ordered {
            work,
            together,
            window_ns: decision.window_ns,
            path: None,
        };
        Ok((decided, ordered))
    }

    /// Resolves a decision by process.
    fn parts(&self, decision: &ResolvedDecision) -> Result<Vec<(OrderPart, ProcessWork)>, OrderError> {
        let mut parts = Vec::new();
        for change in &decision.changes {
            let Some(pid) = self.target.pid_of(change.slot) else {
                continue;
            };
            let leaves_nothing = change.action.leaves_nothing();
            let needless_where = change.action.changes_nothing_where_was_is();
            let needless_where = needless_where.map(ToString::to_string);
            let tasks = self.tasks(decision, change, pid)?;
            let is_copy = tasks.len() > 1 && matches!(change.action, Action::Call(_));
            for PartTask { text, task, at } in tasks {
                let part = OrderPart {
                    process: process_here(change.slot),
                    pid: pid_here(pid),
                    label: change.action.label(),
                    is_copy,
                    view: self.change_view(decision, change, pid, text),
                };
                let work = ProcessWork {
                    task,
                    at,
                    leaves_nothing,
                    needless_where: needless_where.clone(),
                };
                parts.push((part, work));
            }
        }
        match parts.is_empty() {
            true => Err(OrderError::NoProcess),
            false => Ok(parts),
        }
    }

    /// The first order of a decision as [`Resolver::resolve`] would make it; `None` if it is not a plain
    /// value to be written at once.
    pub(super) fn without_write(&self, decision: &ResolvedDecision) -> Option<SetWarmUp> {
        if !warm_up::is_quick(decision) {
            return None;
        }
        let parts = self.parts(decision).ok()?;
        match parts.into_iter().next()?.1.task {
            ProcessTask::Set(command) => Some(SetWarmUp::of(*command)),
            ProcessTask::Act(_) => None,
        }
    }

    fn tasks(
        &self,
        decision: &ResolvedDecision,
        change: &ResolvedAction,
        pid: Pid,
    ) -> Result<Vec<PartTask>, OrderError> {
        let at = decision.at.clone();
        let actions = match &change.action {
            Action::Set(set) => return self.writes(decision, change.slot, pid, set),
            Action::Affinity(Affinity::Cores(how)) => {
                let cpus = self.cores_of(change.slot, *how)?;
                vec![(Action::Affinity(Affinity::Cpus(cpus)), at.map(SyncWait::at))]
            }
            action => self.resolved(action, at, change.slot)?,
        };
        let reason = Reason {
            why: decision.because.clone(),
            rule: Some(decision.rule.clone()),
        };
        let tasks = actions.into_iter().map(|(action, at)| {
            let reason = reason.clone();
            let task = ProcessTask::Act(Box::new(ActCommand { pid, action, reason }));
            let text = change.text();
            PartTask { text, task, at }
        });
        Ok(tasks.collect())
    }

    /// The action with one function for each name, and its sync point. A call is made in each library that has
    /// its functions and its sync point.
    fn resolved(
        &self,
        action: &Action,
        at: Option<SyncPoint>,
        slot: u32,
    ) -> Result<Vec<(Action, Option<SyncWait>)>, OrderError> {
        let Some(member) = self.target.member(slot) else {
            return Ok(vec![(action.clone(), at.map(SyncWait::at))]);
        };
        // Includes libraries that were loaded after the session began.
        let now = member.space_now(self.target.discovery.images());
        let space = now.as_ref().unwrap_or(&member.space);
        let copies = at.as_ref();
        let copies = copies.map_or_else(Vec::new, |at| resolve::in_each_library(action, at, space));
        let wait = match copies.len() {
            0 => return Ok(vec![(resolve::functions(action, space)?, at.map(SyncWait::at))]),
            1 => SyncWait::at,
            _ => SyncWait::at_copy,
        };
        let copies = copies.into_iter();
        Ok(copies.map(|(action, at)| (action, Some(wait(at)))).collect())
    }

    fn writes(
        &self,
        decision: &ResolvedDecision,
        slot: u32,
        pid: Pid,
        set: &Set,
    ) -> Result<Vec<PartTask>, OrderError> {
        let value = Literal::try_from(&set.value)?;
        let member = self.target.member(slot);
        let copies = member.filter(|_| set.everywhere).map_or(vec![None], |member| {
            // A library that was loaded after the session began has a copy, too.
            member.copies(&set.variable, self.target.discovery.images())
        });
        let command = |module: &Option<String>| SetCommand {
            pid,
            variable: set.variable.clone(),
            module: module.clone(),
            value,
            value_type: set.value_type,
            expect_old: None,
            why: decision.because.clone(),
            rule: Some(decision.rule.clone()),
        };
        let shown = |module: &Option<String>| match module {
            Some(module) => format!("{}:{}", file_name(module), set.variable),
            None => set.variable.clone(),
        };
        let tasks = copies.iter().map(|module| PartTask {
            text: shown(module),
            task: ProcessTask::Set(Box::new(command(module))),
            at: decision.at.clone().map(SyncWait::at),
        });
        Ok(tasks.collect())
    }

    /// The CPUs of one process when each process of the job gets its own cores, in the order of ranks.
    fn cores_of(&self, slot: u32, how: Cores) -> Result<CpuList, OrderError> {
        let mut living: Vec<_> = self.processes.iter().filter(|process| !process.ended).collect();
        living.sort_by_key(|process| (process.rank, process.slot));
        let pids: Vec<i32> = living.iter().map(|process| process.pid).collect();
        let roots = self.target.job.roots.iter().map(|root| root.process.pid.number);
        // They may be bound already, to fewer CPUs than their cgroup grants.
        let all: Vec<i32> = pids.iter().copied().chain(roots).collect();
        let cpus: BTreeSet<usize> = os_metrics::reach(&all);
        let dealt = os_metrics::dealt(how, &pids, &cpus)?;
        let place = living.iter().position(|process| process.slot == slot);
        let own = place.and_then(|place| dealt.into_iter().nth(place));
        own.ok_or(OrderError::Ended)
    }

    fn change_view(
        &self,
        decision: &ResolvedDecision,
        change: &ResolvedAction,
        pid: Pid,
        variable: String,
    ) -> ChangeView {
        let rank = self
            .processes
            .iter()
            .find(|process| process.slot == change.slot)
            .and_then(|process| process.rank);
        ChangeView {
            rule: decision.rule.clone(),
            pid: pid.number,
            rank,
            decision: decision.id.0,
            at: self.start.since_armed(),
            expect: decision.expect.clone(),
            because: decision.because.clone(),
            action: change.action.keyword(),
            variable,
            new: change.action.value().map(ToString::to_string).unwrap_or_default(),
            remains: change.action.remains().map(str::to_owned),
            ..ChangeView::default()
        }
    }
}

pub(super) fn process_here(slot: u32) -> MemberProcess {
    MemberProcess {
        machine: MachineId::HERE,
        slot,
    }
}

/// A process id in the form of events.
pub(super) fn pid_here(Pid { number, start_time }: Pid) -> changes::ActuatorPid {
    changes::ActuatorPid { number, start_time }
}

/// A process id in the form of the tuner.
pub(super) fn pid_of(changes::ActuatorPid { number, start_time }: changes::ActuatorPid) -> Pid {
    Pid { number, start_time }
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
