//! The intake of hits: which are left in the ring, the watermark, losses, when the ring is read next, and
//! when a decision is likely to be due. Pure: times are arguments, and the owner reads the ring.

mod prediction;
#[cfg(test)]
mod tests;
mod unread;

pub(crate) use self::prediction::SHARE_MAX;
pub use self::prediction::{DECISION, Expected, Prediction};
use self::unread::Unread;
use profile::cost::UnreadView;

/// A hit gets its time after its room in the ring was reserved. The difference between the clocks of two
/// CPUs, and the delay until a CPU sees another's writes, are far smaller than this.
const CLOCK_SLACK_NS: u64 = 1_000;

/// How long hits without a due decision may wait: no hit may wait for 5 ms, and the timer of the loop is a
/// millisecond or two late.
const HITS_NS: u64 = 3_000_000;

/// Most hits that are read from the ring before the loop handles other events, and most that are collected
/// before they are evaluated if no decision is due at them.
pub const HITS_PER_WAKE: usize = 4096;

/// Least interval between reads of call rings, apart from ticks, in nanoseconds: calls that overflow a rank's
/// ring count as not seen, and reading more often would gain nothing.
const CALLS_NS: u64 = 100_000_000;

/// The state of hits and of rings of calls.
#[derive(Debug, Default)]
pub struct Intake {
    /// Hits were left in the ring. The kernel wakes us again only after the ring was found empty.
    is_left: bool,
    /// A pass through the ring that was interrupted for other events.
    interrupted: Option<Pass>,
    /// Hits that were read since the last evaluation.
    gathered: usize,
    /// The time of the newest hit.
    newest_ns: u64,
    /// All hits up to this time were read.
    pub watermark_ns: u64,
    /// Losses on the kernel side that were reported to the rules.
    lost: u64,
    /// When hits must be read again; 0 if the next hit wakes us.
    due_ns: u64,
    /// A ring of calls is half full.
    is_filling: bool,
    calls_read_ns: u64,
    unread: Unread,
    /// When the next decision is likely to be due.
    pub prediction: Prediction,
}

/// A pass through the ring: it ends when the ring is empty, or when as many hits were read as it can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    pub began_ns: u64,
    /// Maximum number of hits still to be read.
    pub left: usize,
}

/// The state of the ring after its hits were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// There were hits, and there may be more.
    Again,
    /// All hits up to this time were read.
    UpTo(u64),
    /// A record is being written and nothing could be read: the watermark stays.
    Stuck,
}

impl Intake {
    /// The intake of a session that begins now: nothing was missed before.
    pub fn new(now_ns: u64) -> Intake {
        Intake {
            watermark_ns: now_ns,
            ..Intake::default()
        }
    }

    /// Records a hit with its time. `first` is the current time if it is the first hit of a batch, which has
    /// waited longest.
    pub fn take(&mut self, hit_ns: u64, first: Option<u64>) {
        self.newest_ns = self.newest_ns.max(hit_ns);
        if let Some(now_ns) = first {
            self.unread.add(now_ns.saturating_sub(hit_ns), now_ns);
        }
    }

    /// A record of the ring says that a ring of calls is half full.
    pub fn fills(&mut self) {
        self.is_filling = true;
    }

    /// The limit for one batch was reached, so hits may be left in the ring.
    pub fn leave(&mut self) {
        self.is_left = true;
    }

    /// Whether hits were left in the ring.
    pub fn is_left(&self) -> bool {
        self.is_left
    }

    /// Records that the ring is empty. If there were hits, later ones without a due decision may wait for a
    /// while. Returns when the ring is read next without a wake-up, if that has changed; 0 if hits wake us.
    pub fn emptied(&mut self, has_found: bool, now_ns: u64) -> Option<u64> {
        self.is_left = false;
        let due_ns = match has_found {
            true => now_ns + HITS_NS,
            false if now_ns < self.due_ns => self.due_ns,
            false => 0,
        };
        (std::mem::replace(&mut self.due_ns, due_ns) != due_ns).then_some(due_ns)
    }

    /// When hits must be read; `None` if the next hit wakes us.
    pub fn due_ns(&self) -> Option<u64> {
        (self.due_ns > 0).then_some(self.due_ns)
    }

    /// Adds hits without a due decision; true if there are enough to evaluate.
    pub fn gather(&mut self, taken: usize) -> bool {
        self.gathered += taken;
        self.gathered >= HITS_PER_WAKE
    }

    /// Goes on with the pass that was interrupted, or begins one of at most `hits`.
    pub fn pass(&mut self, now_ns: u64, hits: usize) -> Pass {
        self.interrupted.take().unwrap_or(Pass {
            began_ns: now_ns,
            left: hits,
        })
    }

    /// Interrupts a pass, so that other events are handled. Hits are left in the ring.
    pub fn interrupt(&mut self, pass: Pass) {
        self.interrupted = Some(pass);
        self.is_left = true;
    }

    /// The next pass begins anew.
    pub fn forget_pass(&mut self) {
        self.interrupted = None;
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_some()
    }

    /// Begins the evaluation of the hits that were read; returns the time of the newest.
    pub fn evaluate(&mut self) -> u64 {
        self.gathered = 0;
        self.newest_ns
    }

    /// The watermark if the ring is found empty now, given that the hits were read before `now_ns`. `None` if
    /// a hit is newer: the ring must be drained once more.
    pub fn known_until(&self, now_ns: u64) -> Option<u64> {
        let until_ns = now_ns.saturating_sub(CLOCK_SLACK_NS);
        (until_ns >= self.newest_ns).then_some(until_ns)
    }

    /// The watermark after as many hits were read since `began_ns` as the ring can hold.
    pub fn known_before(&self, began_ns: u64) -> u64 {
        began_ns.saturating_sub(CLOCK_SLACK_NS).max(self.watermark_ns)
    }

    /// The result of draining: `taken` hits were read before `until_ns`, and then the ring was empty or not.
    /// If it was empty, every hit before `until_ns` has been read, because a reserved hit that is still being
    /// written keeps it from being empty.
    pub fn drained(&mut self, taken: usize, until_ns: u64, is_empty: bool) -> Drain {
        if is_empty {
            return Drain::UpTo(until_ns);
        }
        // There is no wake-up for records that were being written or aggregated.
        self.is_left = true;
        match taken {
            0 => Drain::Stuck,
            _ => Drain::Again,
        }
    }

    /// Advances the watermark: all hits up to this time were read.
    pub fn advance(&mut self, watermark_ns: u64) {
        self.watermark_ns = watermark_ns;
    }

    /// Records the losses on the kernel side so far; true if there are more than were reported to the rules.
    pub fn lose(&mut self, lost: u64) -> bool {
        let is_more = lost > self.lost;
        self.lost = self.lost.max(lost);
        is_more
    }

    /// All rings of calls were just read; true if one was half full.
    pub fn have_read_calls(&mut self, now_ns: u64) -> bool {
        self.calls_read_ns = now_ns;
        std::mem::take(&mut self.is_filling)
    }

    /// When rings of calls must be read before the next tick: one is half full, or a sampling window is open.
    pub fn calls_due_ns(&self, is_window_open: bool) -> Option<u64> {
        (self.is_filling || is_window_open).then_some(self.calls_read_ns + CALLS_NS)
    }

    /// Updates how long hits were unread.
    pub fn turn(&mut self, now_ns: u64) {
        self.unread.turn(now_ns);
    }

    /// How long hits were unread, as it is shown; `None` without hits.
    pub fn unread(&self) -> Option<UnreadView> {
        self.unread.view()
    }
}
