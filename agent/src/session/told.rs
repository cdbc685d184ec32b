//! What the sequence of MPI calls, or of parallel regions, tells of the job: its pace, its efficiencies, its call sites. Puts together what [`crate::calls`] knows
//! of each process; reads files only where call sites are to be named.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Session;
use crate::{
    calls::{
        Pace, Part, SiteTotals,
        efficiency::{Efficiencies, Scalability},
        place::Place,
    },
    clock::monotonic_ns,
    kernel::KernelError,
    mpi,
    probe::Probe,
    profile::Metered,
    snapshot::{CallSiteView, EfficienciesView, IterationView, PaceView, SequenceView, Steps},
};

/// Call sites that are told one by one.
const CALL_SITES_MAX: usize = 20;

/// Fewer calls tell nothing about a loop.
const CALLS_LEAST: u64 = 12;

impl Session {
    /// Takes the newest calls out of the rings, before they are overwritten.
    pub(super) fn take_calls(&mut self) -> Result<(), KernelError> {
        self.read_rings()?;
        let was_filling = self.intake.have_read_calls(monotonic_ns());
        let back_off = &mut self.budget.back_off;
        back_off.have_read_calls(was_filling);
        if let Some(kernel) = self.probes.kernel().filter(|_| !back_off.rests_from_calls()) {
            kernel.sleep_until_half_full();
        }
        Ok(())
    }

    fn read_rings(&mut self) -> Result<(), KernelError> {
        if self.budget.sampling.is_sequence_cut() {
            return self.pass_calls();
        }
        let Some(kernel) = self.probes.kernel() else {
            return Ok(());
        };
        let ranks_elsewhere = self.job.size() != Some(self.profile.processes.len());
        self.profile.collectives.expect(if ranks_elsewhere {
            0
        } else {
            self.profile.processes.len()
        });
        let has_called = |process: &Metered| {
            !process.ended && kernel.calls_so_far(process.slot) != Some(process.sequence.next())
        };
        if !self.profile.processes.iter().any(has_called) {
            return Ok(());
        }
        self.budget.back_off.stir();
        let probes = self.probes.list();
        let mpi_of = |probe: u32| probes.get(probe as usize).and_then(|probe| probe.mpi);
        let keeps_together = |probe: u32| mpi_of(probe).is_some_and(mpi::Function::keeps_all_together);
        let parts: Vec<Option<Part>> = probes.iter().map(Probe::part).collect();
        let part = |probe: u32| parts.get(probe as usize).copied().flatten();
        let (has_mpi, has_regions) = (self.has_mpi(), self.has_regions());
        let is_of_loop = |probe: u32| match has_mpi {
            true => mpi_of(probe).is_some(),
            false => part(probe) == Some(Part::Region),
        };
        for (place, process) in self
            .profile
            .processes
            .iter_mut()
            .enumerate()
            .filter(|(_, process)| !process.ended)
        {
            let (skipped, calls) = kernel.calls(process.slot, process.sequence.next())?;
            self.profile
                .collectives
                .take(place, &calls, skipped, keeps_together);
            if has_regions {
                process
                    .regions
                    .teams
                    .take(process.pid.unsigned_abs(), &calls, skipped, part);
            }
            if let Some(trace) = &mut self.outputs.trace {
                trace.calls(process.whose(), &calls, probes);
            }
            process.sequence.take(calls, skipped, is_of_loop);
        }
        self.profile.collectives.meet();
        Ok(())
    }

    /// Looks for loops in what was taken.
    pub(super) fn look_for_loops(&mut self, now_ns: u64) {
        for process in self.profile.processes.iter_mut().filter(|process| !process.ended) {
            process.sequence.look(now_ns);
            let ended = process.sequence.take_ended();
            let whose = process.whose();
            if let Some(trace) = &mut self.outputs.trace {
                let iterations = ended.iter();
                iterations.for_each(|(thread, ended)| trace.iteration(whose, *thread, ended));
            }
        }
        self.profile.collectives.look(now_ns);
    }

    /// Records what the whole iterations of each process came to.
    pub(super) fn tell_of_recording(&mut self) {
        if let Some(text) = self.rules.recording_news() {
            self.painter.say(&text);
            self.note_missing(text);
        }
    }

