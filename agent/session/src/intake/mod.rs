//! Hits as they come in: which are left in the ring, up to when all have been read, what was lost, when they
//! are to be read next, and when a decision is likely to fall due. Pure: times are arguments, and the owner
//! reads the ring.

mod prediction;
#[cfg(test)]
mod tests;
mod unread;

pub(crate) use self::prediction::SHARE_MAX;
pub use self::prediction::{DECISION, Expected, Prediction};
use self::unread::Unread;
use profile::cost::UnreadView;

/// A hit takes its time when it has its place in the ring. What the clocks of two CPUs differ by, and what a
/// CPU may see of another's writes too late, is far less than this.
const CLOCK_SLACK_NS: u64 = 1_000;

/// Hits at which nothing falls due may lie for so long: no hit is to lie for 5 ms, and the clock of the loop
/// is a millisecond or two late.
const HITS_NS: u64 = 3_000_000;

/// Hits that are taken from the ring before the loop looks at anything else; and gathered, where nothing
/// falls due at them, before they are evaluated.
pub const HITS_PER_WAKE: usize = 4096;

/// Rings of calls are read this often at most, in nanoseconds, ticks aside: what a rank calls more often than
/// its ring has room for is counted as not seen, and nothing is gained by following it.
const CALLS_NS: u64 = 100_000_000;

/// What is known of hits and of rings of calls.
#[derive(Debug, Default)]
pub struct Intake {
    /// Hits were left in the ring. The kernel wakes us again only once it was found empty.
    is_left: bool,
    /// Hits that were taken since they were evaluated last.
    gathered: usize,
    /// The time of the newest hit.
    newest_ns: u64,
    /// All hits up to this time were taken.
    pub watermark_ns: u64,
    /// Losses on the kernel side that the rules know of.
    lost: u64,
    /// When hits are to be read again; 0 where one that comes wakes us.
    due_ns: u64,
    /// A ring of calls is half full.
    is_filling: bool,
    calls_read_ns: u64,
    unread: Unread,
    /// When the next decision falls due.
    pub prediction: Prediction,
}

/// What a look into the ring found, after what it had was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// There was something, and may be more.
    Again,
    /// All hits up to this time were taken.
    UpTo(u64),
    /// Something is being written, and nothing could be taken: no more is known than before.
    Stuck,
}

impl Intake {
    /// Of a session that begins now: nothing was missed before.
    pub fn new(now_ns: u64) -> Intake {
        Intake {
            watermark_ns: now_ns,
            ..Intake::default()
        }
    }

    /// A hit of this time was taken; `first` is the time of now where it is the first of those that are taken
    /// together: that one lay there longest.
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

    /// As many as may be taken in a row were taken.
    pub fn leave(&mut self) {
        self.is_left = true;
    }

    /// Hits were left in the ring.
    pub fn is_left(&self) -> bool {
        self.is_left
    }

    /// The ring was emptied: hits at which nothing falls due may lie for a while, if there were any. When it
    /// is read next without a wake-up, where that is another time than before; 0 where hits wake us.
    pub fn emptied(&mut self, has_found: bool, now_ns: u64) -> Option<u64> {
        self.is_left = false;
        let due_ns = match has_found {
            true => now_ns + HITS_NS,
            false if now_ns < self.due_ns => self.due_ns,
            false => 0,
        };
        (std::mem::replace(&mut self.due_ns, due_ns) != due_ns).then_some(due_ns)
    }

    /// When hits are to be read; none where one that comes wakes us.
    pub fn due_ns(&self) -> Option<u64> {
        (self.due_ns > 0).then_some(self.due_ns)
    }

    /// So many more hits were taken at which nothing falls due; true where that is enough for them to be
    /// evaluated.
    pub fn gather(&mut self, taken: usize) -> bool {
        self.gathered += taken;
        self.gathered >= HITS_PER_WAKE
    }

    /// The hits that were taken are being evaluated; the time of the newest.
    pub fn evaluate(&mut self) -> u64 {
        self.gathered = 0;
        self.newest_ns
    }

    /// Hits were taken, and then it was `now_ns`: up to when they are all known, if the ring is found empty
    /// now. None where a hit is newer: the ring is drained once more.
    pub fn known_until(&self, now_ns: u64) -> Option<u64> {
        let until_ns = now_ns.saturating_sub(CLOCK_SLACK_NS);
        (until_ns >= self.newest_ns).then_some(until_ns)
    }

    /// Since then as many hits were taken as the ring can hold: up to when they are all known.
    pub fn known_before(&self, began_ns: u64) -> u64 {
        began_ns.saturating_sub(CLOCK_SLACK_NS).max(self.watermark_ns)
    }

    /// So many hits were taken until then, and what the ring was found to be after that. If it was empty,
    /// every hit before that time has been read: a hit that has its place and is still being written keeps it
    /// from being empty.
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

    /// All hits up to this time were taken.
    pub fn advance(&mut self, watermark_ns: u64) {
        self.watermark_ns = watermark_ns;
    }

    /// The kernel side has lost so many hits by now; true where that is more than the rules know of.
    pub fn lose(&mut self, lost: u64) -> bool {
        let is_more = lost > self.lost;
        self.lost = self.lost.max(lost);
        is_more
    }

    /// All rings of calls were just read; true where one was half full.
    pub fn have_read_calls(&mut self, now_ns: u64) -> bool {
        self.calls_read_ns = now_ns;
        std::mem::take(&mut self.is_filling)
    }

    /// When rings of calls are to be read before the next tick: one is half full, or a sampling window is
    /// open.
    pub fn calls_due_ns(&self, is_window_open: bool) -> Option<u64> {
        (self.is_filling || is_window_open).then_some(self.calls_read_ns + CALLS_NS)
    }

    /// How long hits lay unread, by now.
    pub fn turn(&mut self, now_ns: u64) {
        self.unread.turn(now_ns);
    }

    /// The same as it is shown; none without hits.
    pub fn unread(&self) -> Option<UnreadView> {
        self.unread.view()
    }
}
