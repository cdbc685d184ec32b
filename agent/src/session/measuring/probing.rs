//! Attaches and detaches probes for the budget: carries out its effects, and reads the data for its
//! decisions.

use std::collections::BTreeSet;

use job::monotonic_ns;
use probe::Probes;
use probe::kernel::KernelError;
use profile::probe::Probe;
use profile::{Metered, TeamPart, mpi};

use super::{Context, Measuring};
use crate::rulebook::RuleBook;
use crate::session::{
    actuator_queue::OrderReceipt,
    budget::{
        self, BudgetEffect, BudgetEffects, CallNeed, Costs, Detaching, Functions, RegionCounts,
        SamplingState, Spent, WatchedFunction, WindowChange,
    },
    target::WatchedJob,
};

/// All functions that are or were probed, with the cost of a call of each.
pub(in crate::session) fn functions<'a>(probes: &'a Probes, costs: &Costs) -> Functions<'a> {
    let Some(prices) = probes.prices() else {
        return Functions::new();
    };
    let watched = |probe: u32, price_ns: f64| {
        let known = probes.list().get(probe as usize)?;
        let need = match (probes.is_counted(probe), probes.may_pause(probe)) {
            (true, _) if probes.can_take_turns() => CallNeed::Count,
            (_, true) => CallNeed::Profile,
            _ if probes.is_of_profile_alone(probe) => CallNeed::Regions,
            (_, false) => CallNeed::Each,
        };
        Some(WatchedFunction {
            name: &known.name,
            price_ns,
            need,
            is_apart: known.mpi.is_none_or(mpi::MpiFunction::is_polling),
        })
    };
    let probed = costs.probed().iter();
    let functions = probed.map(|(probe, probed)| Some((*probe, watched(*probe, prices.call_ns(probed))?)));
    functions.flatten().collect()
}

impl Measuring {
    fn detaching(&self) -> Detaching {
        match self.probes.can_take_turns() {
            true => Detaching::Possible,
            false => Detaching::Impossible,
        }
    }

    fn state(&self, context: &Context<'_>) -> SamplingState {
        SamplingState {
            detaching: self.detaching(),
            is_judged: context.rules.is_judging(),
            is_recorded: context.rules.was_recorded(),
            ticks_per_s: 1.0
                / self
                    .tick(context.rules, context.target, context.screen)
                    .as_secs_f64(),
        }
    }

    /// The cost up to the last reading.
    fn spent(&self) -> Spent {
        let functions = functions(&self.probes, &self.budget.costs);
        Spent::of(&self.profile, &functions, self.budget.costs.agent().cpu_ns)
    }

    fn carry_out_effects(
        &mut self,
        context: &mut Context<'_>,
        effects: BudgetEffects,
    ) -> Result<(), KernelError> {
        for effect in effects {
            match effect {
                BudgetEffect::Say(line) => context.screen.say(&line),
                BudgetEffect::SayRegionsRest(share) => {
                    let processes = self.profile.processes.iter();
                    let rates = processes.filter_map(|process| process.regions.rate());
                    let rate = rates.fold(0.0, f64::max);
                    context.screen.say(&budget::notice_of_rest(rate, share));
                }
                BudgetEffect::BeginSampling => self.profile.begin_sampling(),
                BudgetEffect::Detach(functions) => self.detach(&functions),
                BudgetEffect::DetachCounted => {
                    // The reading that was just taken is the last one for the rules.
                    let counted = self.probes.counted();
                    context.rules.rest(counted.clone());
                    self.probes.rest(counted, &[])?;
                    self.read(context)?;
                }
                BudgetEffect::DetachRegions => {
                    // Everything counted until now is included.
                    self.read(context)?;
                    self.budget.regions.rest();
                    self.switch_regions(context.target, false)?;
                    self.read(context)?;
                }
                BudgetEffect::AttachRegions => self.attach_regions(context)?,
            }
        }
        Ok(())
    }

    /// An order was carried out: the program may have been changed by it.
    pub(in crate::session) fn answered(&mut self, receipt: &OrderReceipt) {
        if !matches!(receipt, OrderReceipt::Confirmed(..)) {
            self.profile.program_changed();
        }
    }

    /// Trials may have begun or ended: sampling windows are then due at other times.
    pub(super) fn update_trials(&mut self, rules: &RuleBook) {
        let is_judged = is_judged_by_samples(rules);
        self.budget.sampling.judge(is_judged, monotonic_ns());
    }

    /// Begins and ends sampling windows when they are due.
    pub(in crate::session) fn take_turns(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        let due = (self.budget.sampling).due(monotonic_ns(), || self.cost_of_window());
        match due {
            Some(WindowChange::Open) => self.open_window(context),
            Some(WindowChange::Close) => self.close_window(context),
            None => Ok(()),
        }
    }

