//! Analyses the sequence of a program's MPI calls, or of its parallel regions if it has no MPI: the detected
//! loop, the duration of its iterations and their useful share, and the time by call site.
//!
//! The calls come from the rings of the kernel side (`Kernel::calls`), so none is an event. Calls that were
//! overwritten before they were read are counted as unseen. Pure: the times come with the calls.

mod bindings;
mod boundaries;
mod collectives;
pub(crate) mod efficiency;
mod iterations;
pub(crate) mod place;
pub(crate) mod scaling;
mod sites;
mod teams;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
};

use abi::Call;
use rules::period::{Detector, Look, WINDOW};

pub use self::boundaries::{BoundarySide, IterationBoundary, IterationNumbers};
pub(crate) use self::boundaries::{IterationTeams, LoopSeen};
pub use self::collectives::{Collectives, Split};
pub(crate) use self::iterations::CallBegin;
pub use self::iterations::{Iterations, Pace};
pub use self::scaling::{
    Baseline, Inflation, Losses, PredictedSize, Ratio, ScalingLaw, ScalingPrediction, ScalingView, SizeView,
    SpeedupHint, UnusedIteration, Visit,
};
pub(crate) use self::sites::CallSites;
pub use self::sites::{CallSite, SiteTotals};
pub(crate) use self::teams::Teams;
pub use self::teams::{TeamPart, TeamTotals};
pub use bindings::is_library_of_bindings;

/// Threads of a process whose calls are analysed; calls of further threads are only counted.
const THREADS_MAX: usize = 16;

/// While no loop is known, a full window is searched this often, in nanoseconds, and a longer one as much more
/// seldom: a search that finds nothing takes up to half a millisecond for each 4 096 calls.
const LOOK_FIRST_NS: u64 = 1_000_000_000;

/// While a loop is known, the search for another one is repeated after this time, in nanoseconds. Each search
/// that finds the same loop doubles the time, up to the second value.
const LOOK_AGAIN_NS: u64 = 2_000_000_000;
const LOOK_SELDOM_NS: u64 = 8_000_000_000;

/// A loop that was left is shown instead of the current one if it took this many times as long.
const FAR_LONGER: u64 = 4;

/// The calls of one process, in order.
#[derive(Debug, Default)]
pub struct Sequence {
    next: u64,
    /// Calls that were overwritten before they were read.
    unseen: u64,
    threads: BTreeMap<u32, Thread>,
    /// Calls of threads beyond those that are analysed.
    elsewhere: u64,
    sites: CallSites,
}

/// A complete iteration of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedIteration {
    pub thread: u32,
    /// Counts the loops that were found in the thread, from 1.
    pub loop_number: u32,
    /// By CLOCK_MONOTONIC, in nanoseconds.
    pub range: Range<u64>,
}

/// An iteration that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct OpenIteration {
    pub thread: u32,
    pub of: LoopSeen,
    pub begin_ns: u64,
    /// When the last call of the thread ended: nothing of the thread is missing until then.
    pub last_end_ns: u64,
}

/// Calls of one thread.
#[derive(Debug, Default)]
struct Thread {
    number: u32,
    calls: u64,
    /// When its last call ended.
    last_end_ns: u64,
    detector: Detector,
    /// The begins of the calls in the detector's window.
    marks: VecDeque<CallBegin>,
    current: Option<Iterations>,
    /// The loop that took longest of those that were left.
    longest: Option<Iterations>,
    /// Iterations that ended since the last call of `take_ended`.
    ended: Vec<EndedIteration>,
    /// Number of loops that were found so far.
    loops: u32,
    looked_ns: u64,
    /// Number of calls at the last search.
    looked_calls: u64,
    /// Consecutive searches that found the known loop.
    same: u32,
}

