//! Takes account of what the session costs: calls and CPU time of the job, the agent's own, how long hits lie unread. What it comes to is
//! [`crate::cost`]'s.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    os::unix::fs::FileExt,
    time::Duration,
};

use procfs::{ProcError, process::Process};
use rustix::time::{ClockId, clock_gettime};
use tuner::site::Cost;

use super::{Session, meter::Metered};
use crate::cost::{Account, AgentCost, CostView, Fullness, Probed, Slowdown, UnreadView};

/// Rates speak of about this much time.
const PERIOD_NS: u64 = 1_000_000_000;

/// The agent's own counters are read this often at most.
const LOOK_NS: u64 = Duration::from_millis(400).as_nanos() as u64;

/// What a session takes note of.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// How long it took to arm.
    arming_ns: u64,
    /// The actuator's number, where there is one.
    pub(super) actuator: Option<i32>,
    /// The agent's own, the newest last; what was spent before the first is told apart.
    looks: VecDeque<(u64, AgentCost)>,
    starting_ns: Option<u64>,
    /// Our own file in /proc, which stays open: a look at it is one system call then.
    statm: Option<File>,
    unread: Unread,
    /// How full the machine was, over the session and since the last look of late.
    fullness: Fullness,
    seen_ns: u64,
    /// How functions are probed, and of how many sites and wishes that is true.
    probed: ((usize, usize), BTreeMap<u32, Probed>),
}

/// Hits are to lie unread no longer than this, in nanoseconds.
const LATE_NS: u64 = 5_000_000;

/// The longest that hits lay unread, in nanoseconds: in this period, in the one before, in all.
#[derive(Debug, Default)]
struct Unread {
    since_ns: u64,
    now: Option<u64>,
    before: Option<u64>,
    most: Option<u64>,
    reads: u64,
    late: u64,
}

impl Unread {
    fn add(&mut self, lay_ns: u64, now_ns: u64) {
        self.turn(now_ns);
        self.now = self.now.max(Some(lay_ns));
        self.most = self.most.max(Some(lay_ns));
        self.reads += 1;
        self.late += u64::from(lay_ns > LATE_NS);
    }

    fn turn(&mut self, now_ns: u64) {
        let periods = now_ns.saturating_sub(self.since_ns) / PERIOD_NS;
        if periods > 0 {
            self.before = self.now.take().filter(|_| periods == 1);
            self.since_ns = now_ns;
        }
    }

    fn view(&self) -> Option<UnreadView> {
        Some(UnreadView {
            of_late_ns: self.now.max(self.before).unwrap_or_default(),
            most_ns: self.most?,
            reads: self.reads,
            late: self.late,
        })
    }
}

impl Costs {
    /// Of a session that took so long to arm.
    pub(super) fn armed_in(arming_ns: u64) -> Costs {
        Costs {
            arming_ns,
            ..Costs::default()
        }
    }

    /// So many CPUs are idle since the last time.
    pub(super) fn see_idle(&mut self, idle: f64, now_ns: u64) {
        if self.seen_ns > 0 {
            self.fullness.add(idle, now_ns.saturating_sub(self.seen_ns));
        }
        self.seen_ns = now_ns;
    }

    /// A hit that came then is read now.
    pub(super) fn read_hit(&mut self, hit_ns: u64, now_ns: u64) {
        self.unread.add(now_ns.saturating_sub(hit_ns), now_ns);
    }

    /// Reads the agent's own counters, if it is time for it.
    fn look(&mut self, now_ns: u64) {
        self.unread.turn(now_ns);
        let is_new = |(at_ns, _): &(u64, AgentCost)| now_ns.saturating_sub(*at_ns) < LOOK_NS;
        if self.looks.back().is_some_and(is_new) {
            return;
        }
        let mut sum = self.own();
        // Its time is lost to us when it has ended: what was seen of it stays.
        if let Some(actuator) = self.actuator.and_then(of_process) {
            sum.cpu_ns += actuator.cpu_ns;
            let both = sum.resident_bytes.zip(actuator.resident_bytes);
            sum.resident_bytes = both.map(|(own, actuator)| own + actuator);
        }
        sum.starting_ns = *self.starting_ns.get_or_insert(sum.cpu_ns);
        sum.cpu_ns = sum.cpu_ns.saturating_sub(sum.starting_ns);
        sum.cpu_ns = sum
            .cpu_ns
            .max(self.looks.back().map_or(0, |(_, last)| last.cpu_ns));
        self.looks.push_back((now_ns, sum));
        while self.looks.len() > 2 && now_ns.saturating_sub(self.looks[1].0) >= PERIOD_NS {
            self.looks.pop_front();
        }
    }

