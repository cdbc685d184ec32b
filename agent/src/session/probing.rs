//! Attaches and detaches for the budget: carries out its effects, and reads what it decides by.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::{
    Session,
    budget::{self, Costs, Due, Effect, Effects, Functions, Look, Need, Spent, State, Watched},
};
use crate::{
    calls::Part,
    clock::monotonic_ns,
    discover::Member,
    kernel::KernelError,
    mpi,
    probe::{Probe, Probes},
    profile::Metered,
};

/// All functions that are probed, or were, with what a call of each costs.
pub(super) fn functions<'a>(probes: &'a Probes, costs: &Costs) -> Functions<'a> {
    let Some(prices) = probes.prices() else {
        return Functions::new();
    };
    let watched = |probe: u32, price_ns: f64| {
        let known = probes.list().get(probe as usize)?;
        let need = match (probes.is_counted(probe), probes.may_pause(probe)) {
            (true, _) if probes.can_take_turns() => Need::Count,
            (_, true) => Need::Profile,
            (_, false) => Need::Each,
        };
        Some(Watched {
            name: &known.name,
            price_ns,
            need,
            is_apart: known.mpi.is_none_or(mpi::Function::is_asked_again),
        })
    };
    let probed = costs.probed().iter();
    let functions = probed.map(|(probe, probed)| Some((*probe, watched(*probe, prices.call_ns(probed))?)));
    functions.flatten().collect()
}

/// Processes that are watched, with their slots.
pub(super) fn watched<'a>(processes: &[Metered], members: &'a [Member]) -> Vec<(u32, &'a Member)> {
    let watched = processes.iter().filter(|process| process.is_watched());
    watched
        .filter_map(|process| Some((process.slot, members.get(process.slot as usize)?)))
        .collect()
}

/// A time of CLOCK_MONOTONIC, as the loop waits for it.
pub(super) fn instant(due_ns: u64) -> Instant {
    Instant::now() + Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()))
}

impl Session {
    fn state(&self) -> State {
        State {
            can_detach: self.measuring.probes.can_take_turns(),
            is_judged: !self.rules.on_trial().is_empty(),
            ticks_per_s: 1.0 / self.tick().as_secs_f64(),
        }
    }

    /// What was spent up to the last reading.
    fn spent(&self) -> Spent {
        let functions = functions(&self.measuring.probes, &self.measuring.budget.costs);
        Spent::of(
            &self.measuring.profile,
            &functions,
            self.measuring.budget.costs.agent().cpu_ns,
        )
    }

    fn carry_out_effects(&mut self, effects: Effects) -> Result<(), KernelError> {
        for effect in effects {
            match effect {
                Effect::Say(line) => self.screen.say(&line),
                Effect::SayRegionsRest(share) => {
                    let processes = self.measuring.profile.processes.iter();
                    let rates = processes.filter_map(|process| process.regions.rate());
                    let rate = rates.fold(0.0, f64::max);
                    self.screen.say(&budget::notice_of_rest(rate, share));
                }
                Effect::BeginSampling => self.measuring.profile.begin_sampling(),
                Effect::Detach(functions) => self.detach(&functions),
                Effect::DetachCounted => {
                    // What was just read is the last that rules have.
                    let counted = self.measuring.probes.counted();
                    self.rules.rest(counted.clone());
                    self.measuring.probes.rest(counted, &[])?;
                    self.read()?;
                }
                Effect::DetachRegions => {
                    // What was seen up to now counts.
                    self.read()?;
                    self.measuring.budget.regions.rest();
                    self.switch_regions(false)?;
                    self.read()?;
                }
                Effect::AttachRegions => self.attach_regions()?,
            }
        }
        Ok(())
    }

    /// Opens and shuts sampling windows, where it is time to.
    pub(super) fn take_turns(&mut self) -> Result<(), KernelError> {
        let due = (self.measuring.budget.sampling).due(monotonic_ns(), || self.cost_of_window());
        match due {
            Some(Due::Open) => self.open_window(),
            Some(Due::Shut) => self.shut_window(),
            None => Ok(()),
        }
    }

    /// CPU time that hits of sampled functions have taken in the window that is open, in nanoseconds.
    fn cost_of_window(&self) -> f64 {
        let Some(kernel) = self.measuring.probes.kernel() else {
            return 0.0;
        };
        let watched = functions(&self.measuring.probes, &self.measuring.budget.costs);
        let sampled = self.measuring.budget.sampling.sampled().functions();
        let cost = |process: &Metered| {
            let before = process.counted_at_window()?;
            let of = sampled.iter().map(|probe| {
                let before = before.get(*probe as usize).map_or(0, |totals| totals.calls);
                let calls = kernel.calls_of(process.slot, *probe).saturating_sub(before);
                calls as f64 * watched.get(probe).map_or(0.0, |watched| watched.price_ns)
            });
            Some(of.sum::<f64>())
        };
        self.measuring.profile.running().filter_map(cost).sum()
    }

