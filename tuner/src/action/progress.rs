//! How far a call has come, by the memory that was mapped for it.

use plan::{ReturnType, ValueType};

use super::call::{CallResult, shown};
use crate::address::Address;
use crate::arch::x86_64::stub;
use crate::arena::Arena;
use crate::journal::CallRecord;
use crate::place::ProcessMemory;
use crate::process::ThreadId;

/// The state of a call.
#[derive(Debug)]
pub(super) enum CallState {
    /// The function was not called.
    NotMade,
    /// A thread is in it, or about to enter it.
    UnderWay,
    /// The function was called, and left by a jump or an exception, usually out of a signal handler that
    /// interrupted it. How much of it was done is unknown. The answer has the value read beforehand and the
    /// thread.
    Left(CallResult),
    Returned(CallResult),
}

impl CallState {
    /// What is to be recorded. For a call that was left, only if another call reverts it: that reverts its
    /// effects, however far it came.
    pub(super) fn answer(&self, action: &CallRecord) -> Option<&CallResult> {
        match self {
            CallState::Returned(answer) => Some(answer),
            CallState::Left(answer) if action.inverse.is_some() => Some(answer),
            CallState::Left(_) | CallState::NotMade | CallState::UnderWay => None,
        }
    }
}

/// The function was called, and has not returned: if it was left by a switch of fibers, it still may.
pub(super) fn may_come_back(memory: &ProcessMemory, arena: &Arena) -> bool {
    let word = |offset: u64| memory.word(Address(arena.data().0 + offset));
    word(stub::ENTERED).is_ok_and(|entered| entered != 0) && word(stub::DONE).is_ok_and(|done| done == 0)
}

/// The progress that the stub has stored.
pub(super) enum Progress {
    NotCalled,
    /// The function was called, and has not returned; the answer has the value read beforehand and the
    /// thread.
    Called(CallResult),
    Returned(CallResult),
}

/// Reads the progress of the stub.
pub(super) fn look(
    memory: &ProcessMemory,
    action: &CallRecord,
) -> Result<Progress, crate::memory::MemoryError> {
    let word = |offset: u64| memory.word(Address(action.arena.data().0 + offset));
    let is_over = word(stub::DONE)? != 0;
    if !is_over && word(stub::ENTERED)? != stub::IN_FUNCTION {
        return Ok(Progress::NotCalled);
    }
    let of = |returns: ReturnType, integer: u64, float: u64| {
        word(match returns {
            ReturnType::Value(ValueType::F32 | ValueType::F64) => float,
            _ => integer,
        })
    };
    let returned = of(action.returns, stub::INTEGER_RESULT, stub::FLOAT_RESULT)?;
    let reader = action
        .inverse
        .as_ref()
        .and_then(|inverse| inverse.reader.as_ref());
    let was = reader.map(|reader| of(reader.returns, stub::INTEGER_WAS, stub::FLOAT_WAS));
    let answer = CallResult {
        word: returned,
        text: shown(action.returns, returned),
        was: was.transpose()?.unwrap_or_default(),
        thread: ThreadId {
            tid: word(stub::THREAD)? as i32,
            start_time: word(stub::THREAD_START)?,
        },
    };
    Ok(match is_over {
        true => Progress::Returned(answer),
        false => Progress::Called(answer),
    })
}
