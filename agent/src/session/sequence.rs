//! Results of the sequences of MPI calls, or of parallel regions, for the job: iterations, efficiencies, call
//! sites. Combines the results of `profile` for each process; reads files only to name call sites.

use std::{collections::BTreeMap, time::Duration};

use job::{Member, Namer};
use tuner::{Address, Images, Module, bytes_to_caller};

use probe::kernel::{Kernel, KernelError};
use profile::cost::{Prices, ProbeTimes, Probed};
use profile::probe::Probe;
use profile::{
    CallSite, CallSiteView, Collectives, Efficiencies, EfficienciesView, IterationView, LeftLoop, LoopBegin,
    Metered, Pace, PaceView, Scalability, SequenceView, SiteTotals, SourcePlace, Steps, TeamPart,
    is_library_of_bindings, mpi,
};
use report::{Reference, Trace};

/// Maximum number of call sites shown one by one.
const CALL_SITES_MAX: usize = 20;

/// Calls that are searched for loops at once, over all processes, so that the session is not held up: with a
/// process that has no loop, about 4 ms.
const SEARCHED_MAX: usize = rules::period::WINDOW_MAX;

/// Minimum number of calls in which a loop can be detected.
const CALLS_MIN: u64 = 12;

/// The rings of calls of all processes.
pub(super) struct Rings<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) probes: &'a [Probe],
    pub(super) processes: &'a mut [Metered],
    pub(super) collectives: &'a mut Collectives,
    pub(super) trace: Option<&'a mut Trace>,
    pub(super) prices: Option<Prices>,
    pub(super) probed: &'a BTreeMap<u32, Probed>,
    pub(super) has_mpi: bool,
    pub(super) has_regions: bool,
    /// Regions are not probed now; those that are recorded while links are being closed do not count.
    pub(super) are_regions_resting: bool,
    /// All ranks of the job are watched here.
    pub(super) are_all_here: bool,
}

impl Rings<'_> {
    /// Reads the newest calls from the rings, before they are overwritten. Returns false if there are none.
    pub(super) fn read(mut self) -> Result<bool, KernelError> {
        let kernel = self.kernel;
        self.collectives.expect(match self.are_all_here {
            true => self.processes.len(),
            false => 0,
        });
        let has_called = |process: &Metered| {
            !process.ended && kernel.calls_so_far(process.slot) != Some(process.sequence.next())
        };
        if !self.processes.iter().any(has_called) {
            return Ok(false);
        }
        let probes = self.probes;
        let mpi_of = |probe: u32| probes.get(probe as usize).and_then(|probe| probe.mpi);
        let keeps_together = |probe: u32| mpi_of(probe).is_some_and(mpi::MpiFunction::keeps_all_together);
        let times = |number| match (&self.prices, self.probed.get(&number)) {
            (Some(prices), Some(probed)) => prices.probe_times(probed),
            _ => ProbeTimes::default(),
        };
        let parts = (0..)
            .zip(probes)
            .map(|(number, probe)| Some((probe.part()?, times(number))));
        let parts: Vec<Option<(TeamPart, ProbeTimes)>> = parts.collect();
        let part = |probe: u32| parts.get(probe as usize).copied().flatten();
        let is_region = |probe: u32| part(probe).is_some_and(|(part, _)| part == TeamPart::Region);
        let (has_mpi, are_resting) = (self.has_mpi, self.are_regions_resting);
        let running = self.processes.iter_mut().enumerate();
        for (place, process) in running.filter(|(_, process)| !process.ended) {
            let (skipped, calls) = kernel.calls(process.slot, process.sequence.next())?;
            self.collectives.take(place, &calls, skipped, keeps_together);
            if self.has_regions {
                let teams = &mut process.regions.teams;
                teams.take(process.pid.unsigned_abs(), &calls, skipped, part);
            }
            if let Some(trace) = &mut self.trace {
                trace.calls(process.whose(), &calls, probes);
            }
            let Metered {
                sequence, regions, ..
            } = process;
            sequence.take(calls, skipped, |call| match has_mpi {
                true => mpi_of(call.probe).is_some(),
                false => is_region(call.probe) && regions.has_seen(call, are_resting),
            });
        }
        self.collectives.meet();
        Ok(true)
    }
}

/// Searches for loops in the calls that were read from the rings.
pub(super) fn look_for_loops(processes: &mut [Metered], mut trace: Option<&mut Trace>, now_ns: u64) {
    let mut room = SEARCHED_MAX;
    for process in processes.iter_mut().filter(|process| !process.ended) {
        process.sequence.look(now_ns, &mut room);
        let ended = process.sequence.take_ended();
        let whose = process.whose();
        if let Some(trace) = &mut trace {
            let iterations = ended.iter();
            iterations.for_each(|ended| trace.iteration(whose, ended.thread, &ended.range));
        }
        process.regions.ended = ended;
    }
}