    /// Of a command, one that is about to join with its MPI is seen from here on.
    pub(super) fn see_begin(&mut self, pid: i32) -> Result<(), KernelError> {
        let can_detach = self.measuring.probes.can_take_turns();
        if (self.measuring.budget.sampling).join(pid, can_detach, monotonic_ns()) {
            self.open_window()?;
        }
        self.measuring.budget.sampling.stay_open(monotonic_ns());
        Ok(())
    }

    /// Links may have been closed: what waited for that is attached.
    pub(super) fn take_closed(&mut self) -> Result<(), KernelError> {
        if self.measuring.probes.is_closing() {
            return Ok(());
        }
        let members = watched(&self.measuring.profile.processes, &self.target.job.members);
        if let Some(since_ns) = self
            .measuring
            .probes
            .attach_rest((&members, self.target.foreseen()))?
        {
            let slots: Vec<u32> = members.iter().map(|(slot, _)| *slot).collect();
            self.rules.lost(slots.into_iter(), since_ns, monotonic_ns());
        }
        if let Some(until_ns) = self.measuring.budget.sampling.take_waiting() {
            self.open_window()?;
            self.measuring.budget.sampling.stay_open_until(until_ns);
        }
        Ok(())
    }

    /// Looks at what was just read, while all functions are watched all the time.
    pub(super) fn look_at_cost(&mut self) -> Result<(), KernelError> {
        let read_ns = self.measuring.profile.read_ns;
        if !self.measuring.budget.sampling.is_look_due(read_ns) {
            return Ok(());
        }
        let state = self.state();
        let nothing = self
            .is_still()
            .then(|| self.measuring.budget.look_at_nothing(read_ns, state));
        let effects = nothing.flatten().unwrap_or_else(|| {
            let spent = self.spent();
            let functions = functions(&self.measuring.probes, &self.measuring.budget.costs);
            self.measuring.budget.look(spent, &functions, state)
        });
        self.carry_out_effects(effects)
    }

    /// A window begins, at once or when the links of the last one are closed.
    fn open_window(&mut self) -> Result<(), KernelError> {
        if self.measuring.probes.is_closing() {
            self.measuring.budget.sampling.wait_for_links();
            return Ok(());
        }
        self.take_calls()?;
        let off = self.measuring.budget.sampling.sampled().functions().clone();
        let is_off = |probe: u32| off.contains(&probe);
        self.forget_open(is_off, |thread| {
            let open = thread.frames.iter().take(thread.depth as usize);
            open.into_iter().all(|frame| is_off(frame.probe))
        })?;
        let members = watched(&self.measuring.profile.processes, &self.target.job.members);
        let sampled = self.measuring.budget.sampling.open(monotonic_ns());
        self.measuring
            .probes
            .open(&sampled, (&members, self.target.foreseen()))?;
        self.measuring.budget.sampling.attached(monotonic_ns());
        self.measuring.profile.forget_threads();
        self.read()?;
        self.measuring
            .profile
            .end_gap(self.measuring.budget.sampling.cuts_sequence());
        let spent = self.spent();
        self.measuring.budget.sampling.opened(spent);
        Ok(())
    }

    /// A window is over.
    fn shut_window(&mut self) -> Result<(), KernelError> {
        self.read()?;
        let (spent, state) = (self.spent(), self.state());
        let functions = functions(&self.measuring.probes, &self.measuring.budget.costs);
        let effects = self.measuring.budget.shut(spent, &functions, state);
        self.carry_out_effects(effects)
    }

    /// These functions are not watched from now on; what was counted up to now was just read.
    fn detach(&mut self, sampled: &BTreeSet<u32>) {
        let watched = functions(&self.measuring.probes, &self.measuring.budget.costs);
        let prices = watched.iter().map(|(probe, watched)| (*probe, watched.price_ns));
        let probes = self.measuring.probes.list();
        let is_of_mpi = |probe: usize| probes.get(probe).is_some_and(|probe| probe.mpi.is_some());
        let windows = self.measuring.profile.windows(&prices.collect(), is_of_mpi);
        self.measuring.probes.shut(sampled);
        self.measuring.profile.begin_gap(sampled, windows);
    }

