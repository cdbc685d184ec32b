//! Acting while a thread of the program is held at a sync point.
//!
//! A [`Rendezvous`] can hold a thread at a [`ResolvedPoint`]. This crate has no implementation: the kernel
//! side belongs to the agent's binary, which passes one in ([`crate::actuator::ServeOptions`]). Nothing here
//! waits. Only `gathering` writes, through the one function that may.

mod gathering;
mod stop;

use std::sync::Arc;

pub(crate) use gathering::{Gathered, LEAD, NextAttempt, ProcessWrite, Scattered, gather};
pub use stop::{PendingAction, PendingState, Then};
pub(crate) use stop::{StopResult, Stopping};

use thiserror::Error;

use crate::address::Address;
use crate::sync::{HoldStatistics, KeyPlace, ResolvedPoint};

/// Nanoseconds for which a thread is held until it is answered, unless the request states another bound. An
/// answer takes 20 to 60 us, and half a millisecond on a virtual machine with ten busy processes per CPU. An
/// answered hold ends with its action; an unanswered one costs this complete time.
pub(crate) const ANSWER_NS_MAX: u64 = 1_000_000;
/// Nanoseconds for which the hold may last after the answer. A write takes microseconds; the bound covers a
/// virtual CPU that is descheduled in the middle of it: a longer hold is better than an unknown instant of
/// the write.
pub(crate) const ACTION_NS_MAX: u64 = 50_000_000;
/// An action is given up after this number of unanswered hits.
pub(crate) const MISSES_MAX: u64 = 64;
/// Nanoseconds for which a thread that is to be stopped is held until it is answered: longer, because busy
/// machines repeatedly missed a shorter bound.
pub(crate) const STOP_ANSWER_NS_MAX: u64 = 20_000_000;
/// A thread that was requested to stop while it was held stops within microseconds of getting a CPU.
pub(crate) const STOP_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// Holds threads at sync points and runs actions there.
///
/// Every action ends in one of the ways of [`Progress`], and until then the implementation controls it: the
/// program is never held longer than the bounds, even if this process dies.
pub trait Rendezvous {
    /// Arms `action`: it is called while the next thread that reaches the point is held there. It runs on
    /// another thread, at most once, and must be short. If it returns [`Then::Watch`], that is run on the
    /// same thread after the held thread was let go, and the action ends when that says so.
    fn arm(&mut self, request: &HoldRequest, action: HeldAction) -> Result<HoldTicket, HoldError>;

    /// The state of the request. After anything but [`Progress::Pending`] the ticket is invalid, and nothing
    /// of the request is left in the program.
    fn progress(&mut self, ticket: HoldTicket) -> Progress;

    /// Cancels the request, and returns its state. The action is not called after this.
    fn disarm(&mut self, ticket: HoldTicket) -> Progress;

    /// The part of requests with a key that any thread may use.
    fn keyed_hits(&self) -> Arc<dyn KeyedHits>;

    /// Why the probe cannot write by itself, without holding a thread; `None` if it can.
    fn store_refusal(&self) -> Option<String>;
}

/// Requests with a key: the hit that is expected, and the hits so far.
pub trait KeyedHits: Send + Sync {
    /// Sets the number of the expected hit.
    fn want(&self, ticket: HoldTicket, number: i64);

    /// The hits so far.
    fn seen(&self, ticket: HoldTicket) -> SeenHits;

    /// Expects no hit any more. False if the expected hit has happened.
    fn forgo(&self, ticket: HoldTicket) -> bool;
}

/// The signal sent to a thread at the expected hit while the thread is debugged: the debugger receives it,
/// the program never. If the thread is no longer debugged at that instant, nothing happens: programs ignore
/// this signal unless they handle it.
pub const HOLD_SIGNAL: i32 = libc::SIGURG;

/// Runs while a thread is held.
pub type HeldAction = Box<dyn FnOnce(&ThreadAtSync) -> Then + Send>;

/// A thread that is held at the sync point. It executes nothing of the program until the action has returned
/// or a bound is reached (so the action must check its own effect). To stop it for longer, the action can
/// stop it by ptrace now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadAtSync {
    pub thread: u32,
    /// Start of the hold, by CLOCK_MONOTONIC.
    pub since_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldTicket(pub u32);

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

/// A sync point, and what to do there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRequest {
    pub point: ResolvedPoint,
    /// Bound on the hold until it is answered. An implementation of [`Rendezvous`] may use a shorter one.
    pub answer_ns_max: u64,
    /// Bound on the hold after the answer.
    pub action_ns_max: u64,
    /// The request is given up after this number of misses.
    pub misses_max: u64,
    /// The probe writes this by itself, and the action is not called.
    pub store: Option<Store>,
    /// Where the program keeps the number of the iteration that a hit begins. No hit is expected until a
    /// number is set. At the expected hit the thread is not held and the action not called: the thread gets
    /// [`HOLD_SIGNAL`].
    pub key: Option<KeyPlace>,
}

/// The hits of a request with a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeenHits {
    pub hits: u64,
    /// The thread of the last hit.
    pub thread: u32,
    /// A hit later than the expected one has happened.
    pub has_passed: bool,
    /// When the expected hit happened, by CLOCK_MONOTONIC.
    pub met_at_ns: Option<u64>,
    /// The number of the last hit.
    pub last: i64,
    /// Difference of the last two numbers; undefined before the second hit.
    pub step: i64,
}

/// A value of 1 or 8 bytes, which the kernel stores at once, at a validated place.
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

/// The state of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Still armed: the point was not reached, or no hit was answered.
    Pending(HoldStatistics),
    /// The action was called, and returned while the thread was held.
    Done(HoldStatistics),
    /// The action was called, but the thread was let go before it returned: the instant is unknown.
    Late(HoldStatistics),
    /// The permitted number of hits was unanswered. The action was not called and will not be.
    Missed(HoldStatistics),
    /// The expected hit passed without a hold. The action was not called and will not be.
    GoneBy(HoldStatistics),
    /// The probe itself compared, and wrote if the expected value was there.
    Stored {
        /// What was there: after the write, or instead of what was expected.
        found: u64,
        written: bool,
        passage: HoldStatistics,
    },
}