    pub(super) fn summarise_recording(&mut self) {
        let now = monotonic_ns();
        for process in &self.profile.processes {
            if let Some(iterations) = process.iterations() {
                self.rules.summarise(process.slot, iterations, now);
            }
            self.rules
                .record_estimates(process.slot, process.estimates(), now, true);
        }
    }

    /// Whether there are calls that a loop can be found in.
    pub(super) fn has_sequence(&self) -> bool {
        self.probes.kernel().is_some() && (self.has_mpi() || self.has_regions())
    }

    fn has_mpi(&self) -> bool {
        self.job.members.iter().any(|member| member.mpi.is_some())
    }

    fn steps(&self) -> Steps {
        if self.has_mpi() {
            Steps::MpiCalls
        } else {
            Steps::Regions
        }
    }

    pub(super) fn sequence(&self) -> SequenceView {
        let mut view = SequenceView {
            steps: self.steps(),
            unseen: self
                .profile
                .processes
                .iter()
                .map(|process| process.sequence.unseen())
                .sum(),
            elsewhere: self
                .profile
                .processes
                .iter()
                .map(|process| process.sequence.elsewhere())
                .sum(),
            efficiencies: self.efficiencies(Metered::useful),
            efficiencies_of_late: self.efficiencies(Metered::useful_of_late),
            ..SequenceView::default()
        };
        if self.has_sequence() {
            view.iteration = self.iteration();
            // A library of OpenMP may be there and never be called.
            let is_used = self.has_mpi()
                || self
                    .profile
                    .processes
                    .iter()
                    .any(|process| process.sequence.calls() > 0);
            view.without = (view.iteration.is_none() && is_used).then(|| self.why_none());
        }
        self.add_split(&mut view);
        self.add_scalability(&mut view);
        view
    }

    /// How much is computed for an iteration, and how that compares with another run.
    fn add_scalability(&self, view: &mut SequenceView) {
        let Some(efficiencies) = &mut view.efficiencies else {
            return;
        };
        let of_mpi = self.profile.processes.iter().zip(&self.job.members);
        let useful = of_mpi
            .filter(|(_, member)| member.mpi.is_some())
            .map(|(process, _)| {
                let iterations = process.iterations()?;
                Some(iterations.useful()? * iterations.whole().mean_ns())
                    .filter(|_| iterations.whole().count > 0)
            });
        efficiencies.useful_ns = useful.sum();
        let now = efficiencies
            .useful_ns
            .filter(|_| self.without_ranks(efficiencies.ranks).is_none());
        let both = self.options.reference.zip(now);
        efficiencies.scalability = both.and_then(|(before, now)| {
            Scalability::of((before.useful_ns, before.ranks), (now, efficiencies.ranks))
        });
        view.without_scalability = match (self.options.reference, efficiencies.scalability) {
            (None, _) | (_, Some(_)) => None,
            _ => Some(
                self.without_ranks(efficiencies.ranks)
                    .unwrap_or("not every rank has a detected loop"),
            ),
        };
    }

    /// Communication efficiency in parts, or why it is not.
    fn add_split(&self, view: &mut SequenceView) {
        if self.budget.sampling.has_gaps() {
            view.without_split = Some("MPI calls are watched in windows (--budget)".to_owned());
            return;
        }
        if let Some(of_late) = &mut view.efficiencies_of_late {
            of_late.split = self.profile.collectives.split_of_late().ok();
        }
        let Some(efficiencies) = &mut view.efficiencies else {
            return;
        };
        if let Some(why) = self.without_ranks(efficiencies.ranks) {
            view.without_split = Some(why.to_owned());
            return;
        }
        match self.profile.collectives.split() {
            Ok(split) => efficiencies.split = Some(split),
            Err(why) => view.without_split = Some(why.to_string()),
        }
    }

