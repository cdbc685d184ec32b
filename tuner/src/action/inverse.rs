//! A call that reverts another: `f(was)`, where `was` is what `g()` returned just before the first one. The
//! thread that made the first call makes the second, since what functions set may be that thread's own.
//!
//! It is announced in the journal before it is made. The memory that is mapped for it has its result until
//! that is written down, as with any call; so a crash of ours leaves one that was made or one that was not.
//! Only where the program itself has unmapped that memory is a call that was made taken for one that was not,
//! and made again: it must be one that may be, as a function that sets a value.

use plan::{Argument, Bytes, CallRequest, FunctionName, Invocation, ReturnType, Value};

use super::arguments::of_value;
use super::call::Plan;
use super::progress::State;
use crate::error::ActionError;
use crate::journal::{CallRecord, Change, InverseRecord, PrecedingCall, RevertOutcome};
use crate::ptrace::{self, PtraceError};
use crate::space::AddressSpace;
use crate::writer::{Writer, WriterError};

/// An inverse is waited for this long; one that takes longer goes on, and the next look at the process finds
/// its result.
const WAIT_MS: u64 = 5_000;
/// So often an inverse is made that the program leaves by a jump.
const TRIES: u32 = 8;
const NOT_MADE: &str = "the writer ended, or a jump of the program left the call that reverts it, before the function was called";
const LEFT: &str = "a jump of the program left the call that reverts it";

/// Finds and checks the functions of an inverse before the call that it reverts is made.
pub(super) fn planned(
    space: &AddressSpace,
    call: &Invocation,
    was: Option<&Invocation>,
) -> Result<(Option<Plan>, InverseRecord), ActionError> {
    let reader = was
        .cloned()
        .map(|was| Plan::with(space, constant(was)?, None))
        .transpose()?;
    let read = match reader.as_ref().map(|reader| (reader, reader.returns())) {
        None => None,
        Some((reader, ReturnType::Nothing)) => {
            return Err(reader.function.refused("read beforehand", "it returns nothing"));
        }
        Some((_, returns)) => Some(value(returns, 0)),
    };
    let plan = Plan::with(space, constant(call.clone())?, read.as_ref())?;
    let inverse = InverseRecord {
        symbol: plan.text.clone(),
        function: call.function.name.clone(),
        module: plan.function.module.path.clone(),
        address: plan.function.address(),
        arguments: call.arguments.clone(),
        reader: reader.as_ref().map(|reader| PrecedingCall {
            symbol: reader.text.clone(),
            returns: reader.returns(),
        }),
    };
    Ok((reader, inverse))
}

/// What a variable holds then is not known now, and the journal must have all that an inverse takes.
fn constant(invocation: Invocation) -> Result<CallRequest, ActionError> {
    let Invocation { function, arguments } = invocation;
    let variable = arguments
        .iter()
        .find(|argument| matches!(argument, Argument::Variable(_)));
    if let Some(variable) = variable {
        return Err(ActionError::Arguments {
            function: function.name,
            why: format!("`{variable}` is a variable, and an inverse passes constants and `was`"),
        });
    }
    Ok(CallRequest {
        function,
        arguments,
        returns: None,
        wait_ms: WAIT_MS,
        thread: None,
        inverse: plan::Inverse::Unstated,
    })
}

/// What the bits mean that a function returned.
fn value(returns: ReturnType, word: u64) -> Argument {
    let typed = match returns {
        ReturnType::Value(of) => {
            Bytes::new(&word.to_le_bytes()[..of.size()]).and_then(|bytes| Value::from_bytes(of, bytes).ok())
        }
        ReturnType::Pointer | ReturnType::Nothing | ReturnType::IfKnown => None,
    };
    typed.map_or(Argument::Integer(word.cast_signed()), of_value)
}

/// What came of a call that reverts a change, by what it returned, or by its having been left; none where
/// that is not known.
fn judge(state: &State, judged: impl Fn(Option<u64>) -> Option<RevertOutcome>) -> Option<RevertOutcome> {
    match state {
        State::Returned(answer) => judged(Some(answer.word)),
        State::Left(_) => judged(None),
        State::UnderWay => None,
        State::NotMade => Some(RevertOutcome::Failed(NOT_MADE.to_owned())),
    }
}

/// Of the inverse of a call, by what it returned.
pub(super) fn called_back(word: Option<u64>) -> Option<RevertOutcome> {
    Some(match word {
        Some(_) => RevertOutcome::Reverted,
        None => RevertOutcome::Failed(LEFT.to_owned()),
    })
}

