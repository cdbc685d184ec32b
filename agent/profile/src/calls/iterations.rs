//! The iterations of a loop: how long they take, how that changes over the run, and the share of their time
//! outside MPI.

use std::{collections::VecDeque, mem, ops::Range};

use super::CallSite;
use abi::Call;

/// Number of iteration begins that are kept for the recent values.
const RECENT: usize = 512;

/// The recent values cover about this much time, in nanoseconds, and at least three iterations.
const RECENT_NS: u64 = 2_000_000_000;

/// The recent values cover at least this many iterations.
const RECENT_MIN: usize = 3;

/// Parts of the run whose pace is kept, each of the same time. When there are more, adjacent parts are merged in
/// pairs. Parts are of time, not of iterations: so those before a change that makes iterations far shorter
/// contain none of after it.
const PARTS: usize = 64;

/// Time of a part in the beginning, in nanoseconds.
const PART_NS: u64 = 1_000;

/// The begin of a call: its site and time, and how long the thread had been inside MPI by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallBegin {
    pub site: CallSite,
    pub at_ns: u64,
    /// Earlier time of the thread inside MPI.
    pub mpi_ns: u64,
}

impl CallBegin {
    /// The entry of a call.
    pub fn of(call: &Call) -> CallBegin {
        CallBegin {
            site: CallSite::of(call),
            at_ns: call.entered_ns,
            mpi_ns: call.closed_ns.saturating_sub(call.duration_ns),
        }
    }
}

/// How long iterations took in a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// When the last of them ended, by CLOCK_MONOTONIC.
    pub until_ns: u64,
    pub count: u64,
    pub sum_ns: u64,
    /// The shortest and the longest of them.
    pub least_ns: u64,
    pub most_ns: u64,
}

impl Pace {
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }

    fn add(&mut self, other: Pace) {
        self.least_ns = match self.count {
            0 => other.least_ns,
            _ => self.least_ns.min(other.least_ns),
        };
        self.most_ns = self.most_ns.max(other.most_ns);
        self.until_ns = self.until_ns.max(other.until_ns);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }
}

/// For this time after its first iteration a loop does not count for the change of its pace, in nanoseconds:
/// a program that shares its CPUs may run several times as fast or as slow while the probes are attached.
const SETTLE_NS: u64 = 1_000_000_000;

/// Calls and time of a loop whose functions are sampled, in windows from their begin to their end. The iterations
/// that a window contains completely are shorter than the mean: its end cuts more of the long ones.
#[derive(Clone, Debug, Default, PartialEq)]
struct WatchedTime {
    /// Calls up to the newest begin of an iteration, and their time in nanoseconds.
    calls: u64,
    ns: u64,
    /// The time since then.
    newer_ns: u64,
    /// From here on time is not added yet; `None` between two windows.
    since_ns: Option<u64>,
    /// A window has ended.
    has_gaps: bool,
}

impl WatchedTime {
    fn since(at_ns: u64) -> WatchedTime {
        WatchedTime {
            since_ns: Some(at_ns),
            ..WatchedTime::default()
        }
    }

    fn elapse(&mut self, until_ns: u64) {
        if let Some(since_ns) = &mut self.since_ns {
            self.newer_ns += until_ns.saturating_sub(*since_ns);
            *since_ns = until_ns.max(*since_ns);
        }
    }

    /// An iteration begins: the calls since the last begin belong to the loop, which the program might have left.
    fn begin(&mut self, at_ns: u64, newer_calls: u64) {
        self.elapse(at_ns);
        self.calls += newer_calls;
        self.ns += mem::take(&mut self.newer_ns);
    }
}

/// The iterations of one loop in one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Iterations {
    /// Mean number of calls in the iterations by which the loop was found.
    found_calls: f64,
    /// Calls of the iterations that were observed completely.
    calls: u64,
    /// Calls since the newest begin.
    newer_calls: u64,
    /// Estimated number of iterations before the first one.
    before: f64,
    first: Option<CallBegin>,
    recent: VecDeque<CallBegin>,
    /// The current iteration was observed from its begin.
    is_complete: bool,
    /// `None` before the first begin, and once calls were missed at an unknown time.
    watched: Option<WatchedTime>,
    overall: Pace,
    parts: Vec<Pace>,
    /// Time of a part, in nanoseconds.
    part_ns: u64,
}

