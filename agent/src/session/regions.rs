//! Parallel regions of OpenMP, probed without a rule: all the time where that costs the program little, else now and then. What they tell is
//! kept with each process ([`Watched`]).

use std::{collections::BTreeSet, ops::Range};

use abi::Thread;

use super::Session;
use crate::{
    calls::{Part, Teams},
    clock::monotonic_ns,
    discover::{Job, Member},
    format::{count, percent},
    kernel::KernelError,
    probe::{Probe, Probes, Sought, Wanted},
    profile::Reading,
    snapshot::{RegionsView, TeamsView},
};

/// What a call costs the thread that makes it, entry and return, in nanoseconds: two traps whose instructions are single-stepped.
const CALL_NS: f64 = 18_000.0;

/// Where a region takes fewer times as long as the probes of one call, they are too great a part of it for its time to be told.
const DISTORTED: f64 = 10.0;

/// What the probes may cost of the program's time, on average: the whole profile is to stay below 1 %.
const BUDGET: f64 = 0.003;

/// They stay until they have cost so much, in nanoseconds.
const SPEND_NS: f64 = 20e6;

/// And then rest for so long at least.
const REST_LEAST_NS: u64 = 5_000_000_000;

/// More threads than this together, and what each does in a region is not recorded: the kernel side has room for twice as many.
const THREADS_MAX: u64 = abi::MAX_THREADS as u64 / 2;

/// Where regions stand among what is wanted, and when they are probed.
#[derive(Clone, Debug, Default)]
pub(super) struct Regions {
    wanted: Range<usize>,
    /// Since when they are probed; none while they rest.
    since_ns: Option<u64>,
    /// Until when they rest.
    until_ns: u64,
    /// Calls by slot when they were switched on.
    before: Vec<f64>,
    is_told: bool,
}

/// What was seen of the regions of a process.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// What its teams do.
    pub teams: Teams,
    regions: u64,
    inside_ns: u64,
    watched_ns: u64,
    before: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    at_ns: u64,
    regions: u64,
    inside_ns: u64,
}

impl Watched {
    /// Takes note of a reading; `since_ns` says since when regions are probed.
    pub fn read(&mut self, reading: &Reading, probes: &[Probe], since_ns: Option<u64>) {
        let Some(since_ns) = since_ns else {
            self.before = None;
            return;
        };
        let mut now = Moment {
            at_ns: reading.at_ns,
            regions: 0,
            inside_ns: 0,
        };
        for (probe, totals) in
            of_regions(probes).filter_map(|probe| Some((probe, reading.totals.get(probe)?)))
        {
            now.regions += totals.calls;
            // A call that was open when the probes were taken off has no end.
            let is_seen = |open: &&(u32, u64)| {
                open.0 as usize == probe && open.1 <= reading.at_ns.saturating_sub(since_ns)
            };
            now.inside_ns +=
                totals.time_ns + reading.open.iter().filter(is_seen).map(|(_, ns)| ns).sum::<u64>();
        }
        if let Some(before) = self.before {
            self.regions += now.regions - before.regions.min(now.regions);
            self.inside_ns += now.inside_ns.saturating_sub(before.inside_ns);
            self.watched_ns += now.at_ns - before.at_ns.min(now.at_ns);
            now.inside_ns = now.inside_ns.max(before.inside_ns);
        }
        self.before = Some(now);
    }

    /// As it is shown; none where no region was seen.
    pub fn view(&self, has_bodies: bool) -> Option<RegionsView> {
        let is_distorted = (self.inside_ns as f64) < DISTORTED * CALL_NS * self.regions as f64;
        let teams = self.teams.totals().filter(|_| !is_distorted);
        (self.regions > 0 && self.watched_ns > 0).then(|| RegionsView {
            regions: self.regions,
            inside_ns: (!is_distorted).then_some(self.inside_ns),
            watched_ns: self.watched_ns,
            teams: teams.map(TeamsView::from),
            without_teams: match (teams, is_distorted, has_bodies) {
                (Some(_), _, _) => None,
                (None, true, _) => {
                    Some("its regions are so short that the probes are too great a part of them")
                }
                (None, false, true) => Some("no region of its first thread was seen from begin to end"),
                (None, false, false) => {
                    Some("the functions that its regions run have no symbols, or are too many")
                }
            },
        })
    }
}

