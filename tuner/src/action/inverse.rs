//! A call that reverts another: `f(was)`, where `was` is the result of `g()` just before the first call. The
//! thread that made the first call makes the second, since the functions may set thread-local state.
//!
//! It is announced in the journal before it is made. As with any call, the memory that is mapped for it has
//! its result until that is recorded, so after a crash it is known whether the call was made. Only if the
//! program itself has unmapped that memory, a completed call is taken for one that was not made, and is
//! repeated: the function must be idempotent, as one that sets a value.

use std::time::Duration;

use plan::{Argument, CallRequest, FunctionName, Invocation, ReturnType};

use super::arguments::of_value;
use super::call::{CallPlan, typed};
use super::progress::CallState;
use crate::error::ActionError;
use crate::journal::{ActionRecord, CallRecord, InverseRecord, JournalChange, PrecedingCall, RevertOutcome};
use crate::ptrace::{self, PtraceError};
use crate::space::AddressSpace;
use crate::sync::ResolvedPoint;
use crate::writer::{Writer, WriterError};

/// Milliseconds to wait for an inverse; one that takes longer continues, and the next inspection of the
/// process finds its result.
const WAIT_MS: u64 = 5_000;
/// Attempts to call an inverse that the program leaves by a jump.
const TRIES: u32 = 8;
const NOT_MADE: &str = "the writer ended, or a jump of the program left the call that reverts it, before the function was called";
const LEFT: &str = "a jump of the program left the call that reverts it";

