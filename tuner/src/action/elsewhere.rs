//! Machines other than x86-64: what needs machine code is refused by name.

use plan::{CallRequest, PatchRequest, SyncPoint};

use super::{ActionReceipt, Reason};
use crate::arch::Unsupported;
use crate::error::ActionError;
use crate::journal::{Call, Change, Hold, Patch, RevertOutcome};
use crate::rendezvous::HeldAction;
use crate::space::AddressSpace;
use crate::sync::Passage;
use crate::writer::{Writer, WriterError};

/// A call at a sync point: there is none here.
pub(crate) enum CallThere {}

impl CallThere {
    pub(crate) fn action(&self) -> HeldAction {
        match *self {}
    }

    pub(crate) fn change(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn symbol(&self) -> &str {
        match *self {}
    }
}

/// How such a call stands.
pub(crate) enum Reached {
    /// As on x86-64.
    UnderWay,
    /// As on x86-64.
    OtherThread,
    /// As on x86-64.
    Over(Box<Result<ActionReceipt, WriterError>>),
}

fn unsupported<T>(action: &'static str) -> Result<T, WriterError> {
    Err(ActionError::from(Unsupported { action }).into())
}

impl Writer {
    /// Refused.
    pub fn call(&mut self, _: CallRequest, _: Reason) -> Result<ActionReceipt, WriterError> {
        unsupported("a call")
    }

    /// Refused.
    pub fn load(&mut self, _: &str, _: u64, _: Reason) -> Result<ActionReceipt, WriterError> {
        unsupported("loading a library")
    }

    /// Refused.
    pub fn patch(&mut self, _: &PatchRequest, _: Reason) -> Result<ActionReceipt, WriterError> {
        unsupported("changing code")
    }

    pub(crate) fn announce_call(
        &mut self,
        _: CallRequest,
        _: Reason,
        _: SyncPoint,
    ) -> Result<CallThere, WriterError> {
        unsupported("a call")
    }

    pub(crate) fn abandon_call(
        &mut self,
        call: &CallThere,
        _: &str,
        _: Option<Hold>,
    ) -> Result<(), WriterError> {
        match *call {}
    }

    pub(crate) fn announce_inverse(&mut self, _: u64) -> Result<CallThere, WriterError> {
        unsupported("a call")
    }

    pub(crate) fn call_inverse(&mut self, _: &Change, _: &Call) -> Result<RevertOutcome, WriterError> {
        unsupported("a call")
    }

    pub(crate) fn look_at_call(&mut self, call: &mut CallThere, _: Passage) -> Reached {
        match *call {}
    }

    pub(crate) fn unload(
        &mut self,
        _: &AddressSpace,
        _: u64,
        _: &Call,
        _: Option<u64>,
    ) -> Result<RevertOutcome, WriterError> {
        unsupported("unloading a library")
    }

    pub(crate) fn take_back_patch(&mut self, _: u64, _: &Patch) -> Result<RevertOutcome, WriterError> {
        unsupported("changing code")
    }

    /// There is none here that could have been made.
    pub(crate) fn settle_call(&mut self, _: &Change, _: &Call) -> Result<(), WriterError> {
        Ok(())
    }

    /// As above.
    pub(crate) fn settle_patch(
        &mut self,
        _: &AddressSpace,
        _: &Change,
        _: &Patch,
    ) -> Result<(), WriterError> {
        Ok(())
    }

    /// As above.
    pub(crate) fn sweep(&mut self, _: &AddressSpace) -> Result<(), WriterError> {
        Ok(())
    }
}
