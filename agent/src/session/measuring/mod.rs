//! Everything that measures: probes, the ring of hits, counters and the profile computed from them, and the
//! cost.

mod hits;
mod joining;
mod probing;
mod reading;

use std::{ops::Range, time::Duration};

pub(super) use self::probing::functions;
use super::{
    actuation::Actuation,
    budget::Budget,
    cpus::Cpus,
    intake::Intake,
    partial_sums::PartialSums,
    parts::Parts,
    progress::ProgressReader,
    screen::Screen,
    system::{System, own_cpu_ns},
    target::WatchedJob,
    written::TargetVariables,
};
use crate::rulebook::RuleBook;
use probe::Probes;
use probe::kernel::{KernelError, Ring};
use profile::streams::{ContractFollower, RankReport};
use profile::{IterationNumbers, Profile};

/// The parts of the session that measuring needs.
pub(super) struct Context<'a> {
    pub(super) rules: &'a mut RuleBook,
    pub(super) target: &'a mut WatchedJob,
    pub(super) screen: &'a mut Screen,
    /// Decides which processes belong to the job.
    pub(super) parts: &'a mut Parts,
    pub(super) actuation: &'a Actuation,
}

/// The probes and their data.
pub(super) struct Measuring {
    pub(super) probes: Probes,
    /// Indices of the requests that apply to every process: those of the user, and parallel regions.
    pub(super) own: Range<usize>,
    /// `None` in a session that may not probe.
    pub(super) hits: Option<Ring>,
    /// The state of reading `hits`.
    pub(super) intake: Intake,
    /// The sums that were aggregated in the kernel.
    pub(super) partial_sums: PartialSums,
    /// The counters, and values computed from them.
    pub(super) profile: Profile,
    /// Keeps the cost of watching within a budget.
    pub(super) budget: Budget,
    pub(super) system: System,
    pub(super) cpus: Cpus,
    /// The values of variables that rules would write.
    pub(super) written: TargetVariables,
    /// The variables that say how far the program is.
    pub(super) progress: Option<ProgressReader>,
    /// The contract that the job is watched against.
    pub(super) contract: Option<ContractFollower>,
    /// Numbers the iterations of detected loops, for the rules.
    pub(super) iterations: IterationNumbers,
}

impl Measuring {
    /// For a session whose probes were just attached.
    pub(super) fn new(
        probes: Probes,
        own: Range<usize>,
        hits: Option<Ring>,
        budget: Budget,
        progress: Option<ProgressReader>,
        contract: Option<ContractFollower>,
        profile: Profile,
    ) -> Measuring {
        Measuring {
            probes,
            own,
            hits,
            intake: Intake::new(profile.armed_ns),
            partial_sums: PartialSums::default(),
            profile,
            budget,
            system: System::default(),
            cpus: Cpus::default(),
            written: TargetVariables::default(),
            progress,
            contract,
            iterations: IterationNumbers::default(),
        }
    }

    /// At a tick: reads all data, and keeps the cost of watching within its budget.
    pub(super) fn at_tick(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.take_more_hits(context);
        self.read(context)?;
        self.take_closed(context)?;
        self.keep_regions_within_budget(context)?;
        self.keep_counts_within_budget(context)?;
        self.look_at_cost(context)?;
        self.read_matrix(context, false)
    }

    /// Compares a report with the contract, and says what has changed.
    pub(super) fn judge_contract(&mut self, report: Option<RankReport>, context: &mut Context<'_>) {
        let lines = self.contract.as_mut().zip(report);
        let lines = lines.map(|(contract, report)| contract.take(report));
        let lines = lines.into_iter().flatten();
        lines.for_each(|line| context.screen.say(&line));
    }

    /// To be called when rings of calls fill, or a sampling window begins or ends.
    pub(super) fn at_calls(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.take_calls(context)?;
        self.keep_regions_within_budget(context)?;
        self.keep_counts_within_budget(context)?;
        self.take_turns(context)
    }

    /// At the end: reads all remaining data.
    pub(super) fn read_last(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.take_family(context)?;
        self.take_last_hits(context)?;
        self.read(context)
    }

    /// Reads all data that reports contain.
    pub(super) fn read_all(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.read(context)?;
        self.read_messages(context)
    }

    /// Reads who has sent to whom, even if it was read a moment ago.
    pub(super) fn read_messages(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.read_matrix(context, true)
    }

    /// Whether none of the processes has run between the last two readings, and no change is being judged.
    /// False for a command, whose processes may start and end at any time.
    pub(super) fn is_still(&self, rules: &RuleBook, target: &WatchedJob) -> bool {
        let are_still = !self.profile.processes.is_empty() && self.profile.are_still();
        are_still && !target.is_of_command() && !rules.is_judging()
    }

    /// To be called after a tick. Returns true once nothing has happened for a while, only the first time.
    pub(super) fn has_become_idle(&mut self, context: &mut Context<'_>) -> bool {
        let is_still = self.is_still(context.rules, context.target);
        self.budget.back_off.have_ticked(is_still, own_cpu_ns())
    }

    /// The interval at which counters are read and timed windows are evaluated. Ticks are rare without a live
    /// view if all windows may be longer than stated.
    pub(super) fn tick(&self, rules: &RuleBook, target: &WatchedJob, screen: &Screen) -> Duration {
        let is_still = self.is_still(rules, target);
        let may_linger = || rules.may_linger() && !screen.is_live();
        self.budget
            .back_off
            .tick(is_still, may_linger, || rules.shortest_window())
    }
}