impl Iterations {
    /// Of a loop with this mean number of calls in the iterations by which it was found.
    pub fn new(found_calls: f64) -> Iterations {
        Iterations {
            found_calls,
            part_ns: PART_NS,
            ..Iterations::default()
        }
    }

    /// Mean number of calls in an iteration.
    pub fn calls(&self) -> f64 {
        match self.overall.count {
            0 => self.found_calls,
            count => self.calls as f64 / count as f64,
        }
    }

    /// Iterations of this estimated number preceded the first one, and their calls are no longer kept.
    pub fn begin_after(&mut self, before: f64) {
        self.before = before;
    }

    pub fn before(&self) -> f64 {
        self.before
    }

    /// Whether most of the time of another loop lies in this one.
    pub fn covers(&self, other: &Iterations) -> bool {
        let Some((first_ns, other_ns)) = self.first_ns().zip(other.first_ns()) else {
            return false;
        };
        first_ns < other_ns + other.elapsed_ns() / 2
    }

    /// Iterations that ended so far. Those in gaps are estimated by their time; `None` before the first end.
    pub fn done(&self) -> Option<f64> {
        let overall = self.overall();
        (overall.count > 0).then(|| self.before + (self.elapsed_ns() as f64 / self.mean_ns()).round())
    }

    /// The mean time of an iteration. If calls are sampled, it is estimated by the calls in the windows.
    pub fn mean_ns(&self) -> f64 {
        let watched = self.watched.as_ref();
        match watched.filter(|watched| watched.has_gaps && watched.calls > 0) {
            Some(watched) => watched.ns as f64 / watched.calls as f64 * self.calls(),
            None => self.overall.mean_ns(),
        }
    }

    /// An iteration begins and the previous one ends. Returns the time range of the previous one, if it was
    /// observed completely.
    pub fn begin(&mut self, mark: CallBegin) -> Option<Range<u64>> {
        if self.first.is_none() {
            self.first = Some(mark);
            self.watched = Some(WatchedTime::since(mark.at_ns));
        }
        if let Some(watched) = &mut self.watched {
            watched.begin(mark.at_ns, self.newer_calls);
        }
        let before = self.recent.back().copied().filter(|_| self.is_complete);
        if let Some(before) = before {
            let length_ns = mark.at_ns.saturating_sub(before.at_ns);
            let one = Pace {
                until_ns: mark.at_ns,
                count: 1,
                sum_ns: length_ns,
                least_ns: length_ns,
                most_ns: length_ns,
            };
            self.overall.add(one);
            self.enter(one);
            self.calls += self.newer_calls;
        }
        self.newer_calls = 0;
        self.is_complete = true;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(mark);
        while self.recent.len() > RECENT_MIN + 1 && mark.at_ns - self.recent[1].at_ns >= RECENT_NS {
            self.recent.pop_front();
        }
        before.map(|before| before.at_ns..mark.at_ns)
    }

    /// The thread makes a call, possibly that which begins an iteration.
    pub fn call(&mut self) {
        self.newer_calls += 1;
    }

    /// Calls were missed, and possibly begins of iterations with them.
    pub fn gap(&mut self) {
        self.is_complete = false;
        self.watched = self.watched.take().filter(|watched| watched.since_ns.is_none());
    }

    /// A sampling window ends, possibly inside a call: calls are missed from here on.
    pub fn close_window(&mut self, at_ns: u64, is_inside: bool) {
        if is_inside {
            self.call();
        }
        if let Some(watched) = &mut self.watched {
            watched.elapse(at_ns);
            (watched.since_ns, watched.has_gaps) = (None, true);
        }
    }

    /// A sampling window begins: calls before it were missed.
    pub fn open(&mut self, at_ns: u64) {
        self.gap();
        if let Some(watched) = &mut self.watched {
            watched.since_ns = Some(at_ns);
        }
    }

    /// Memory of the parts at most, in bytes: they and a new one.
    #[cfg(test)]
    pub(crate) const PARTS_BYTES_MAX: usize = (PARTS + 1) * size_of::<Pace>();