/// Finds and checks the functions of an inverse before the call that it reverts is made.
pub(super) fn planned(
    space: &AddressSpace,
    call: &Invocation,
    was: Option<&Invocation>,
) -> Result<(Option<CallPlan>, InverseRecord), ActionError> {
    let reader = was
        .cloned()
        .map(|was| CallPlan::with(space, constant(was)?, None))
        .transpose()?;
    let read = match reader.as_ref().map(|reader| (reader, reader.returns())) {
        None => None,
        Some((reader, ReturnType::Nothing)) => {
            return Err(reader.function.refused("read beforehand", "it returns nothing"));
        }
        Some((_, returns)) => Some(value(returns, 0)),
    };
    let plan = CallPlan::with(space, constant(call.clone())?, read.as_ref())?;
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

/// Refuses variables as arguments: their later values are unknown, and the journal must have all arguments of
/// an inverse.
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

/// The value that a function returned as bits.
fn value(returns: ReturnType, word: u64) -> Argument {
    let typed = match returns {
        ReturnType::Value(of) => typed(of, word),
        ReturnType::Pointer | ReturnType::Nothing | ReturnType::IfKnown => None,
    };
    typed.map_or(Argument::Integer(word.cast_signed()), of_value)
}

/// The outcome of a call that reverts a change, judged by its return value, or by its having been left;
/// `None` if unknown.
fn judge(state: &CallState, judged: impl Fn(Option<u64>) -> Option<RevertOutcome>) -> Option<RevertOutcome> {
    match state {
        CallState::Returned(answer) => judged(Some(answer.word)),
        CallState::Left(_) => judged(None),
        CallState::UnderWay => None,
        CallState::NotMade => Some(RevertOutcome::Failed(NOT_MADE.to_owned())),
    }
}

/// The outcome of the inverse of a call, by its return value.
pub(super) fn called_back(word: Option<u64>) -> Option<RevertOutcome> {
    Some(match word {
        Some(_) => RevertOutcome::Reverted,
        None => RevertOutcome::Failed(LEFT.to_owned()),
    })
}

impl Writer {
    /// The inverse of a call, resolved anew: its functions must still be at the same place, and the thread
    /// that made the call must still exist.
    pub(super) fn inverse_of(
        &self,
        space: &AddressSpace,
        known: &JournalChange,
        action: &CallRecord,
    ) -> Result<CallPlan, WriterError> {
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
        let plan = CallPlan::with(space, request, was.as_ref()).map_err(|error| match error {
            ActionError::NoFunction { .. } | ActionError::Function(_) => gone(),
            error => error.into(),
        })?;
        match plan.function.address() == inverse.address {
            true => Ok(plan),
            false => Err(gone()),
        }
    }

    /// Reverts a call at once, wherever its thread is.
    pub(crate) fn call_inverse(
        &mut self,
        known: &JournalChange,
        action: &CallRecord,
    ) -> Result<RevertOutcome, WriterError> {
        let space = self.space()?;
        let plan = self.inverse_of(&space, known, action)?;
        self.call_inverse_by(&space, known.intent.change, action, &plan)
    }

    /// Reverts a call whose thread does not reach the sync point, within this time: the same thread makes the
    /// inverse while it is outside of the library that has the function. `None` if the call cannot be reverted
    /// like this, because its sync point is not in that library.
    ///
    /// A sync point in the library of the function is one between uses of the library, and so is all of the
    /// program outside of it: the thread holds no lock of the library, and is in no parallel region, whose end
    /// would restore the old setting. Any other point has a meaning in the program that other places lack.
    pub(crate) fn call_inverse_elsewhere(
        &mut self,
        change: u64,
        within: Duration,
    ) -> Result<Option<RevertOutcome>, WriterError> {
        let known = self.in_force(change)?;
        let (ActionRecord::Call(action), Some(sync)) = (&known.intent.action, known.intent.action.sync())
        else {
            return Err(WriterError::NoSyncPoint { change });
        };
        let space = self.space()?;
        let mut plan = self.inverse_of(&space, &known, action)?;
        let library = &plan.function.module;
        let point = ResolvedPoint::resolve(&space, sync);
        let is_in_library = point.is_ok_and(|point| {
            let path = library.probe_path();
            path.is_ok_and(|path| path == point.sites().path)
        });
        // A thread is never outside of the program itself.
        if library.is_executable || !is_in_library {
            return Ok(None);
        }
        (plan.try_for, plan.outside) = (within, Some(library.clone()));
        self.call_inverse_by(&space, change, action, &plan).map(Some)
    }

    fn call_inverse_by(
        &mut self,
        space: &AddressSpace,
        change: u64,
        action: &CallRecord,
        plan: &CallPlan,
    ) -> Result<RevertOutcome, WriterError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let outcome =
                self.revert_by_call(space, change, plan, action.arena.despite_seccomp, called_back)?;
            // It sets a value, so a call that was left may be repeated.
            let again = |why: &str| outcome == RevertOutcome::Failed(why.to_owned());
            if tries == TRIES || !(again(LEFT) || again(NOT_MADE)) {
                return Ok(outcome);
            }
        }
    }

    /// Reverts a change by a call, with the permission about seccomp filters with which the change was made.
    /// Records the result before the memory of the call is unmapped: until then only that memory has it.
    pub(super) fn revert_by_call(
        &mut self,
        space: &AddressSpace,
        change: u64,
        plan: &CallPlan,
        despite_seccomp: bool,
        judged: impl Fn(Option<u64>) -> Option<RevertOutcome>,
    ) -> Result<RevertOutcome, WriterError> {
        let (mut call, setup, memory) = self.prepare(space, plan)?;
        call.arena.despite_seccomp |= despite_seccomp;
        self.announce_revert(change, Some(call.arena))?;
        let called = self.enter_and_wait(&call, plan, &setup, &memory);
        (self.hooks.after_write)();
        let outcome = match called.as_ref().map(|called| &called.state) {
            Ok(state) => judge(state, judged),
            Err(error) => Some(RevertOutcome::Failed(error.to_string())),
        };
        // It continues: undecided, until a later inspection.
        let Some(outcome) = outcome else {
            let why = format!("{} has not returned yet", plan.text);
            return Ok(RevertOutcome::Failed(why));
        };
        self.record_revert(change, outcome.clone(), false, None)?;
        if let Ok(called) = called
            && matches!(called.state, CallState::Returned(_))
        {
            self.leave(&call.arena, called.tid(), &setup);
        }
        Ok(outcome)
    }

    /// Settles a call that reverts a change, whose writer ended or did not wait: by its memory, as any call.
    pub(super) fn settle_reverting_call(
        &mut self,
        known: &JournalChange,
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
        let Some(outcome) = judge(&state.unwrap_or(CallState::NotMade), judged) else {
            return Ok(());
        };
        self.record_revert(known.intent.change, outcome, true, None)
    }
}
