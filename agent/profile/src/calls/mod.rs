//! Analyses the sequence of a program's MPI calls, or of its parallel regions if it has no MPI: the detected
//! loop, how long its iterations take, how much of them is useful, and at which call sites the time is spent.
//!
//! The calls come out of the rings of the kernel side (`Kernel::calls`), so none is an event. Calls that were
//! overwritten before they were read are counted as not seen. Pure: the times come with the calls.

mod bindings;
mod collectives;
pub(crate) mod efficiency;
mod iterations;
pub(crate) mod place;
mod sites;
mod teams;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use abi::Call;
use rules::period::{Detector, Look, WINDOW};

pub use self::collectives::{Collectives, Split};
pub(crate) use self::iterations::CallBegin;
pub use self::iterations::{Iterations, Pace};
pub use self::sites::SiteTotals;
pub(crate) use self::sites::{CallSite, CallSites};
pub(crate) use self::teams::Teams;
pub use self::teams::{TeamPart, TeamTotals};
pub use bindings::is_library_of_bindings;

/// Threads of a process whose calls are looked at; those of others are counted.
const THREADS_MAX: usize = 16;

/// While a loop is known, whether there is another one is looked for this often, in nanoseconds; and after
/// each look that finds the same half as often, down to a bound.
const LOOK_AGAIN_NS: u64 = 2_000_000_000;
const LOOK_SELDOM_NS: u64 = 8_000_000_000;

/// A loop that was left is shown instead of the current one if it took this many times as long.
const FAR_LONGER: u64 = 4;

/// Calls of one process as they come.
#[derive(Debug, Default)]
pub struct Sequence {
    next: u64,
    /// Calls that were overwritten before they were read.
    unseen: u64,
    threads: BTreeMap<u32, Thread>,
    /// Calls of threads beyond those that are looked at.
    elsewhere: u64,
    sites: CallSites,
}

/// Calls of one thread.
#[derive(Debug, Default)]
struct Thread {
    calls: u64,
    detector: Detector,
    /// Where the calls of the detector's window began.
    marks: VecDeque<CallBegin>,
    current: Option<Iterations>,
    /// Of loops that were left, the one that took longest.
    longest: Option<Iterations>,
    /// Iterations that ended since the last call of `take_ended`.
    ended: Vec<Range<u64>>,
    looked_ns: u64,
    /// Calls there were at the last look.
    looked_calls: u64,
    /// Looks in a row that found the loop that was known.
    same: u32,
}