/// The processes of a job with their calls.
#[derive(Clone, Copy)]
pub(super) struct JobCalls<'a> {
    pub(super) processes: &'a [Metered],
    pub(super) members: &'a [Member],
    pub(super) collectives: &'a Collectives,
    /// Number of ranks of the job, if known.
    pub(super) size: Option<usize>,
    pub(super) can_probe: bool,
    pub(super) has_regions: bool,
    /// MPI was not watched for some of the time.
    pub(super) has_gaps: bool,
    pub(super) reference: Option<Reference>,
    pub(super) armed_ns: u64,
}

impl JobCalls<'_> {
    /// Whether there are calls in which a loop can be detected.
    pub(super) fn has_sequence(&self) -> bool {
        self.can_probe && (self.has_mpi() || self.has_regions)
    }

    fn has_mpi(&self) -> bool {
        self.members.iter().any(|member| member.mpi.is_some())
    }

    fn steps(&self) -> Steps {
        if self.has_mpi() {
            Steps::MpiCalls
        } else {
            Steps::Regions
        }
    }

    pub(super) fn view(&self) -> SequenceView {
        let mut view = SequenceView {
            steps: self.steps(),
            unseen: self
                .processes
                .iter()
                .map(|process| process.sequence.unseen())
                .sum(),
            elsewhere: self
                .processes
                .iter()
                .map(|process| process.sequence.elsewhere())
                .sum(),
            efficiencies: self.efficiencies(Metered::useful),
            recent_efficiencies: self.efficiencies(Metered::recent_useful),
            ..SequenceView::default()
        };
        if self.has_sequence() {
            view.iteration = self.iteration();
            // A library of OpenMP may be loaded and never called.
            let is_used = self.has_mpi() || self.processes.iter().any(|process| process.sequence.calls() > 0);
            view.without = (view.iteration.is_none() && is_used).then(|| self.why_none());
        }
        self.add_split(&mut view);
        self.add_scalability(&mut view);
        view
    }

    /// Adds the computation of an iteration, and how that compares with another run.
    fn add_scalability(&self, view: &mut SequenceView) {
        let Some(efficiencies) = &mut view.efficiencies else {
            return;
        };
        let of_mpi = self.processes.iter().zip(self.members);
        let useful = of_mpi
            .filter(|(_, member)| member.mpi.is_some())
            .map(|(process, _)| {
                let iterations = process.iterations()?;
                Some(iterations.useful()? * iterations.mean_ns()).filter(|_| iterations.overall().count > 0)
            });
        efficiencies.useful_ns = useful.sum();
        let now = efficiencies
            .useful_ns
            .filter(|_| self.without_ranks(efficiencies.ranks).is_none());
        let both = self.reference.zip(now);
        efficiencies.scalability = both.and_then(|(before, now)| {
            Scalability::of((before.useful_ns, before.ranks), (now, efficiencies.ranks))
        });
        view.without_scalability = match (self.reference, efficiencies.scalability) {
            (None, _) | (_, Some(_)) => None,
            _ => Some(
                self.without_ranks(efficiencies.ranks)
                    .unwrap_or("not every rank has a detected loop"),
            ),
        };
    }

    /// Adds the factors of communication efficiency, or the reason why there are none.
    fn add_split(&self, view: &mut SequenceView) {
        if self.has_gaps {
            view.without_split = self
                .has_mpi()
                .then(|| "MPI calls are sampled (--budget)".to_owned());
            return;
        }
        if let Some(recent) = &mut view.recent_efficiencies {
            recent.split = self.collectives.recent_split().ok();
        }
        let Some(efficiencies) = &mut view.efficiencies else {
            return;
        };
        if let Some(why) = self.without_ranks(efficiencies.ranks) {
            view.without_split = Some(why.to_owned());
            return;
        }
        match self.collectives.split() {
            Ok(split) => efficiencies.split = Some(split),
            Err(why) => view.without_split = Some(why.to_string()),
        }
    }

    /// Why it is unknown whether these ranks are all of the job.
    fn without_ranks(&self, ranks: usize) -> Option<&'static str> {
        match self.size {
            None => Some("nothing states how many ranks the job has"),
            Some(size) if size != ranks => Some("ranks of the job on other machines are not seen"),
            Some(_) => None,
        }
    }

    /// The iterations of the lowest rank that has a loop.
    pub(super) fn iteration(&self) -> Option<IterationView> {
        let process = looping(self.processes, self.has_mpi())?;
        let iterations = process.sequence.iterations()?;
        let is_over = process.ended || process.sequence.current() != Some(iterations);
        let since_armed = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(self.armed_ns));
        let view = |pace: &Pace| PaceView {
            until: since_armed(pace.until_ns),
            count: pace.count,
            mean_ns: pace.mean_ns(),
            least_ns: pace.least_ns as f64,
            most_ns: pace.most_ns as f64,
        };
        let before = process.sequence.before();
        Some(IterationView {
            rank: process.rank,
            calls: iterations.calls(),
            count: iterations.overall().count,
            mean_ns: iterations.mean_ns(),
            recent_ns: iterations.recent_ns().filter(|_| !is_over),
            change: iterations.change(),
            is_over,
            begins_at: None,
            before: before.map(|before| LeftLoop {
                calls: before.calls(),
                from: since_armed(before.first_ns().unwrap_or_default()),
                pace: view(&before.overall()),
            }),
            parts: iterations.parts().iter().map(view).collect(),
        })
    }

    fn why_none(&self) -> String {
        let most = self
            .processes
            .iter()
            .map(|process| process.sequence.calls())
            .max();
        let has_mpi = self.has_mpi();
        if self
            .processes
            .iter()
            .any(|process| is_distorted(process, has_mpi))
        {
            return "parallel regions are so short that the probes would distort the time of a step"
                .to_owned();
        }
        let searched = self.processes.iter().map(|process| process.sequence.searched());
        let noun = self.steps().noun();
        let whose = if has_mpi { "rank" } else { "process" };
        match most.unwrap_or_default() {
            calls if calls < CALLS_MIN => format!("too few {noun}s were seen: {calls}"),
            calls => format!(
                "the last {} {noun}s of a {whose} have none",
                calls.min(searched.max().unwrap_or_default() as u64)
            ),
        }
    }

    fn efficiencies(&self, useful: fn(&Metered) -> Option<(f64, bool)>) -> Option<EfficienciesView> {
        let of_mpi = self.processes.iter().zip(self.members);
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
            // Ranks on other machines are not watched, so they cannot be compared with these.
            between_nodes: (self.size == Some(shares.len())).then_some(of.between_nodes),
            split: None,
            useful_ns: None,
            scalability: None,
            ranks: shares.len(),
            nodes: 1,
            over_iterations: shares.iter().all(|(_, overall)| *overall),
        })
    }
}