    /// CPU time of the hits of sampled functions in the open window, in nanoseconds.
    fn cost_of_window(&self) -> f64 {
        let Some(kernel) = self.probes.kernel() else {
            return 0.0;
        };
        let watched = functions(&self.probes, &self.budget.costs);
        let sampled = self.budget.sampling.sampled().functions();
        let cost = |process: &Metered| {
            let before = process.counted_at_window()?;
            let of = sampled.iter().map(|probe| {
                let before = before.get(*probe as usize).map_or(0, |totals| totals.calls);
                let calls = kernel.calls_of(process.slot, *probe).saturating_sub(before);
                calls as f64 * watched.get(probe).map_or(0.0, |watched| watched.price_ns)
            });
            Some(of.sum::<f64>())
        };
        self.profile.running().filter_map(cost).sum()
    }

    /// A process of the command is about to join with its MPI: it is watched from its begin.
    pub(in crate::session) fn process_starting(
        &mut self,
        context: &mut Context<'_>,
        pid: i32,
    ) -> Result<(), KernelError> {
        if (self.budget.sampling).join(pid, self.detaching(), monotonic_ns()) {
            self.open_window(context)?;
        }
        self.budget.sampling.stay_open(monotonic_ns());
        Ok(())
    }

    /// Links may have been closed: attaches probes that waited for that.
    pub(in crate::session) fn take_closed(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        if self.probes.is_closing() {
            return Ok(());
        }
        let members = context.target.watched(&self.profile.processes);
        if let Some(since_ns) = self.probes.attach_rest(&members, context.target.expected())? {
            let slots: Vec<u32> = members.iter().map(|(slot, _)| *slot).collect();
            context.rules.lost(slots.into_iter(), since_ns, monotonic_ns());
        }
        if let Some(until_ns) = self.budget.sampling.take_waiting() {
            self.open_window(context)?;
            self.budget.sampling.stay_open_until(until_ns);
        }
        Ok(())
    }

    /// Checks the cost in the last reading, while all functions are watched all the time.
    pub(in crate::session) fn look_at_cost(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        let read_ns = self.profile.read_ns;
        if !self.budget.sampling.is_look_due(read_ns) {
            return Ok(());
        }
        let state = self.state(context);
        let nothing = self
            .is_still(context.rules, context.target)
            .then(|| self.budget.check_idle(read_ns, state));
        let effects = nothing.flatten().unwrap_or_else(|| {
            let spent = self.spent();
            let functions = functions(&self.probes, &self.budget.costs);
            self.budget.look(spent, &functions, state)
        });
        self.carry_out_effects(context, effects)
    }

    /// Begins a window, at once or when the links of the last window are closed.
    fn open_window(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        if self.probes.is_closing() {
            self.budget.sampling.wait_for_links();
            return Ok(());
        }
        self.take_calls(context)?;
        let off = self.budget.sampling.sampled().functions().clone();
        let is_off = |probe: u32| off.contains(&probe);
        self.forget_open(is_off, |thread| {
            let open = thread.frames.iter().take(thread.depth as usize);
            open.into_iter().all(|frame| is_off(frame.probe))
        })?;
        let members = context.target.watched(&self.profile.processes);
        let sampled = self.budget.sampling.open(monotonic_ns());
        self.probes.open(&sampled, &members, context.target.expected())?;
        self.budget.sampling.attached(monotonic_ns());
        self.profile.forget_threads();
        self.read(context)?;
        self.profile.end_gap(self.budget.sampling.cuts_sequence);
        let spent = self.spent();
        self.budget.sampling.opened(spent);
        Ok(())
    }

    fn close_window(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.read(context)?;
        if is_judged_by_samples(context.rules) {
            self.profile.forget_pace();
        }
        let (spent, state) = (self.spent(), self.state(context));
        let functions = functions(&self.probes, &self.budget.costs);
        let effects = self.budget.close_window(spent, &functions, state);
        self.carry_out_effects(context, effects)
    }

    /// Detaches these functions; their counters have just been read.
    fn detach(&mut self, sampled: &BTreeSet<u32>) {
        let watched = functions(&self.probes, &self.budget.costs);
        let prices = watched.iter().map(|(probe, watched)| (*probe, watched.price_ns));
        let probes = self.probes.list();
        let is_of_mpi = |probe: usize| probes.get(probe).is_some_and(|probe| probe.mpi.is_some());
        let windows = self.profile.windows(&prices.collect(), is_of_mpi);
        self.probes.close_window(sampled);
        self.profile
            .begin_gap(sampled, windows, self.budget.sampling.cuts_sequence);
    }