impl Sequence {
    /// The number of the next call to read.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn unseen(&self) -> u64 {
        self.unseen
    }

    /// Calls of threads beyond `THREADS_MAX`, which are only counted.
    pub fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    pub fn sites(&self) -> &CallSites {
        &self.sites
    }

    /// Call sites that became known since the previous use of this function.
    pub fn take_new_sites(&mut self) -> Vec<CallSite> {
        self.sites.take_new()
    }

    /// Takes the content of the process's ring: calls from `next` on, in order, `None` for each that was
    /// overwritten. `is_of_loop` selects the calls that form loops.
    pub fn take(
        &mut self,
        calls: impl IntoIterator<Item = Option<Call>>,
        skipped: u64,
        mut is_of_loop: impl FnMut(&Call) -> bool,
    ) {
        self.skip(skipped);
        for call in calls {
            self.next += 1;
            match call {
                Some(call) if is_of_loop(&call) => self.push(&call),
                Some(_) => {}
                None => {
                    self.next -= 1;
                    self.skip(1);
                }
            }
        }
    }

    /// Calls were not recorded for some time.
    pub fn gap(&mut self) {
        self.threads.values_mut().for_each(Thread::gap);
    }

    /// A sampling window ends: calls are not recorded from here on, nor is one in which a thread is.
    pub fn close_window(&mut self, at_ns: u64, is_inside: bool) {
        let main = self.main_thread();
        for thread in self.threads.values_mut() {
            let is_inside = is_inside && Some(thread.number) == main;
            if let Some(current) = &mut thread.current {
                current.close_window(at_ns, is_inside);
            }
        }
    }

    /// A sampling window begins: calls before it were not recorded.
    pub fn open(&mut self, at_ns: u64) {
        for thread in self.threads.values_mut() {
            thread.forget();
            if let Some(current) = &mut thread.current {
                current.open(at_ns);
            }
        }
    }

    /// Skips calls up to this number, because calls between them were not recorded.
    pub fn pass(&mut self, next: u64) {
        self.next = self.next.max(next);
        self.gap();
    }

    /// Searches for loops if a search is due. `room` is how many calls may still be searched; the last search
    /// may exceed it.
    pub fn look(&mut self, now_ns: u64, room: &mut usize) {
        for thread in self.threads.values_mut() {
            thread.look(now_ns, room);
        }
    }

    /// The thread that makes the most calls.
    pub fn main_thread(&self) -> Option<u32> {
        self.main().map(|thread| thread.number)
    }

    /// The iteration of the main thread that has not ended; `None` if none was observed from its begin.
    pub fn open_iteration(&self) -> Option<OpenIteration> {
        let thread = self.main()?;
        let current = thread.current.as_ref()?;
        Some(OpenIteration {
            thread: thread.number,
            of: LoopSeen {
                ordinal: thread.loops,
                length_ns: current.mean_ns() as u64,
            },
            begin_ns: current.open_since_ns()?,
            last_end_ns: thread.last_end_ns,
        })
    }

    /// The iterations that ended since the previous use of this function. To be called as often as `look`.
    pub fn take_ended(&mut self) -> Vec<EndedIteration> {
        let threads = self.threads.values_mut();
        threads.flat_map(|thread| thread.ended.drain(..)).collect()
    }

    /// The iterations of the thread that makes the most calls: those of its current loop, unless an earlier
    /// loop took far longer.
    pub fn iterations(&self) -> Option<&Iterations> {
        let thread = self.main()?;
        let longest = thread.longest.as_ref();
        let far_longer = FAR_LONGER * thread.current.as_ref().map_or(0, Iterations::elapsed_ns);
        longest
            .filter(|longest| longest.elapsed_ns() > far_longer)
            .or(thread.current.as_ref())
    }

    /// The earlier loop that took longest; `None` if [`Sequence::iterations`] already returns it.
    pub fn before(&self) -> Option<&Iterations> {
        let longest = self.main()?.longest.as_ref();
        longest.filter(|longest| longest.overall().count > 0 && self.iterations() != Some(longest))
    }

    /// The iterations of the current loop.
    pub fn current(&self) -> Option<&Iterations> {
        self.main()?.current.as_ref()
    }

    /// Calls of the thread that makes the most of them.
    pub fn calls(&self) -> u64 {
        self.main().map_or(0, |thread| thread.calls)
    }

    /// Calls of that thread in which a loop was searched last.
    pub fn searched(&self) -> usize {
        self.main().map_or(0, |thread| thread.detector.seen())
    }

    fn main(&self) -> Option<&Thread> {
        self.threads.values().max_by_key(|thread| thread.calls)
    }

    fn skip(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.next += count;
        self.unseen += count;
        // Their threads are unknown.
        self.threads.values_mut().for_each(Thread::gap);
    }

    fn push(&mut self, call: &Call) {
        self.sites.add(call);
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&call.thread) {
            self.elsewhere += 1;
            return;
        }
        let thread = self.threads.entry(call.thread).or_default();
        thread.number = call.thread;
        thread.push(call);
    }
}