    /// This process.
    fn own(&mut self) -> AgentCost {
        if self.statm.is_none() {
            self.statm = File::open("/proc/self/statm").ok();
        }
        AgentCost {
            cpu_ns: own_cpu_ns(),
            starting_ns: 0,
            resident_bytes: self.statm.as_ref().and_then(resident_bytes),
        }
    }

    pub(super) fn agent(&self) -> AgentCost {
        self.looks.back().map(|(_, last)| *last).unwrap_or_default()
    }

    /// How each function is probed, or was.
    pub(super) fn probed(&self) -> &BTreeMap<u32, Probed> {
        &self.probed.1
    }

    /// Time on a CPU and time, of late.
    fn agent_of_late(&self) -> Option<(u64, u64)> {
        let ((from, first), (until, last)) = self.looks.front().zip(self.looks.back())?;
        Some((last.cpu_ns - first.cpu_ns, until - from)).filter(|(_, elapsed)| *elapsed > 0)
    }
}

/// What this process has taken of CPUs.
pub(super) fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The second number of a statm.
fn resident_bytes(statm: &File) -> Option<u64> {
    let mut text = [0; 128];
    let length = statm.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * procfs::page_size())
}

/// None of one that has ended.
fn of_process(pid: i32) -> Option<AgentCost> {
    match Process::new(pid).and_then(|process| process.stat()) {
        Ok(stat) => Some(AgentCost {
            cpu_ns: (stat.utime + stat.stime) * 1_000_000_000 / procfs::ticks_per_second(),
            starting_ns: 0,
            resident_bytes: Some(stat.rss * procfs::page_size()),
        }),
        Err(ProcError::NotFound(_)) => None,
        Err(_) => Some(AgentCost::default()),
    }
}

impl Session {
    /// Takes note of what is spent up to now.
    pub(super) fn take_account(&mut self, now_ns: u64) {
        self.costs.look(now_ns);
        let of = (self.probes.site_count(), self.probes.wanted_count());
        if self.costs.probed.0 != of {
            // What was taken off for a while is known all the same.
            self.costs.probed.0 = of;
            self.costs.probed.1.extend(self.probes.probed());
        }
    }

    /// What it came to.
    pub(super) fn cost(&self) -> Option<CostView> {
        let prices = self.probes.prices()?;
        let price = |probe: usize| {
            let known = self.probes.list().get(probe)?;
            let probed = self.costs.probed.1.get(&u32::try_from(probe).ok()?)?;
            Some((
                known.name.as_str(),
                site_name(probed.entry),
                prices.call_ns(probed),
            ))
        };
        let sum = |spent: fn(&Metered) -> Option<Spent>| {
            let (mut account, mut slowdown) = (Account::default(), Slowdown::default());
            for spent in self.processes.iter().filter_map(spent) {
                let ns = |(probe, calls): &(usize, u64)| price(*probe).map(|(_, _, ns)| ns * *calls as f64);
                let probes_ns = spent.calls.iter().filter_map(ns).sum();
                slowdown.delay(probes_ns, spent.cpu_ns, spent.elapsed_ns);
                account.add(spent.calls, spent.cpu_ns);
            }
            (account, slowdown)
        };
        let ((whole, mut slowdown), (late, mut slowdown_of_late)) =
            (sum(Metered::spent), sum(Metered::spent_of_late));
        let (probes, of_late) = (whole.costs(price), late.costs(price));
        let mut of_late = late.of_late(&of_late, self.costs.agent_of_late());
        // The last second may be all of a window, or none.
        if let Some(shares) = self.sampling.of_late() {
            (of_late.probes, of_late.together) = shares.unzip();
            of_late.dearest = None;
            slowdown_of_late.probes = slowdown.probes;
        }
        let full = self.costs.fullness.part();
        slowdown_of_late.agent = of_late.agent.unwrap_or_default() * full;
        of_late.slowdown = of_late.agent.map(|_| slowdown_of_late);
        let watched_ns = self.read_ns.saturating_sub(self.start.armed_ns).max(1);
        slowdown.agent = self.costs.agent().cpu_ns as f64 / watched_ns as f64 * full;
        Some(CostView {
            arming_ns: self.costs.arming_ns,
            job_ns: whole.job_ns(),
            held: self.changes.held(),
            agent: self.costs.agent(),
            slowdown,
            of_late,
            unread: self.costs.unread.view(),
            windows: self.windows_view(),
            probes,
            prices,
        })
    }
}