    fn enter(&mut self, one: Pace) {
        if self.parts.len() == self.parts.capacity() {
            self.parts
                .reserve_exact(self.parts.len().max(4).min(PARTS + 1 - self.parts.len()));
        }
        self.parts.push(one);
        let from_ns = self.first_ns().unwrap_or_default();
        let number = |pace: &Pace, part_ns: u64| pace.until_ns.saturating_sub(from_ns) / part_ns;
        if let [.., last, new] = self.parts.as_mut_slice()
            && number(last, self.part_ns) == number(new, self.part_ns)
        {
            last.add(*new);
            self.parts.pop();
        }
        while self.parts.len() > PARTS {
            self.part_ns *= 2;
            let is_one_part = |a: &Pace, b: &Pace| number(a, self.part_ns) == number(b, self.part_ns);
            self.parts = self.parts.chunk_by(is_one_part).map(together).collect();
        }
    }

    /// The pace of all iterations that were observed completely.
    pub fn overall(&self) -> Pace {
        self.overall
    }

    /// The pace of each part of the run, in order of time; at most 64 parts.
    pub fn parts(&self) -> &[Pace] {
        &self.parts
    }

    /// The mean time of recent iterations; `None` before two begins without a gap between them.
    pub fn recent_ns(&self) -> Option<f64> {
        let part = self.parts.iter().rev();
        let mut recent = Pace::default();
        for part in part {
            if recent.count >= RECENT_MIN as u64 && recent.sum_ns >= RECENT_NS / 2 {
                break;
            }
            recent.add(*part);
        }
        (recent.count > 0).then(|| recent.mean_ns())
    }

    /// Mean time of an iteration in the last quarter of the run divided by that in the first, without the time
    /// in which attaching disturbs the program; `None` with fewer than eight parts.
    pub fn change(&self) -> Option<f64> {
        let settled_ns = self.first_ns()?.saturating_add(SETTLE_NS);
        let settled = self.parts.partition_point(|part| part.until_ns < settled_ns);
        let parts = &self.parts[settled..];
        let quarter = parts.len() / 4;
        if quarter < 2 {
            return None;
        }
        let first = together(&parts[..quarter]);
        let last = together(&parts[parts.len() - quarter..]);
        Some(last.mean_ns() / first.mean_ns())
    }

    /// The call that begins each iteration; `None` before the first one.
    pub fn begins_at(&self) -> Option<CallSite> {
        self.first.map(|first| first.site)
    }

    /// When the first iteration began, by CLOCK_MONOTONIC; `None` before.
    pub fn first_ns(&self) -> Option<u64> {
        self.first.map(|first| first.at_ns)
    }

    /// When the newest iteration began.
    pub fn newest_ns(&self) -> Option<u64> {
        self.recent.back().map(|begin| begin.at_ns)
    }

    /// When the iteration began that has not ended; `None` if calls were missed since.
    pub fn open_since_ns(&self) -> Option<u64> {
        let newest = self.recent.back().filter(|_| self.is_complete);
        newest.map(|begin| begin.at_ns)
    }

    /// The time from the first begin to the last.
    pub fn elapsed_ns(&self) -> u64 {
        self.over_all().map_or(0, |(from, to)| to.at_ns - from.at_ns)
    }

    /// The time inside MPI between the first begin and the last.
    pub fn mpi_ns(&self) -> u64 {
        let ends = self.over_all();
        ends.map_or(0, |(from, to)| to.mpi_ns.saturating_sub(from.mpi_ns))
    }

    /// The share of the time outside MPI, over all complete iterations.
    pub fn useful(&self) -> Option<f64> {
        useful(self.over_all()?)
    }

    /// The share of the time outside MPI, over recent iterations.
    pub fn recent_useful(&self) -> Option<f64> {
        useful((*self.recent.front()?, *self.recent.back()?))
    }

    fn over_all(&self) -> Option<(CallBegin, CallBegin)> {
        Some((self.first?, *self.recent.back()?))
    }
}

fn useful((from, to): (CallBegin, CallBegin)) -> Option<f64> {
    let elapsed = to.at_ns.checked_sub(from.at_ns).filter(|elapsed| *elapsed > 0)?;
    let mpi = to.mpi_ns.checked_sub(from.mpi_ns)?;
    Some(1.0 - (mpi as f64 / elapsed as f64).min(1.0))
}

fn together(parts: &[Pace]) -> Pace {
    let mut sum = Pace::default();
    parts.iter().for_each(|part| sum.add(*part));
    sum
}