    /// Keeps what counting for rules costs to the budget.
    pub(super) fn mind_counts(&mut self) -> Result<(), KernelError> {
        let is_judged = !self.rules.on_trial().is_empty();
        if self.measuring.budget.counting.rests() {
            let is_over = self
                .measuring
                .budget
                .counting
                .is_over(self.measuring.profile.read_ns, is_judged);
            return match is_over && !self.measuring.probes.is_closing() {
                true => self.attach_counted(),
                false => Ok(()),
            };
        }
        if self.measuring.probes.counted().is_empty() || !self.measuring.probes.can_take_turns() {
            self.measuring.budget.counting.forget();
            return Ok(());
        }
        let spent = self.spent();
        let functions = functions(&self.measuring.probes, &self.measuring.budget.costs);
        let effects = self
            .measuring
            .budget
            .look_at_counted(spent, is_judged, &functions);
        self.carry_out_effects(effects)
    }

    fn attach_counted(&mut self) -> Result<(), KernelError> {
        let members = watched(&self.measuring.profile.processes, &self.target.job.members);
        self.measuring.probes.rest(BTreeSet::new(), &members)?;
        self.rules.rest(BTreeSet::new());
        self.read()?;
        let spent = self.spent();
        self.measuring.budget.counting.sits(spent);
        Ok(())
    }

    /// Parallel regions are probed from now on, where there are any.
    pub(super) fn begin_regions(&mut self, now_ns: u64) {
        let is_on = self
            .measuring
            .probes
            .is_on(self.measuring.budget.regions.wanted().start);
        let mut probes = self.measuring.probes.list().iter();
        if is_on && probes.any(|probe| probe.part() == Some(Part::Region)) {
            self.measuring.budget.regions.begin(now_ns, Vec::new());
        }
    }

    /// Whether parallel regions are seen, now or now and then.
    pub(super) fn has_regions(&self) -> bool {
        self.measuring.budget.regions.is_there()
    }

    /// Keeps what the probes of regions cost within bounds.
    pub(super) fn mind_regions(&mut self) -> Result<(), KernelError> {
        if !self.has_regions() {
            return Ok(());
        }
        let look = Look {
            calls: self.calls_of_regions(),
            is_used: self
                .measuring
                .probes
                .is_used_by_others(self.measuring.budget.regions.wanted().start),
            is_closing: self.measuring.probes.is_closing(),
        };
        let effects = self.measuring.budget.regions.look(&look, monotonic_ns());
        self.carry_out_effects(effects)
    }

    /// Calls of regions and their bodies so far, by process, as many as one thread makes of them.
    fn calls_of_regions(&self) -> Vec<f64> {
        let parts = parts(self.measuring.probes.list());
        let calls = |process: &Metered| {
            let counters = process.last().and_then(|last| last.counters);
            let threads = counters.map_or(1, |counters| counters.threads).max(1) as f64;
            let kernel = self.measuring.probes.kernel();
            let of = |(part, number): &(Part, u32)| {
                let calls = kernel.map_or(0, |kernel| kernel.calls_of(process.slot, *number)) as f64;
                match part {
                    Part::Region => calls,
                    Part::Body => calls / threads,
                }
            };
            parts.iter().map(of).sum()
        };
        self.measuring.profile.processes.iter().map(calls).collect()
    }

    fn attach_regions(&mut self) -> Result<(), KernelError> {
        self.take_calls()?;
        let parts = parts(self.measuring.probes.list());
        let parts: BTreeSet<u32> = parts.into_iter().map(|(_, number)| number).collect();
        self.forget_open(|probe| parts.contains(&probe), |thread| thread.inside == 0)?;
        let has_mpi = self.target.job.members.iter().any(|member| member.mpi.is_some());
        self.measuring.profile.end_gap_of_regions(has_mpi);
        self.switch_regions(true)?;
        let calls = self.calls_of_regions();
        self.measuring.budget.regions.begin(monotonic_ns(), calls);
        self.read()
    }

    fn switch_regions(&mut self, on: bool) -> Result<(), KernelError> {
        let members = watched(&self.measuring.profile.processes, &self.target.job.members);
        for want in self.measuring.budget.regions.wanted() {
            self.measuring.probes.switch(want, on, &members)?;
        }
        Ok(())
    }
}

/// The probes of parallel regions.
fn parts(probes: &[Probe]) -> Vec<(Part, u32)> {
    let parts = probes.iter().zip(0..);
    parts
        .filter_map(|(probe, number)| Some((probe.part()?, number)))
        .collect()
}