impl Writer {
    /// What takes a call back, looked up anew: its functions must still be where they were. Made by the
    /// thread that made the call, which must still be there.
    pub(super) fn inverse_of(
        &self,
        space: &AddressSpace,
        known: &Change,
        action: &CallRecord,
    ) -> Result<Plan, WriterError> {
        let change = known.intent.change;
        let (Some(inverse), Some(thread)) = (&action.inverse, known.thread) else {
            let status = known.status;
            return Err(WriterError::NotInForce { change, status });
        };
        let pid = self.process().pid;
        match ptrace::thread_id(pid, thread.tid) {
            Ok(found) if found == thread => {}
            Ok(_) | Err(PtraceError::ThreadEnded { .. }) => {
                let (call, tid) = (action.symbol.clone(), thread.tid);
                return Err(ActionError::CallerEnded { pid, tid, call }.into());
            }
            Err(error) => return Err(ActionError::from(error).into()),
        }
        let invocation = Invocation {
            function: FunctionName {
                name: inverse.function.clone(),
                module: Some(inverse.module.clone()),
            },
            arguments: inverse.arguments.clone(),
        };
        let was = inverse.reader.as_ref().zip(known.was);
        let was = was.map(|(reader, word)| value(reader.returns, word));
        let mut request = constant(invocation)?;
        request.thread = Some(thread.tid);
        let gone = || WriterError::ModuleGone {
            change,
            module: inverse.module.clone(),
        };
        let plan = Plan::with(space, request, was.as_ref()).map_err(|error| match error {
            ActionError::NoFunction { .. } => gone(),
            error => error.into(),
        })?;
        match plan.function.address() == inverse.address {
            true => Ok(plan),
            false => Err(gone()),
        }
    }

    /// Takes a call back at once, wherever its thread stands.
    pub(crate) fn call_inverse(
        &mut self,
        known: &Change,
        action: &CallRecord,
    ) -> Result<RevertOutcome, WriterError> {
        let space = self.space()?;
        let plan = self.inverse_of(&space, known, action)?;
        let change = known.intent.change;
        let mut tries = 0;
        loop {
            tries += 1;
            let outcome =
                self.revert_by_call(&space, change, &plan, action.arena.despite_seccomp, called_back)?;
            // It sets a value: what a jump has left may be made again.
            let again = |why: &str| outcome == RevertOutcome::Failed(why.to_owned());
            if tries == TRIES || !(again(LEFT) || again(NOT_MADE)) {
                return Ok(outcome);
            }
        }
    }

    /// Reverts a change by a call, with the same permission as to the program's seccomp filters with which
    /// the change was made. Its result is written down here, before the memory of the call goes: until then
    /// only that memory has it.
    pub(super) fn revert_by_call(
        &mut self,
        space: &AddressSpace,
        change: u64,
        plan: &Plan,
        despite_seccomp: bool,
        judged: impl Fn(Option<u64>) -> Option<RevertOutcome>,
    ) -> Result<RevertOutcome, WriterError> {
        let (mut call, machinery, ground) = self.prepare(space, plan)?;
        call.arena.despite_seccomp |= despite_seccomp;
        self.announce_revert(change, Some(call.arena))?;
        let called = self.enter_and_wait(&call, plan, &machinery, &ground);
        (self.hooks.after_write)();
        let outcome = match called.as_ref().map(|called| &called.state) {
            Ok(state) => judge(state, judged),
            Err(error) => Some(RevertOutcome::Failed(error.to_string())),
        };
        // It goes on: undecided, until a later look finds out.
        let Some(outcome) = outcome else {
            let why = format!("{} has not returned yet", plan.text);
            return Ok(RevertOutcome::Failed(why));
        };
        self.record_revert(change, outcome.clone(), false, None)?;
        if let Ok(called) = called
            && matches!(called.state, State::Returned(_))
        {
            self.leave(&call.arena, called.tid(), &machinery);
        }
        Ok(outcome)
    }

    /// Finds out what came of a call that took a change back, whose writer ended or did not wait: by its
    /// memory, as of any call.
    pub(super) fn settle_reverting_call(
        &mut self,
        known: &Change,
        action: &CallRecord,
        returns: ReturnType,
        judged: impl Fn(Option<u64>) -> Option<RevertOutcome>,
    ) -> Result<(), WriterError> {
        let call = known.revert_arena.map(|arena| CallRecord {
            arena,
            returns,
            inverse: None,
            ..action.clone()
        });
        let state = call.map(|call| self.came_of(&call)).transpose()?;
        let Some(outcome) = judge(&state.unwrap_or(State::NotMade), judged) else {
            return Ok(());
        };
        self.record_revert(known.intent.change, outcome, true, None)
    }
}
