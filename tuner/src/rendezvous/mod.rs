//! Acting at the right instant: when a thread of the program reaches a sync point, and while it is held
//! there.
//!
//! A [`Rendezvous`] is whatever can hold a thread at a [`ResolvedPoint`]. This crate has none: the kernel
//! side belongs to the agent's binary, which passes one in ([`crate::actuator::ServeOptions`]). Nothing here
//! waits; `gathering` alone writes, with the one function that does.

mod gathering;
mod stop;

use std::sync::Arc;

pub(crate) use gathering::{Again, Gathered, LEAD, Part, Scattered, gather};
pub(crate) use stop::{StopResult, Stopping};
pub use stop::{Then, Vigil, Watch};

use thiserror::Error;

use crate::address::Address;
use crate::sync::{KeyPlace, Passage, ResolvedPoint};

/// How long a thread is held until somebody answers, unless the request says otherwise. An answer takes 20 to
/// 60 us, and half a millisecond on a virtual machine with ten busy processes for each CPU; a hold that is
/// answered ends then, and one that is not costs all of this.
pub(crate) const ANSWER_NS_MAX: u64 = 1_000_000;
/// How much longer it may be held once somebody has answered. A write takes microseconds; this is for a CPU
/// that is taken away from us in the middle of it, as virtual ones are: to wait for it is better than to not
/// know at which instant it was written.
pub(crate) const ACTION_NS_MAX: u64 = 50_000_000;
/// After so many hits without an answer an action is given up.
pub(crate) const MISSES_MAX: u64 = 64;
/// How long a thread that is to be stopped is held until somebody answers: for machines that missed it again
/// and again.
pub(crate) const STOP_ANSWER_NS_MAX: u64 = 20_000_000;
/// A thread that was requested to stop while it was held does so within microseconds of getting a CPU.
pub(crate) const STOP_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// What an action can wait for, and how it is carried out there.
///
/// Every action ends in one of the ways of [`Progress`], and until then the implementation controls it: the
/// program is never held longer than the bounds, also if we die.
pub trait Rendezvous {
    /// Lets `action` be called while the next thread that reaches the point is held there. The action runs on
    /// another thread, at most once, and must be short. What it leaves to be looked after ([`Then::Watch`])
    /// is, on that same thread, once the held one was let go; the action is over only when that says so.
    fn arm(&mut self, request: &HoldRequest, action: HeldAction) -> Result<HoldTicket, HoldError>;

    /// How it stands. After anything but [`Progress::Pending`] the ticket is used up, and nothing of it is
    /// left in the program.
    fn progress(&mut self, ticket: HoldTicket) -> Progress;

    /// Cancels the request, and returns its state: the action is not called after this.
    fn disarm(&mut self, ticket: HoldTicket) -> Progress;

    /// The part of requests with a key that any thread may use.
    fn meetings(&self) -> Arc<dyn Meetings>;

    /// Why the probe cannot write by itself, without holding a thread; none if it can.
    fn store_refusal(&self) -> Option<String>;
}

/// Requests with a key: which hit is expected, and which hits there were.
pub trait Meetings: Send + Sync {
    /// From now on the hit with this number is expected.
    fn want(&self, ticket: HoldTicket, number: i64);

    /// The hits so far.
    fn seen(&self, ticket: HoldTicket) -> SeenHits;

    /// No hit is expected any more. False if there was one already.
    fn forgo(&self, ticket: HoldTicket) -> bool;
}

/// The signal that a thread gets at the expected hit, while it is debugged: the debugger gets it, and the
/// program never. If it is not debugged any more at that instant, nothing happens: programs ignore this
/// signal unless they handle it.
pub const MEETING_SIGNAL: i32 = libc::SIGURG;

/// What is done while a thread is held.
pub type HeldAction = Box<dyn FnOnce(&ThreadAtSync) -> Then + Send>;

/// A thread that is held: it stands at the sync point, and executes nothing of the program until the action
/// has returned (or a bound is reached: the action must check its own effect). To stop it for longer, an
/// action can stop it now, by ptrace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadAtSync {
    pub thread: u32,
    /// Since when, by CLOCK_MONOTONIC.
    pub since_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldTicket(pub u32);

/// Why no thread can be held at a sync point.
#[derive(Debug, Error)]
pub enum HoldError {
    #[error("{0} actions wait for their sync points already")]
    TooMany(u32),
    #[error("the kernel side has no record for it")]
    NoRecord,
    /// The probe could not be attached.
    #[error(transparent)]
    Attach(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRequest {
    pub point: ResolvedPoint,
    /// A thread is held at most this long until somebody answers. Who implements [`Rendezvous`] may hold it
    /// for less.
    pub answer_ns_max: u64,
    /// And this much longer once somebody has.
    pub action_ns_max: u64,
    /// After so many misses it is given up.
    pub misses_max: u64,
    /// The probe is to write this by itself; the action is not called then.
    pub store: Option<Store>,
    /// Where the program keeps the number of the iteration that a hit begins. No hit is expected until a
    /// number is set; the thread is not held there, and the action not called: it gets [`MEETING_SIGNAL`].
    pub key: Option<KeyPlace>,
}

/// The numbers that hits had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeenHits {
    pub hits: u64,
    /// The thread of the last one.
    pub thread: u32,
    /// It was a later one than the expected one.
    pub has_passed: bool,
    /// It was the expected one, at this time by CLOCK_MONOTONIC.
    pub met_at_ns: Option<u64>,
    /// The number of the last one.
    pub last: i64,
    /// By how much it was greater than the one before; means nothing before the second.
    pub step: i64,
}

/// A value of 1 or 8 bytes, which the kernel stores in one piece, at a place that was validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    pub(crate) address: Address,
    pub(crate) expected: u64,
    pub(crate) value: u64,
    pub(crate) width: u64,
}

/// A [`Store`] as the kernel side gets it.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoreWords {
    pub address: u64,
    pub expected: u64,
    pub value: u64,
    /// In bytes; 0 where nothing is to be stored.
    pub width: u64,
}

impl Store {
    pub fn words(&self) -> StoreWords {
        StoreWords {
            address: self.address.0,
            expected: self.expected,
            value: self.value,
            width: self.width,
        }
    }
}

/// How an action stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The point was not reached yet, or no answer came; it is still armed.
    Pending(Passage),
    /// The action was called, and returned while the thread was held.
    Done(Passage),
    /// The action was called, but the thread was let go before it returned: the instant is not known.
    Late(Passage),
    /// No answer came, as often as was allowed. The action was not called and will not be.
    Missed(Passage),
    /// The hit that was wanted went by without a hold. The action was not called and will not be.
    GoneBy(Passage),
    /// The probe itself wrote: what it found, and whether that was what it expected.
    Stored {
        /// What was there: after the write, or instead of what was expected.
        found: u64,
        written: bool,
        passage: Passage,
    },
}