/// As the report has it.
fn site_name(site: Cost) -> &'static str {
    match site {
        Cost::Optimised => "optimised",
        Cost::Emulated => "emulated",
        Cost::Stepped => "stepped",
        Cost::Unknown => "unknown",
    }
}

/// What a process spent between two readings.
struct Spent {
    /// By probe, nested ones included.
    calls: Vec<(usize, u64)>,
    /// Time on a CPU.
    cpu_ns: u64,
    elapsed_ns: u64,
}

impl Metered {
    /// Between the first reading and the last; none where /proc does not tell.
    fn spent(&self) -> Option<Spent> {
        self.spent_since(self.first()?)
    }

    /// The same of late; none of a process that has ended.
    fn spent_of_late(&self) -> Option<Spent> {
        self.oldest()
            .filter(|_| !self.ended)
            .and_then(|oldest| self.spent_since(oldest))
    }

    fn spent_since(&self, first: &crate::profile::Reading) -> Option<Spent> {
        let last = self.last()?;
        let cpu_ns = |reading: &crate::profile::Reading| Some(reading.counters?.cpu_ns);
        let cpu_ns = cpu_ns(last)?.saturating_sub(cpu_ns(first)?);
        let hits = |reading: &crate::profile::Reading, probe: usize| {
            let totals = reading.counted.get(probe);
            totals.map_or(0, |totals| totals.calls + totals.nested)
        };
        let probes = 0..last.counted.len();
        let calls = probes.map(|probe| (probe, hits(last, probe).saturating_sub(hits(first, probe))));
        Some(Spent {
            calls: calls.collect(),
            cpu_ns,
            elapsed_ns: last.at_ns.saturating_sub(first.at_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_of_late_is_forgotten_and_the_longest_of_all_is_not() {
        let mut unread = Unread::default();
        let view = |unread: &Unread| unread.view().map(|view| (view.of_late_ns, view.most_ns));
        assert_eq!(view(&unread), None);
        unread.add(900, PERIOD_NS);
        unread.add(20, PERIOD_NS + 1);
        assert_eq!(view(&unread), Some((900, 900)));
        unread.add(30, 2 * PERIOD_NS + 1);
        assert_eq!(view(&unread), Some((900, 900)));
        unread.add(40, 3 * PERIOD_NS + 1);
        assert_eq!(view(&unread), Some((40, 900)));
        unread.turn(9 * PERIOD_NS);
        assert_eq!(view(&unread), Some((0, 900)));
    }

    #[test]
    fn reads_that_find_hits_which_lay_too_long_are_counted() {
        let mut unread = Unread::default();
        for lay_ns in [1, LATE_NS, LATE_NS + 1, 10 * LATE_NS] {
            unread.add(lay_ns, PERIOD_NS);
        }
        let counted = unread.view().map(|view| (view.reads, view.late));
        assert_eq!(counted, Some((4, 2)));
    }

    #[test]
    fn our_own_time_and_memory_are_read() {
        let mut costs = Costs::default();
        costs.look(1);
        let first = costs.agent();
        assert!(
            first.cpu_ns == 0 && first.starting_ns > 0 && first.resident_bytes > Some(100_000),
            "{first:?}"
        );
        assert_eq!(costs.agent_of_late(), None);
        costs.look(1 + LOOK_NS);
        let (cpu_ns, elapsed_ns) = costs.agent_of_late().unwrap();
        assert!(cpu_ns > 0 && elapsed_ns == LOOK_NS, "{cpu_ns} ns");
    }

    #[test]
    fn memory_that_proc_does_not_tell_is_none_rather_than_0() {
        // A file that is not what it should be.
        let mut costs = Costs {
            statm: File::open("/dev/null").ok(),
            ..Costs::default()
        };
        costs.look(1);
        assert_eq!(costs.agent().resident_bytes, None);
        assert_eq!(of_process(i32::MAX), None, "nobody has that number");
    }
}
