//! All that measures: probes, the ring of hits, what was counted and what that comes to, what it costs.

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
    screen::Screen,
    system::{System, own_cpu_ns},
    target::Target,
    written::Written,
};
use crate::rulebook::RuleBook;
use probe::Probes;
use probe::kernel::{KernelError, Ring};
use profile::Profile;

/// What measuring needs of the rest of the session.
pub(super) struct Context<'a> {
    pub(super) rules: &'a mut RuleBook,
    pub(super) target: &'a mut Target,
    pub(super) screen: &'a mut Screen,
    /// Who belongs to the job is decided there.
    pub(super) parts: &'a mut Parts,
    pub(super) actuation: &'a Actuation,
}

/// Probes, and what they bring.
pub(super) struct Measuring {
    pub(super) probes: Probes,
    /// The requests that apply to every process: what the user named, and parallel regions.
    pub(super) own: Range<usize>,
    /// None in a session that may not probe.
    pub(super) hits: Option<Ring>,
    /// What is known of it.
    pub(super) intake: Intake,
    /// What was aggregated in the kernel.
    pub(super) partial_sums: PartialSums,
    /// What was counted, and what it comes to.
    pub(super) profile: Profile,
    /// What watching may cost.
    pub(super) budget: Budget,
    pub(super) system: System,
    pub(super) cpus: Cpus,
    /// What the variables hold that rules would write.
    pub(super) written: Written,
}

impl Measuring {
    /// Of a session whose probes were just armed.
    pub(super) fn new(
        probes: Probes,
        own: Range<usize>,
        hits: Option<Ring>,
        budget: Budget,
        now_ns: u64,
    ) -> Measuring {
        Measuring {
            probes,
            own,
            hits,
            intake: Intake::new(now_ns),
            partial_sums: PartialSums::default(),
            profile: Profile::new(now_ns),
            budget,
            system: System::default(),
            cpus: Cpus::default(),
            written: Written::default(),
        }
    }

    /// At a tick: reads all, and keeps what watching costs to its budget.
    pub(super) fn at_tick(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.take_all_hits(context);
        self.read(context)?;
        self.take_closed(context)?;
        self.mind_regions(context)?;
        self.mind_counts(context)?;
        self.look_at_cost(context)?;
        self.read_matrix(false)
    }

    /// When rings of calls fill, or a sampling window begins or ends.
    pub(super) fn at_calls(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.take_calls(context)?;
        self.mind_regions(context)?;
        self.mind_counts(context)?;
        self.take_turns(context)
    }

    /// At the end: all that came.
    pub(super) fn read_last(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.take_family(context)?;
        self.take_last_hits(context)?;
        self.read(context)
    }

    /// All that is reported.
    pub(super) fn read_all(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.read(context)?;
        self.read_matrix(true)
    }

    /// None of the processes has run between the last two readings, and no change is being judged. The
    /// processes of a command come and go.
    pub(super) fn is_still(&self, rules: &RuleBook, target: &Target) -> bool {
        let are_still = !self.profile.processes.is_empty() && self.profile.are_still();
        are_still && !target.is_of_command() && !rules.is_judging()
    }

    /// A tick is over. True where nothing has happened for a while, the first time.
    pub(super) fn has_become_idle(&mut self, context: &mut Context<'_>) -> bool {
        let is_still = self.is_still(context.rules, context.target);
        self.budget.back_off.have_ticked(is_still, own_cpu_ns())
    }

    /// How often counters are read and windows of a length evaluated. Ticks are rare while the live view is
    /// off, and all windows may be longer than their nominal length.
    pub(super) fn tick(&self, rules: &RuleBook, target: &Target, screen: &Screen) -> Duration {
        let is_still = self.is_still(rules, target);
        let may_linger = || rules.may_linger() && !screen.is_live();
        self.budget
            .back_off
            .tick(is_still, may_linger, || rules.shortest_window())
    }
}