/// The process of the lowest rank that has iterations.
pub(super) fn looping(processes: &[Metered], has_mpi: bool) -> Option<&Metered> {
    let by_rank = |process: &&Metered| (process.rank.unwrap_or(u32::MAX), process.pid);
    let looping = processes.iter().filter(|process| {
        let iterations = process.sequence.iterations();
        iterations.is_some_and(|iterations| iterations.overall().count > 0) && !is_distorted(process, has_mpi)
    });
    looping.min_by_key(by_rank)
}

/// Whether the iterations of a process consist of regions that the probes make much longer.
fn is_distorted(process: &Metered, has_mpi: bool) -> bool {
    !has_mpi && process.regions.is_distorted()
}

/// New call sites within language bindings are looked through from now on: calls from there are assigned to
/// the callers of the bindings.
pub(super) fn see_through_bindings(
    processes: &mut [Metered],
    members: &[Member],
    kernel: &mut Kernel,
    images: &Images,
) -> Result<(), KernelError> {
    for (process, member) in processes.iter_mut().zip(members) {
        let new = process.sequence.take_new_sites();
        if new.is_empty() || member.mpi.is_none() {
            continue;
        }
        let now = member.space_now(images);
        let modules = &now.as_ref().unwrap_or(&member.space).modules;
        let bindings = modules
            .iter()
            .filter(|module| is_library_of_bindings(module.file_name()));
        for module in bindings {
            for site in new.iter().filter(|site| module.contains(Address(site.address))) {
                if let Some(to_caller) = bytes_to_caller(module, Address(site.address)) {
                    kernel.see_through(process.slot, site.address, to_caller)?;
                }
            }
        }
    }
    Ok(())
}

