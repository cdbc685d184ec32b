//! A pending action at its sync point: the record that the probe there and the answering thread share. All
//! fields are words of 8 bytes, because both sides access them as shared memory.

use crate::SharedWord;

/// The state of a [`Hold`]. Each step is made by one side only; a step out of a state that both sides may
/// leave is a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum HoldState {
    /// No action is pending; hits pass.
    Idle = 0,
    /// The next hit is held (the probe moves to [`HoldState::Held`], or to [`HoldState::Storing`]).
    Armed = 1,
    /// A thread is held and waits for an answer (the answering thread moves to [`HoldState::Writing`]; at the
    /// bound the probe moves back to [`HoldState::Armed`], or to [`HoldState::Missed`]).
    Held = 2,
    /// The action is being carried out (the answering thread moves to [`HoldState::Done`]; at the second
    /// bound the probe moves to [`HoldState::Late`]).
    Writing = 3,
    /// Carried out while the thread was held.
    Done = 4,
    /// All permitted holds ended without an answer. The action was not carried out.
    Missed = 5,
    /// The thread was released while the action was being carried out: the instant of the action is unknown.
    Late = 6,
    /// The probe itself is writing.
    Storing = 7,
    /// The probe itself has written; `found` and `stored` contain the result.
    Stored = 8,
    /// The wanted iteration passed without a hold. The action was not carried out.
    GoneBy = 9,
}

impl HoldState {
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
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "bpf"), derive(Clone, Copy, PartialEq, Eq))]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Hold {
    /// A [`HoldState`].
    pub state: SharedWord,
    /// In the agent's pid namespace.
    pub process: SharedWord,
    /// Longest time for which a thread is held without an answer.
    pub answer_ns_max: SharedWord,
    /// Longest additional time for which it is held after an answer.
    pub action_ns_max: SharedWord,
    /// The action is given up after this number of misses.
    pub misses_max: SharedWord,
    /// Hits of the process since the action was armed.
    pub hits: SharedWord,
    /// Holds that ended at the bound, without an answer.
    pub misses: SharedWord,
    /// Hits that were not held: another thread was held, or no answering thread could be woken.
    pub passed: SharedWord,
    /// Time in holds without an answer.
    pub missed_ns: SharedWord,
    /// When the last hold began.
    pub held_at_ns: SharedWord,
    /// When the thread was finally released; 0 until then. The last word that the probe writes.
    pub released_at_ns: SharedWord,
    /// In the agent's pid namespace.
    pub thread: SharedWord,
    /// The address to which the probe itself writes.
    pub address: SharedWord,
    /// The probe writes only if it finds this value.
    pub expected: SharedWord,
    pub value: SharedWord,
    /// The value read back after the write, or the one found instead of `expected`.
    pub found: SharedWord,
    /// Bytes of the value: 1 or 8; 0 if the probe itself does not write.
    pub width: SharedWord,
    /// Result of the probe's own write: a [`StoreResult`].
    pub stored: SharedWord,
    /// 0: the thread is held. Otherwise it gets this signal, which the actuator as its debugger intercepts.
    pub signal: SharedWord,
    /// Source of the iteration's number: 0 if every hit counts, an argument (the first is 1), or
    /// [`KEY_IN_MEMORY`].
    pub key_source: SharedWord,
    /// Address of the number for [`KEY_IN_MEMORY`].
    pub key_address: SharedWord,
    /// Size of the number in bytes: 4 or 8. It is signed.
    pub key_width: SharedWord,
    /// The hit with this number is held; earlier hits pass. The user side may change it while armed.
    pub key_wanted: SharedWord,
    /// The number at the last hit.
    pub key_last: SharedWord,
    /// Difference between the numbers of the last two hits.
    pub key_step: SharedWord,
    pub zero: [SharedWord; 7],
}

/// A [`Hold::key_source`]: the number is in memory of the program.
pub const KEY_IN_MEMORY: u64 = 7;
/// A [`Hold::key_wanted`] that no hit reaches: numbers are only observed.
pub const KEY_NONE_YET: u64 = i64::MAX as u64;

/// Result of a write by the probe itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum StoreResult {
    /// Written; `found` is the value that was read back.
    Written = 1,
    /// Nothing was written: `found` differs from the expected value.
    Unexpected = 2,
}

const _: () = assert!(size_of::<Hold>() == 256);