    /// Keeps the cost of counting for rules within the budget.
    pub(in crate::session) fn keep_counts_within_budget(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<(), KernelError> {
        let is_judged = context.rules.is_judging();
        if self.budget.counting.is_detached() {
            let is_over = self.budget.counting.is_over(self.profile.read_ns, is_judged);
            return match is_over && !self.probes.is_closing() {
                true => self.attach_counted(context),
                false => Ok(()),
            };
        }
        if self.probes.counted().is_empty() || !self.probes.can_take_turns() {
            self.budget.counting.forget();
            return Ok(());
        }
        let spent = self.spent();
        let functions = functions(&self.probes, &self.budget.costs);
        let effects = self.budget.look_at_counted(spent, is_judged, &functions);
        self.carry_out_effects(context, effects)
    }

    fn attach_counted(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        let members = context.target.watched(&self.profile.processes);
        self.probes.rest(BTreeSet::new(), &members)?;
        context.rules.rest(BTreeSet::new());
        self.read(context)?;
        let spent = self.spent();
        self.budget.counting.attached(spent);
        Ok(())
    }

    /// Starts the accounting for parallel regions, if there are any.
    pub(in crate::session) fn begin_regions(&mut self, now_ns: u64) {
        let is_on = self.probes.is_on(self.budget.regions.wanted().start);
        let mut probes = self.probes.list().iter();
        if is_on && probes.any(|probe| probe.part() == Some(TeamPart::Region)) {
            self.budget.regions.begin(now_ns, Vec::new());
        }
    }

    /// Whether parallel regions are probed, now or periodically.
    pub(in crate::session) fn has_regions(&self) -> bool {
        self.budget.regions.is_there()
    }

    /// Keeps the cost of the probes of regions within bounds.
    pub(in crate::session) fn keep_regions_within_budget(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<(), KernelError> {
        if !self.has_regions() {
            return Ok(());
        }
        let look = RegionCounts {
            calls: self.calls_of_regions(),
            waiting: self.waiting_share(),
            is_used: self.probes.is_used_by_others(self.budget.regions.wanted().start),
            is_judged: !context.target.job.has_mpi() && context.rules.is_judging_iterations(),
            is_closing: self.probes.is_closing(),
        };
        let effects = self.budget.regions.look(&look, monotonic_ns());
        self.carry_out_effects(context, effects)
    }

    /// Of the time in which the threads of the job could run lately, the share in which they waited for a CPU.
    fn waiting_share(&self) -> f64 {
        let lately = |process: &Metered| {
            let (before, now) = process.oldest().zip(process.last())?;
            let (before, now) = (before.counters?, now.counters?);
            let waited = now.runqueue_ns.saturating_sub(before.runqueue_ns);
            Some((waited, waited + now.cpu_ns.saturating_sub(before.cpu_ns)))
        };
        let (waited, ready) = self
            .profile
            .processes
            .iter()
            .filter_map(lately)
            .fold((0, 0), |(waited, ready), (of_waited, of_ready)| {
                (waited + of_waited, ready + of_ready)
            });
        waited as f64 / ready.max(1) as f64
    }

    /// Calls of regions and their bodies so far, by process, divided by the number of threads that make them.
    fn calls_of_regions(&self) -> Vec<f64> {
        let parts = parts(self.probes.list());
        let calls = |process: &Metered| {
            let counters = process.last().and_then(|last| last.counters);
            let threads = counters.map_or(1, |counters| counters.threads).max(1) as f64;
            let kernel = self.probes.kernel();
            let of = |(part, number): &(TeamPart, u32)| {
                let calls = kernel.map_or(0, |kernel| kernel.calls_of(process.slot, *number)) as f64;
                match part {
                    TeamPart::Region => calls,
                    TeamPart::Body => calls / threads,
                }
            };
            parts.iter().map(of).sum()
        };
        self.profile.processes.iter().map(calls).collect()
    }

    fn attach_regions(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.take_calls(context)?;
        let parts = parts(self.probes.list());
        let parts: BTreeSet<u32> = parts.into_iter().map(|(_, number)| number).collect();
        self.forget_open(|probe| parts.contains(&probe), |thread| thread.inside == 0)?;
        self.profile.end_gap_of_regions(context.target.job.has_mpi());
        self.switch_regions(context.target, true)?;
        let calls = self.calls_of_regions();
        self.budget.regions.begin(monotonic_ns(), calls);
        self.read(context)
    }

    fn switch_regions(&mut self, target: &WatchedJob, on: bool) -> Result<(), KernelError> {
        let members = target.watched(&self.profile.processes);
        for want in self.budget.regions.wanted() {
            self.probes.switch(want, on, &members)?;
        }
        Ok(())
    }
}

/// Whether a change is on trial whose objective has values between sampling windows. Iterations have none, and
/// are seen only in windows that are longer.
fn is_judged_by_samples(rules: &RuleBook) -> bool {
    rules.is_judging() && !rules.is_judging_iterations()
}

/// The probes of parallel regions and their bodies.
fn parts(probes: &[Probe]) -> Vec<(TeamPart, u32)> {
    let parts = probes.iter().zip(0..);
    parts
        .filter_map(|(probe, number)| Some((probe.part()?, number)))
        .collect()
}