impl Thread {
    fn push(&mut self, call: &Call) {
        self.calls += 1;
        self.last_end_ns = call.entered_ns + call.duration_ns;
        let mark = CallBegin::of(call);
        if self.marks.len() >= self.detector.capacity() {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
        if self.detector.push(way_to(call)) {
            self.begin(mark);
        }
        if let Some(current) = &mut self.current {
            current.call();
        }
    }

    /// An iteration of the current loop begins.
    fn begin(&mut self, mark: CallBegin) {
        let ended = self.current.as_mut().and_then(|current| current.begin(mark));
        self.ended.extend(ended.map(|range| EndedIteration {
            thread: self.number,
            loop_number: self.loops,
            range,
        }));
    }

    /// Calls of other iterations come next.
    fn forget(&mut self) {
        self.marks.clear();
        self.detector.gap();
    }

    fn gap(&mut self) {
        self.forget();
        if let Some(current) = &mut self.current {
            current.gap();
        }
    }

    fn look(&mut self, now_ns: u64, room: &mut usize) {
        let is_known = self.detector.known().is_some();
        // With few calls only an inner loop can be detected. The loop around it must be found before its
        // first iterations have left the window.
        let has_doubled = self.calls >= 2 * self.looked_calls;
        let period_ns = match (is_known, self.detector.is_overdue()) {
            (false, _) => LOOK_FIRST_NS * (self.detector.capacity() / WINDOW) as u64,
            (true, true) => LOOK_AGAIN_NS,
            (true, false) => LOOK_SELDOM_NS.min(LOOK_AGAIN_NS << self.same.min(2)),
        };
        if *room == 0 || (!has_doubled && now_ns.saturating_sub(self.looked_ns) < period_ns) {
            return;
        }
        *room = room.saturating_sub(self.detector.seen());
        (self.looked_ns, self.looked_calls) = (now_ns, self.calls);
        let look = self.detector.look();
        self.same = match look {
            Look::Same => self.same.saturating_add(1),
            Look::Left | Look::Found(_) => 0,
        };
        match look {
            Look::Same => {}
            Look::Left => self.leave(),
            Look::Found(ago) => {
                self.leave();
                let Some(known) = self.detector.known() else {
                    return;
                };
                let mut current = Iterations::new(known.calls);
                let newest = self.marks.len().saturating_sub(1);
                let begun_at = ago.iter().max().and_then(|ago| newest.checked_sub(*ago));
                let lost = self.calls - self.marks.len() as u64;
                // If the window begins within an iteration, all calls so far are taken as the loop's.
                if let Some(at) = begun_at.filter(|at| lost > 0 && (*at as f64) < known.calls) {
                    current.begin_after(((lost + at as u64) as f64 / known.calls).round());
                }
                self.current = Some(current);
                self.loops += 1;
                let begins: BTreeSet<usize> = ago.iter().filter_map(|ago| newest.checked_sub(*ago)).collect();
                for at in begins.first().copied().unwrap_or(usize::MAX)..self.marks.len() {
                    if begins.contains(&at) {
                        self.begin(self.marks[at]);
                    }
                    if let Some(current) = &mut self.current {
                        current.call();
                    }
                }
                // That was an inner loop, found first.
                let is_inner = |left: &Iterations| self.current.as_ref().is_some_and(|now| now.covers(left));
                self.longest = self.longest.take().filter(|left| !is_inner(left));
            }
        }
    }

    fn leave(&mut self) {
        let Some(left) = self.current.take() else { return };
        let elapsed_ns = |iterations: &Iterations| iterations.elapsed_ns();
        if self.longest.as_ref().map_or(0, elapsed_ns) < left.elapsed_ns() {
            self.longest = Some(left);
        }
    }
}

/// The site combined with the stack depth: a function that is called from two places calls MPI at one site
/// over two ways.
fn way_to(call: &Call) -> u64 {
    call.site ^ u64::from(call.stack).rotate_left(40)
}