/// The numbers of the probes of regions.
fn of_regions(probes: &[Probe]) -> impl Iterator<Item = usize> + '_ {
    let regions = probes
        .iter()
        .enumerate()
        .filter(|(_, probe)| probe.part() == Some(Part::Region));
    regions.map(|(number, _)| number)
}

/// Whether what each thread does in a region is recorded.
pub(super) fn has_bodies(probes: &[Probe]) -> bool {
    probes.iter().any(|probe| probe.part() == Some(Part::Body))
}

impl Regions {
    /// Asks for them beside the others.
    pub(super) fn ask(job: &Job, wanted: &mut Vec<Wanted>) -> Regions {
        let first = wanted.len();
        wanted.push(Wanted::quietly(Sought::OpenmpRegion));
        let threads = job.members.iter().map(threads_of);
        if threads.sum::<u64>() <= THREADS_MAX {
            wanted.push(Wanted::quietly(Sought::OpenmpBody));
        }
        Regions {
            wanted: first..wanted.len(),
            ..Regions::default()
        }
    }

    /// Which of the wanted they are.
    pub(super) fn wanted(&self) -> Range<usize> {
        self.wanted.clone()
    }

    /// Since when they are probed; none where they are not.
    pub(super) fn since_ns(&self) -> Option<u64> {
        self.since_ns
    }

    /// Whether they are probed, now or now and then.
    fn is_there(&self) -> bool {
        self.since_ns.is_some() || self.until_ns > 0
    }

    /// They are probed from now on, where there are any.
    pub(super) fn begin(&mut self, probes: &Probes, now_ns: u64) {
        let is_on = probes.is_on(self.wanted.start) && of_regions(probes.list()).next().is_some();
        self.since_ns = is_on.then_some(now_ns);
    }
}

fn threads_of(member: &Member) -> u64 {
    let process = procfs::process::Process::new(member.process.pid.number);
    let stat = process.and_then(|process| process.stat());
    stat.map_or(1, |stat| stat.num_threads.max(1) as u64)
}

impl Session {
    /// Whether parallel regions are seen, now or now and then.
    pub(super) fn has_regions(&self) -> bool {
        self.regions.is_there()
    }

    /// Keeps what the probes of regions cost within bounds.
    pub(super) fn mind_regions(&mut self) -> Result<(), KernelError> {
        if !self.has_regions() {
            return Ok(());
        }
        let now = monotonic_ns();
        // A rule that counts them for a while is not disturbed.
        let is_used = self.probes.is_used_by_others(self.regions.wanted.start);
        match self.regions.since_ns {
            Some(since) => {
                let before = |slot: usize| self.regions.before.get(slot).copied().unwrap_or_default();
                let calls = self.calls_of_regions().into_iter().enumerate();
                let most = calls
                    .map(|(slot, calls)| calls - before(slot))
                    .fold(0.0, f64::max);
                let cost = CALL_NS * most;
                let elapsed = now.saturating_sub(since) as f64;
                if is_used || (cost > SPEND_NS && cost > BUDGET * elapsed) {
                    self.rest(now.max(since + (cost / BUDGET) as u64), now)?;
                    self.tell_of_rest(cost / elapsed.max(1.0), is_used);
                }
            }
            None if now >= self.regions.until_ns && !is_used && !self.probes.is_closing() => self.go_on()?,
            None => {}
        }
        Ok(())
    }

