//! The code by which a thread calls a function for us and continues without us. It is entered by one change
//! of the thread's registers, saves all state, calls, stores the result, restores all state and jumps back.
//! If the call is to be reverted with a value read beforehand, the same thread first calls the function that
//! reads it.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, qword_ptr, registers::gpr64::*, registers::xmm::xmm0};

use super::assemble::{Passed, call, restore, save};
use crate::address::Address;

/// Words of the data page: progress of the stub ([`IN_READER`], [`IN_FUNCTION`]), whether the result is
/// stored, the result as an integer and as a floating-point number, the value read beforehand in the same two
/// forms, the thread and its start time. Strings follow.
pub(crate) const ENTERED: u64 = 0;
pub(crate) const DONE: u64 = 8;
pub(crate) const INTEGER_RESULT: u64 = 16;
pub(crate) const FLOAT_RESULT: u64 = 24;
pub(crate) const INTEGER_WAS: u64 = 32;
pub(crate) const FLOAT_WAS: u64 = 40;
pub(crate) const THREAD: u64 = 48;
pub(crate) const THREAD_START: u64 = 56;
pub(crate) const DATA_BYTES: u64 = 64;
/// The stub was entered; the function that reads beforehand may be running.
pub(crate) const IN_READER: u64 = 1;
/// The value read beforehand is stored, if there is one; the function may be running.
pub(crate) const IN_FUNCTION: u64 = 2;

/// A call from outside.
#[derive(Debug)]
pub(crate) struct Stub<'a> {
    /// The function that is called first, for its return value.
    pub(crate) reader: Option<(Address, &'a Passed)>,
    pub(crate) function: Address,
    pub(crate) passed: &'a Passed,
    pub(crate) data: Address,
    /// Where the thread continues.
    pub(crate) resume: Address,
    /// Bytes of its extended state.
    pub(crate) extended_bytes: usize,
}

impl Stub<'_> {
    /// The code, to run at `at`.
    pub(crate) fn assemble(&self, at: Address) -> Result<Vec<u8>, IcedError> {
        let mut a = CodeAssembler::new(64)?;
        let mut resume = a.create_label();
        save(&mut a, self.extended_bytes)?;
        // The thread may have been in the middle of x87 code; a function may expect an empty x87 stack.
        a.emms()?;
        a.mov(r12, self.data.0)?;
        // The data page's address on the stack shows a stack scan that the thread is here, even if a probe
        // hides the return address.
        a.push(r12)?;
        a.push(r12)?;
        a.mov(qword_ptr(r12 + ENTERED), IN_READER as i32)?;
        if let Some((reader, passed)) = self.reader {
            call(&mut a, reader, passed)?;
            a.mov(qword_ptr(r12 + INTEGER_WAS), rax)?;
            a.movq(qword_ptr(r12 + FLOAT_WAS), xmm0)?;
        }
        a.mov(qword_ptr(r12 + ENTERED), IN_FUNCTION as i32)?;
        call(&mut a, self.function, self.passed)?;
        a.mov(qword_ptr(r12 + INTEGER_RESULT), rax)?;
        a.movq(qword_ptr(r12 + FLOAT_RESULT), xmm0)?;
        a.mov(qword_ptr(r12 + DONE), 1)?;
        restore(&mut a)?;
        a.jmp(qword_ptr(resume))?;
        a.set_label(&mut resume)?;
        a.dq(&[self.resume.0])?;
        a.assemble(at.0)
    }
}
