//! Machines other than x86-64: what needs machine code is refused by name.

use super::{ActionError, ActionReceipt, CallRequest, PatchRequest, Reason};
use crate::arch::Unsupported;
use crate::journal::{Call, Change, Patch, RevertOutcome};
use crate::space::AddressSpace;
use crate::writer::{Writer, WriterError};

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

    pub(crate) fn unload(
        &mut self,
        _: &AddressSpace,
        _: u64,
        _: &Call,
        _: Option<u64>,
    ) -> Result<RevertOutcome, WriterError> {
        unsupported("unloading a library")
    }

    pub(crate) fn take_back_patch(
        &mut self,
        _: &AddressSpace,
        _: u64,
        _: &Patch,
    ) -> Result<RevertOutcome, WriterError> {
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