    /// Calls of regions and their bodies so far, by process, as many as one thread makes of them.
    fn calls_of_regions(&self) -> Vec<f64> {
        let probes = self.probes.list();
        let parts = || {
            probes
                .iter()
                .zip(0..)
                .filter_map(|(probe, number)| Some((probe.part()?, number)))
        };
        let calls = |process: &super::Metered| {
            let threads = process
                .last()
                .and_then(|last| last.counters)
                .map_or(1, |counters| counters.threads);
            let of = |(part, number): (Part, u32)| {
                let calls =
                    self.probes
                        .kernel()
                        .map_or(0, |kernel| kernel.calls_of(process.slot, number)) as f64;
                match part {
                    Part::Region => calls,
                    Part::Body => calls / threads.max(1) as f64,
                }
            };
            parts().map(of).sum()
        };
        self.processes.iter().map(calls).collect()
    }

    fn tell_of_rest(&mut self, share: f64, is_used: bool) {
        if std::mem::replace(&mut self.regions.is_told, true) || is_used {
            return;
        }
        let rate = self
            .processes
            .iter()
            .filter_map(|process| process.regions.rate())
            .fold(0.0, f64::max);
        self.screen.say(&format!(
            "note: parallel regions are probed now and then: {} a second are so short that it would cost about {}",
            count(rate.round()),
            percent(share),
        ));
    }

    fn rest(&mut self, until_ns: u64, now: u64) -> Result<(), KernelError> {
        // What was seen up to now counts.
        self.read()?;
        self.regions.since_ns = None;
        self.regions.until_ns = until_ns.max(now + REST_LEAST_NS);
        self.switch_regions(false)?;
        self.read()
    }

    fn go_on(&mut self) -> Result<(), KernelError> {
        self.take_calls()?;
        let probes = self.probes.list();
        let parts = probes.iter().zip(0..).filter(|(probe, _)| probe.part().is_some());
        let parts: BTreeSet<u32> = parts.map(|(_, number)| number).collect();
        self.forget_open(|probe| parts.contains(&probe), |thread| thread.inside == 0)?;
        for process in &mut self.processes {
            process.regions.teams.gap();
            if self.job.members.iter().all(|member| member.mpi.is_none()) {
                process.sequence.gap();
            }
        }
        self.switch_regions(true)?;
        self.regions.since_ns = Some(monotonic_ns());
        self.regions.before = self.calls_of_regions();
        self.read()
    }

    fn switch_regions(&mut self, on: bool) -> Result<(), KernelError> {
        let living = self.processes.iter().filter(|process| process.is_watched());
        let members =
            living.filter_map(|process| Some((process.slot, self.job.members.get(process.slot as usize)?)));
        let members: Vec<_> = members.collect();
        for want in self.regions.wanted() {
            self.probes.switch(want, on, &members)?;
        }
        Ok(())
    }

    /// Calls that were open when their probes were taken off would be open for ever: records of threads that have one go, where they may.
    pub(super) fn forget_open(
        &mut self,
        is_off: impl Fn(u32) -> bool,
        may_go: impl Fn(&Thread) -> bool,
    ) -> Result<(), KernelError> {
        let Some(kernel) = self.probes.kernel() else {
            return Ok(());
        };
        let threads: Vec<(u64, Thread)> = kernel.threads()?;
        self.threads = None;
        let has_open = |thread: &Thread| {
            let open = thread.frames.iter().take(thread.depth as usize);
            open.into_iter().any(|frame| is_off(frame.probe))
        };
        let gone: Vec<(u64, Thread)> = threads
            .into_iter()
            .filter(|(_, thread)| has_open(thread) && may_go(thread))
            .collect();
        self.take_out(&gone, |process, _, thread| {
            process.take_over(thread);
            true
        })
    }
}

impl Watched {
    /// Regions a second, while they were probed.
    fn rate(&self) -> Option<f64> {
        (self.watched_ns > 0).then(|| self.regions as f64 * 1e9 / self.watched_ns as f64)
    }
}