    /// Why so many ranks are not known to be all of the job.
    fn without_ranks(&self, ranks: usize) -> Option<&'static str> {
        match self.job.size() {
            None => Some("nothing states how many ranks the job has"),
            Some(size) if size != ranks => Some("ranks of the job on other machines are not seen"),
            Some(_) => None,
        }
    }

    /// Of the lowest rank that has a loop.
    pub(super) fn iteration(&self) -> Option<IterationView> {
        let by_rank = |process: &&Metered| (process.rank.unwrap_or(u32::MAX), process.pid);
        let looping = self.profile.processes.iter().filter(|process| {
            let iterations = process.sequence.iterations();
            iterations.is_some_and(|iterations| iterations.whole().count > 0)
        });
        let process = looping.min_by_key(by_rank)?;
        let iterations = process.sequence.iterations()?;
        let is_over = process.ended || process.sequence.current() != Some(iterations);
        let since = |pace: &Pace| Duration::from_nanos(pace.until_ns.saturating_sub(self.armed_ns));
        Some(IterationView {
            rank: process.rank,
            calls: iterations.calls,
            count: iterations.whole().count,
            mean_ns: iterations.whole().mean_ns(),
            of_late_ns: iterations.recent_ns().filter(|_| !is_over),
            change: iterations.change(),
            is_over,
            parts: iterations
                .parts()
                .iter()
                .map(|part| PaceView {
                    until: since(part),
                    count: part.count,
                    mean_ns: part.mean_ns(),
                })
                .collect(),
        })
    }

    fn why_none(&self) -> String {
        let most = self
            .profile
            .processes
            .iter()
            .map(|process| process.sequence.calls())
            .max();
        let noun = self.steps().noun();
        let whose = if self.has_mpi() { "rank" } else { "process" };
        match most.unwrap_or_default() {
            calls if calls < CALLS_LEAST => format!("too few {noun}s were seen: {calls}"),
            calls => format!(
                "the last {} {noun}s of a {whose} have none",
                calls.min(rules::period::WINDOW as u64)
            ),
        }
    }

    fn efficiencies(&self, useful: fn(&Metered) -> Option<(f64, bool)>) -> Option<EfficienciesView> {
        let of_mpi = self.profile.processes.iter().zip(&self.job.members);
        let ranks: Vec<&Metered> = of_mpi
            .filter(|(_, member)| member.mpi.is_some())
            .map(|(process, _)| process)
            .collect();
        let shares: Vec<(f64, bool)> = ranks.iter().filter_map(|process| useful(process)).collect();
        if shares.len() < ranks.len() {
            return None;
        }
        let of = Efficiencies::of(&[shares.iter().map(|(share, _)| *share).collect()])?;
        Some(EfficienciesView {
            of,
            // Ranks on other machines are not seen, and so not how they compare with these.
            between_nodes: (self.job.size() == Some(shares.len())).then_some(of.between_nodes),
            split: None,
            useful_ns: None,
            scalability: None,
            ranks: shares.len(),
            nodes: 1,
            over_iterations: shares.iter().all(|(_, whole)| *whole),
        })
    }

    /// Time in MPI by call site, over all ranks: the greatest, and all others together.
    pub(super) fn name_call_sites(&mut self, view: &mut SequenceView) {
        let mut sums: BTreeMap<(String, Place), CallSiteView> = BTreeMap::new();
        let mut others = SiteTotals::default();
        for (process, member) in self.profile.processes.iter().zip(&self.job.members) {
            let mut sites: Vec<_> = process.sequence.sites().iter().collect();
            sites.sort_by_key(|(site, totals)| (std::cmp::Reverse(totals.time_ns), *site));
            for (_, totals) in sites.drain(CALL_SITES_MAX.min(sites.len())..) {
                others.calls += totals.calls;
                others.time_ns += totals.time_ns;
            }
            let addresses: Vec<u64> = sites.iter().map(|(site, _)| site.address).collect();
            let now = member.space_now(self.scout.images());
            let modules = &now.as_ref().unwrap_or(&member.space).modules;
            let places = self.namer.places(modules, &addresses);
            for ((site, totals), place) in sites.into_iter().zip(places) {
                let probe = self.probes.list().get(site.probe as usize);
                let function = probe.map_or_else(|| "?".to_owned(), |probe| probe.name.clone());
                let sum = sums.entry((function, place)).or_default();
                sum.calls += totals.calls;
                sum.time_ns += totals.time_ns;
                sum.ranks += 1;
            }
            let rest = process.sequence.sites().others();
            others.calls += rest.calls;
            others.time_ns += rest.time_ns;
        }
        let named = |((function, place), sum)| CallSiteView {
            function,
            place,
            ..sum
        };
        let mut all: Vec<CallSiteView> = sums.into_iter().map(named).collect();
        all.sort_by_key(|site| std::cmp::Reverse((site.time_ns, site.calls)));
        for site in all.drain(CALL_SITES_MAX.min(all.len())..) {
            others.calls += site.calls;
            others.time_ns += site.time_ns;
        }
        view.call_sites = all;
        view.other_call_sites = others;
    }
}
