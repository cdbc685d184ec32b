//! x86-64: registers and the rules of the System V ABI. The rest is in `frame` (the stack that gives a thread back to itself),
//! `code` (what is read from a function), `site` (where its entry is probed), `stub` (a call from outside), `trampoline` (code before, after or instead of a
//! function), `unwind` (which functions a thread is in).

pub(crate) mod assemble;
pub(crate) mod code;
pub(crate) mod frame;
pub(crate) mod site;
pub(crate) mod stub;
pub(crate) mod trampoline;
pub(crate) mod unwind;

use crate::address::Address;
use crate::ptrace::RawRegisters;

/// `restart_syscall(2)`: goes on with a sleep that was interrupted.
const RESTART_SYSCALL: u64 = 219;
/// The segment of 64-bit user code; a 32-bit one has another.
const USER_CODE_SEGMENT: u64 = 0x33;

// What the kernel leaves in rax of an interrupted system call that is to be made again (include/linux/errno.h). User space
// never sees these; a tracer does.
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;
/// Every instruction that enters the kernel is that long.
const SYSTEM_CALL_BYTES: u64 = 2;

/// How to resume an interrupted sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// For the rest of its time.
    GoOn,
    /// From its begin: where the kernel forgets how much was left, as a return from a signal handler makes it.
    Afresh,
}

/// The registers with which the thread goes on as if it had not been stopped, without the kernel's help: an interrupted
/// system call is made again by the instruction itself. The kernel would do so when it resumes the thread, but only where it
/// was stopped.
pub(crate) fn resumable(registers: &RawRegisters, sleep: Sleep) -> RawRegisters {
    let mut resumed = *registers;
    let interrupted = registers.orig_rax.cast_signed() >= 0;
    let again = match registers.rax.cast_signed() {
        _ if !interrupted => None,
        ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => Some(registers.orig_rax),
        ERESTART_RESTARTBLOCK if sleep == Sleep::GoOn => Some(RESTART_SYSCALL),
        ERESTART_RESTARTBLOCK => Some(registers.orig_rax),
        _ => None,
    };
    if let Some(number) = again {
        resumed.rax = number;
        resumed.rip = resumed.rip.wrapping_sub(SYSTEM_CALL_BYTES);
    }
    // No system call is under way any more, as far as the kernel is concerned.
    resumed.orig_rax = u64::MAX;
    resumed
}

/// The next instruction, also that of an interrupted system call.
pub(crate) fn instruction(registers: &RawRegisters) -> Address {
    Address(resumable(registers, Sleep::GoOn).rip)
}

/// The stack pointer.
pub(crate) fn stack(registers: &RawRegisters) -> Address {
    Address(registers.rsp)
}

/// It runs 64-bit code.
pub(crate) fn is_native(registers: &RawRegisters) -> bool {
    registers.cs == USER_CODE_SEGMENT
}

/// The registers that enter a system call at `instruction` with this stack.
pub(crate) fn system_call(
    from: &RawRegisters,
    instruction: Address,
    stack: Address,
    number: u64,
    arguments: [u64; 6],
) -> RawRegisters {
    let mut registers = *from;
    registers.rip = instruction.0;
    registers.rsp = stack.0;
    registers.rax = number;
    registers.orig_rax = u64::MAX;
    [
        registers.rdi,
        registers.rsi,
        registers.rdx,
        registers.r10,
        registers.r8,
        registers.r9,
    ] = arguments;
    registers
}

/// The registers that enter `instruction`, all else as it is.
pub(crate) fn entering(from: &RawRegisters, instruction: Address) -> RawRegisters {
    RawRegisters {
        rip: instruction.0,
        orig_rax: u64::MAX,
        ..*from
    }
}

/// What a system call returned.
pub(crate) fn returned(registers: &RawRegisters) -> i64 {
    registers.rax.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(number: i64, result: i64) -> RawRegisters {
        // SAFETY-free: a struct of integers has no default of its own.
        RawRegisters {
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            rbp: 0,
            rbx: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rax: result.cast_unsigned(),
            rcx: 0,
            rdx: 0,
            rsi: 0,
            rdi: 0,
            orig_rax: number.cast_unsigned(),
            rip: 0x1002,
            cs: USER_CODE_SEGMENT,
            eflags: 0,
            rsp: 0,
            ss: 0,
            fs_base: 0,
            gs_base: 0,
            ds: 0,
            es: 0,
            fs: 0,
            gs: 0,
        }
    }

    #[test]
    fn an_interrupted_system_call_is_made_again_and_a_finished_one_is_not() {
        let after = |number, result, sleep| {
            let registers = resumable(&stopped(number, result), sleep);
            assert_eq!(registers.orig_rax, u64::MAX);
            (registers.rax.cast_signed(), registers.rip)
        };
        let (read, nanosleep) = (0, 35);
        assert_eq!(after(read, ERESTARTSYS, Sleep::GoOn), (read, 0x1000));
        assert_eq!(
            after(nanosleep, ERESTART_RESTARTBLOCK, Sleep::GoOn),
            (219, 0x1000)
        );
        assert_eq!(
            after(nanosleep, ERESTART_RESTARTBLOCK, Sleep::Afresh),
            (nanosleep, 0x1000)
        );
        assert_eq!(after(read, 17, Sleep::GoOn), (17, 0x1002), "it has its result");
        assert_eq!(
            after(-1, ERESTARTSYS, Sleep::GoOn),
            (ERESTARTSYS, 0x1002),
            "it was in no system call"
        );
    }
}
