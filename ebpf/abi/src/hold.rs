//! A pending action that waits for its sync point: what the probe there and the answering thread agree on.
//! All fields are words of 8 bytes, for both sides look at them as shared memory.

/// How a [`Hold`] stands. Only one side may make each step; every step out of a state that both may leave is
/// a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum HoldState {
    /// No action waits; hits pass.
    Idle = 0,
    /// The next hit is held (the probe goes to [`HoldState::Held`], or to [`HoldState::Storing`]).
    Armed = 1,
    /// A thread is held, and waits for an answer (the answering thread goes to [`HoldState::Writing`]; at the
    /// bound the probe goes back to [`HoldState::Armed`], or to [`HoldState::Missed`]).
    Held = 2,
    /// The action is being carried out (the answering thread goes to [`HoldState::Done`]; at the second bound
    /// the probe goes to [`HoldState::Late`]).
    Writing = 3,
    /// Carried out while the thread was held.
    Done = 4,
    /// No answer came, as often as was allowed. Never carried out.
    Missed = 5,
    /// The thread was let go while the action was being carried out: its instant is not known.
    Late = 6,
    /// The probe itself writes.
    Storing = 7,
    /// The probe itself has written; `found` and `stored` have the result.
    Stored = 8,
    /// The iteration that was wanted has gone by without a hold. Never carried out.
    GoneBy = 9,
}

impl HoldState {
    /// The state of this number.
    pub fn from_word(word: u64) -> Option<HoldState> {
        use HoldState::{Armed, Done, GoneBy, Held, Idle, Late, Missed, Stored, Storing, Writing};
        [
            Idle, Armed, Held, Writing, Done, Missed, Late, Storing, Stored, GoneBy,
        ]
        .into_iter()
        .find(|state| *state as u64 == word)
    }
}

/// One pending action at one sync point of one process. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Hold {
    /// A [`HoldState`].
    pub state: u64,
    /// The process, as the agent's pid namespace counts.
    pub process: u64,
    /// How long a thread is held at most until somebody answers.
    pub answer_ns_max: u64,
    /// How much longer it is held at most once somebody has.
    pub action_ns_max: u64,
    /// After so many misses it is given up.
    pub misses_max: u64,
    /// Hits of the process since the action was armed.
    pub hits: u64,
    /// Holds that ended at the bound, without an answer.
    pub misses: u64,
    /// Hits that were not held, because another thread of the machine was, or no answering thread could be
    /// woken.
    pub passed: u64,
    /// Time in holds without an answer.
    pub missed_ns: u64,
    /// When the thread was held last.
    pub held_at_ns: u64,
    /// When it was let go for good; 0 until then. The last word that the probe writes.
    pub released_at_ns: u64,
    /// The thread, as the agent's pid namespace counts.
    pub thread: u64,
    /// Where the probe itself writes.
    pub address: u64,
    /// Only if this is there.
    pub expected: u64,
    pub value: u64,
    /// What was found: after the write, or instead of what was expected.
    pub found: u64,
    /// Bytes of the value: 1 or 8. 0 when the probe itself does not write.
    pub width: u64,
    /// What the probe itself did, a [`StoreResult`].
    pub stored: u64,
    /// The thread is not held: it gets this signal, which its debugger (the actuator) gets before it; 0: it
    /// is held.
    pub signal: u64,
    /// Where the number of the iteration is: 0 for every hit, the argument (the first is 1), or
    /// [`KEY_IN_MEMORY`].
    pub key_source: u64,
    /// Its address, in memory.
    pub key_address: u64,
    /// Its size in bytes: 4 or 8. A signed number.
    pub key_width: u64,
    /// The hit with this number is held, an earlier one passes. The user side changes it while the action is
    /// armed.
    pub key_wanted: u64,
    /// The number at the last hit.
    pub key_last: u64,
    /// By how much it was greater than at the hit before.
    pub key_step: u64,
    pub zero: [u64; 7],
}

/// A [`Hold::key_source`]: memory of the program.
pub const KEY_IN_MEMORY: u64 = 7;
/// A [`Hold::key_wanted`] of which no hit can be: they are only looked at.
pub const KEY_NONE_YET: u64 = i64::MAX as u64;

/// What came of a write by the probe itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum StoreResult {
    /// Written; `found` was read back.
    Written = 1,
    /// Something else was there: `found`. Nothing was written.
    Unexpected = 2,
}

const _: () = assert!(size_of::<Hold>() == 256);