impl Sequence {
    /// The number of the next call that is wanted.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn unseen(&self) -> u64 {
        self.unseen
    }

    /// Calls that nothing more is known of than their number: their threads are too many.
    pub fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    pub fn sites(&self) -> &CallSites {
        &self.sites
    }

    /// Call sites that became known since the last call.
    pub fn take_new_sites(&mut self) -> Vec<CallSite> {
        self.sites.take_new()
    }

    /// What the ring of the process had: calls from `next` on, in their order, `None` for each that was
    /// overwritten. `is_of_loop` says of which probes loops are made.
    pub fn take(
        &mut self,
        calls: impl IntoIterator<Item = Option<Call>>,
        skipped: u64,
        is_of_loop: impl Fn(u32) -> bool,
    ) {
        self.skip(skipped);
        for call in calls {
            self.next += 1;
            match call {
                Some(call) if is_of_loop(call.probe) => self.push(&call),
                Some(_) => {}
                None => {
                    self.next -= 1;
                    self.skip(1);
                }
            }
        }
    }

    /// Calls were not recorded for a while.
    pub fn gap(&mut self) {
        self.threads.values_mut().for_each(Thread::gap);
    }

    /// Calls up to this number are not looked at: others between them were not recorded.
    pub fn pass(&mut self, next: u64) {
        self.next = self.next.max(next);
        self.gap();
    }

    /// Looks for loops, where it is time to.
    pub fn look(&mut self, now_ns: u64) {
        for thread in self.threads.values_mut() {
            thread.look(now_ns);
        }
    }

    /// The iterations that ended since the last call: in which thread, from when to when. The search for
    /// loops calls it as often.
    pub fn take_ended(&mut self) -> Vec<(u32, Range<u64>)> {
        let threads = self.threads.iter_mut();
        threads
            .flat_map(|(number, thread)| thread.ended.drain(..).map(move |ended| (*number, ended)))
            .collect()
    }

    /// The iterations of the thread that makes most calls: those of now, unless it was in another loop for
    /// far longer.
    pub fn iterations(&self) -> Option<&Iterations> {
        let thread = self.main()?;
        let longest = thread.longest.as_ref();
        let far_longer = FAR_LONGER * thread.current.as_ref().map_or(0, Iterations::elapsed_ns);
        longest
            .filter(|longest| longest.elapsed_ns() > far_longer)
            .or(thread.current.as_ref())
    }

    /// Of the loops that were left before it came into those iterations, the one that took longest.
    pub fn before(&self) -> Option<&Iterations> {
        let longest = self.main()?.longest.as_ref();
        longest.filter(|longest| longest.overall().count > 0 && self.iterations() != Some(longest))
    }

    /// Those of the loop that it is in now.
    pub fn current(&self) -> Option<&Iterations> {
        self.main()?.current.as_ref()
    }

    /// Calls of the thread that makes most of them.
    pub fn calls(&self) -> u64 {
        self.main().map_or(0, |thread| thread.calls)
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
        // Whose they were is not known.
        self.threads.values_mut().for_each(Thread::gap);
    }

    fn push(&mut self, call: &Call) {
        self.sites.add(call);
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&call.thread) {
            self.elsewhere += 1;
            return;
        }
        self.threads.entry(call.thread).or_default().push(call);
    }
}

impl Thread {
    fn push(&mut self, call: &Call) {
        self.calls += 1;
        let mark = CallBegin::of(call);
        if self.marks.len() == WINDOW {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
        if self.detector.push(way_to(call))
            && let Some(current) = &mut self.current
        {
            self.ended.extend(current.begin(mark));
        }
    }

    fn gap(&mut self) {
        self.marks.clear();
        self.detector.gap();
        if let Some(current) = &mut self.current {
            current.gap();
        }
    }

    fn look(&mut self, now_ns: u64) {
        let is_known = self.detector.known().is_some();
        // Of few calls an inner loop is all that is to be seen: the one around it must be found before its
        // first iterations have left the window.
        let has_doubled = self.calls >= 2 * self.looked_calls;
        let period_ns = match self.detector.is_overdue() {
            true => LOOK_AGAIN_NS,
            false => LOOK_SELDOM_NS.min(LOOK_AGAIN_NS << self.same.min(2)),
        };
        if is_known && !has_doubled && now_ns.saturating_sub(self.looked_ns) < period_ns {
            return;
        }
        (self.looked_ns, self.looked_calls) = (now_ns, self.calls);
        let look = self.detector.look();
        self.same = match look {
            Look::Same => self.same.saturating_add(1),
            Look::Left | Look::Found(_) => 0,
        };
        match look {
            Look::Same => {
                if let (Some(current), Some(known)) = (&mut self.current, self.detector.known()) {
                    current.calls = known.calls;
                }
            }
            Look::Left => self.leave(),
            Look::Found(ago) => {
                self.leave();
                let Some(known) = self.detector.known() else {
                    return;
                };
                let mut found = Iterations::new(known.calls);
                let newest = self.marks.len().saturating_sub(1);
                for mark in ago
                    .iter()
                    .filter_map(|ago| self.marks.get(newest.checked_sub(*ago)?))
                {
                    self.ended.extend(found.begin(*mark));
                }
                self.current = Some(found);
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

/// The site, and how deep the stack is there: a function that is called from two places calls MPI at one site
/// over two ways.
fn way_to(call: &Call) -> u64 {
    call.site ^ u64::from(call.stack).rotate_left(40)
}