/// Time in MPI by call site, over all ranks: the greatest ones, and all others together. Names the call that begins
/// the loop that is shown, too.
pub(super) fn name_call_sites(
    namer: &mut Namer,
    processes: &[Metered],
    members: &[Member],
    probes: &[Probe],
    images: &Images,
    view: &mut SequenceView,
) {
    let mut sums: BTreeMap<(String, SourcePlace), PlaceSum> = BTreeMap::new();
    let mut others = SiteTotals::default();
    let has_mpi = members.iter().any(|member| member.mpi.is_some());
    let shown_loop = looping(processes, has_mpi).map(|process| process.slot);
    for (number, (process, member)) in processes.iter().zip(members).enumerate() {
        let mut sites: Vec<_> = process.sequence.sites().iter().collect();
        sites.sort_by_key(|(site, totals)| (std::cmp::Reverse(totals.time_ns), *site));
        for (_, totals) in sites.drain(CALL_SITES_MAX.min(sites.len())..) {
            others.calls += totals.calls;
            others.time_ns += totals.time_ns;
        }
        let addresses: Vec<u64> = sites.iter().map(|(site, _)| site.address).collect();
        let now = member.space_now(images);
        let modules = &now.as_ref().unwrap_or(&member.space).modules;
        if let (true, Some(iteration)) = (shown_loop == Some(process.slot), &mut view.iteration) {
            iteration.begins_at = loop_begin(namer, process, probes, modules);
        }
        let places = namer.places(modules, &addresses);
        for ((site, totals), place) in sites.into_iter().zip(places) {
            sums.entry((function_of(probes, site), place))
                .or_default()
                .add(number, totals);
        }
        let rest = process.sequence.sites().others;
        others.calls += rest.calls;
        others.time_ns += rest.time_ns;
    }
    let named = |((function, place), sum): (_, PlaceSum)| CallSiteView {
        function,
        place,
        ..sum.of
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

/// The call that begins each iteration of the loop of a process; `None` if its file is no longer mapped.
fn loop_begin(
    namer: &mut Namer,
    process: &Metered,
    probes: &[Probe],
    modules: &[Module],
) -> Option<LoopBegin> {
    let site = process.sequence.iterations()?.begins_at()?;
    let address = Address(site.address);
    let module = modules.iter().find(|module| module.contains(address))?;
    Some(LoopBegin {
        function: function_of(probes, site),
        place: namer.places(modules, &[site.address]).remove(0),
        build_id: module.build_id().map(ToString::to_string),
        address: module.link(address).0,
    })
}

fn function_of(probes: &[Probe], site: CallSite) -> String {
    let probe = probes.get(site.probe as usize);
    probe.map_or_else(|| "?".to_owned(), |probe| probe.name.clone())
}

/// The calls from one place in the source. A rank can have several call sites there.
#[derive(Default)]
struct PlaceSum {
    of: CallSiteView,
    last: Option<usize>,
}

impl PlaceSum {
    /// Adds a call site of a process; those of one process follow one another.
    fn add(&mut self, process: usize, totals: SiteTotals) {
        self.of.calls += totals.calls;
        self.of.time_ns += totals.time_ns;
        self.of.ranks += u64::from(self.last.replace(process) != Some(process));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_with_two_call_sites_in_one_place_counts_once() {
        let mut sum = PlaceSum::default();
        let totals = SiteTotals { calls: 5, time_ns: 7 };
        for process in [0, 0, 1] {
            sum.add(process, totals);
        }
        assert_eq!((sum.of.ranks, sum.of.calls, sum.of.time_ns), (2, 15, 21));
    }

    fn calls<'a>(collectives: &'a Collectives, size: Option<usize>) -> JobCalls<'a> {
        JobCalls {
            processes: &[],
            members: &[],
            collectives,
            size,
            can_probe: true,
            has_regions: true,
            has_gaps: false,
            reference: None,
            armed_ns: 0,
        }
    }

    #[test]
    fn ranks_are_all_of_the_job_only_where_that_is_stated() {
        let collectives = Collectives::default();
        for (size, why) in [
            (None, Some("nothing states how many ranks the job has")),
            (Some(8), Some("ranks of the job on other machines are not seen")),
            (Some(4), None),
        ] {
            assert_eq!(calls(&collectives, size).without_ranks(4), why, "{size:?}");
        }
    }

    #[test]
    fn a_sequence_without_a_call_says_nothing_of_a_loop() {
        let collectives = Collectives::default();
        let calls = calls(&collectives, None);
        let view = calls.view();
        assert_eq!(view.steps, Steps::Regions);
        assert!(view.iteration.is_none() && view.without.is_none() && view.efficiencies.is_none());
        assert_eq!(calls.why_none(), "too few parallel regions were seen: 0");
    }

    #[test]
    fn there_is_a_sequence_where_functions_are_probed_and_there_is_something_to_follow() {
        let collectives = Collectives::default();
        let with = |can_probe, has_regions| {
            let calls = JobCalls {
                can_probe,
                has_regions,
                ..calls(&collectives, None)
            };
            calls.has_sequence()
        };
        assert!(with(true, true));
        assert!(!with(false, true) && !with(true, false));
    }
}
