//! How an interrupted system call is resumed.
//!
//! Stopping a thread wakes it from the system call in which it sleeps. Most calls then return one of the
//! kernel's `ERESTART` codes: "restart, unless a signal handler ran". The calls that signal(7) lists as never
//! restarted return `EINTR` at once, even if no signal was sent: the program would see a failure that only we
//! have caused.
//!
//! [`undecided`] turns that `EINTR` into `ERESTARTNOHAND`, which is what signal(7) says of these calls:
//! `EINTR` if a handler runs, a restart if none does. This is done while the thread is in a ptrace stop (of
//! an interrupt, of a group, before a signal), and the kernel decides when it resumes. Why that is sound:
//!
//! - These stops are inside the kernel's `get_signal()`, before it takes the next pending signal. So a signal
//!   whose handler is still to run makes the call fail with `EINTR`, with or without `SA_RESTART`, as it
//!   would have without us. A signal that is ignored would not have woken the call; a traced thread is woken
//!   by it, and returns to the call.
//! - No handler has run since the call returned: entering one replaces the result by its argument registers,
//!   and returning from one leaves no system call number (`orig_rax` is -1).
//! - The calls of the list have had no effect when they return `EINTR`: no byte was sent, no message taken,
//!   no semaphore changed. `close`, which returns `EINTR` after it has closed, and calls whose driver decides
//!   (`ioctl`) are not on the list: they fail as without this module.
//!
//! Limits: a timeout given as a duration starts anew, since the time already waited is unknown. A thread that
//! we have requested to stop and then do not handle, because we are killed or have given up waiting, sees its
//! `EINTR`. A thread that calls a function for us restarts its own call afterwards by executing the
//! instruction again: to it, a signal that arrives during the function seems to arrive just before the call.

use crate::arch::RawRegisters;
use crate::seccomp::SystemCall;

/// `restart_syscall(2)`: continues an interrupted sleep.
const RESTART_SYSCALL: u64 = 219;

// What the kernel leaves in rax of an interrupted system call that is to be restarted
// (include/linux/errno.h). User space never sees these; a tracer does.
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;
const EINTR: i64 = -(libc::EINTR as i64);
/// Bytes of every instruction that enters the kernel.
const SYSTEM_CALL_BYTES: u64 = 2;

macro_rules! calls {
    ($($name:ident)+) => { [$(libc::$name),+] };
}

/// The calls that return `EINTR` instead of an `ERESTART` code, with no effect: those of signal(7), and
/// `read` and `write` of sockets with a timeout.
const NEVER_RESTARTED: [i64; 25] = calls! {
    SYS_accept SYS_accept4 SYS_connect SYS_epoll_pwait SYS_epoll_pwait2 SYS_epoll_wait SYS_io_getevents
    SYS_io_uring_enter SYS_msgrcv SYS_msgsnd SYS_pselect6 SYS_read SYS_readv SYS_recvfrom SYS_recvmmsg
    SYS_recvmsg SYS_rt_sigtimedwait SYS_select SYS_semop SYS_semtimedop SYS_sendmmsg SYS_sendmsg
    SYS_sendto SYS_write SYS_writev
};

/// How to resume an interrupted sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// For the remaining time.
    GoOn,
    /// From its begin: used where the kernel loses the remaining time, as on a return from a signal handler.
    Afresh,
}

/// The registers with which the thread continues as if it had not been stopped, without the kernel's help: it
/// executes the instruction of an interrupted system call again. The kernel would restart the call itself
/// when it resumes the thread, but only where the thread was stopped.
pub(crate) fn resumable(registers: &RawRegisters, sleep: Sleep) -> RawRegisters {
    let mut resumed = *registers;
    let again = match registers.rax.cast_signed() {
        _ if !is_in_system_call(registers) => None,
        ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => Some(registers.orig_rax),
        ERESTART_RESTARTBLOCK if sleep == Sleep::GoOn => Some(RESTART_SYSCALL),
        ERESTART_RESTARTBLOCK => Some(registers.orig_rax),
        _ => None,
    };
    if let Some(number) = again {
        resumed.rax = number;
        resumed.rip = resumed.rip.wrapping_sub(SYSTEM_CALL_BYTES);
    }
    // Marks to the kernel that no system call is in progress.
    resumed.orig_rax = u64::MAX;
    resumed
}

/// The registers that leave it to the kernel whether the interrupted system call fails; `None` if it has
/// decided already, or the call is not on the list.
pub(crate) fn undecided(registers: &RawRegisters) -> Option<RawRegisters> {
    let never_restarted = NEVER_RESTARTED.contains(&registers.orig_rax.cast_signed());
    let has_failed = registers.rax.cast_signed() == EINTR && super::is_native(registers);
    (has_failed && never_restarted).then(|| again_unless_handled(registers))
}

/// It sleeps for a time whose rest the kernel knows, and would continue by another system call,
/// [`RESTART_SYSCALL`].
pub(crate) fn is_in_timed_sleep(registers: &RawRegisters) -> bool {
    is_in_system_call(registers) && registers.rax.cast_signed() == ERESTART_RESTARTBLOCK
}

/// The system call by which it continues its sleep.
pub(crate) fn going_on(registers: &RawRegisters) -> SystemCall {
    let given = [
        registers.rdi,
        registers.rsi,
        registers.rdx,
        registers.r10,
        registers.r8,
        registers.r9,
    ];
    SystemCall {
        number: RESTART_SYSCALL as u32,
        instruction: Some(registers.rip),
        arguments: given.map(Some),
    }
}

/// The registers with which the kernel restarts the interrupted call from its begin, unless a signal handler
/// runs first.
pub(crate) fn again_unless_handled(registers: &RawRegisters) -> RawRegisters {
    RawRegisters {
        rax: ERESTARTNOHAND.cast_unsigned(),
        ..*registers
    }
}

fn is_in_system_call(registers: &RawRegisters) -> bool {
    registers.orig_rax.cast_signed() >= 0
}

#[cfg(test)]
mod tests {
    use super::super::USER_CODE_SEGMENT;
    use super::*;

    fn stopped(number: i64, result: i64) -> RawRegisters {
        // The struct has no `Default`.
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

    #[test]
    fn a_call_that_is_never_restarted_is_left_to_the_kernel_and_every_other_result_stands() {
        let after = |registers: RawRegisters| {
            let changed = undecided(&registers)?;
            assert_eq!(
                (changed.orig_rax, changed.rip),
                (registers.orig_rax, registers.rip),
                "the kernel needs both to make the call again"
            );
            Some(changed.rax.cast_signed())
        };
        let epoll_wait = libc::SYS_epoll_wait;
        assert_eq!(after(stopped(epoll_wait, EINTR)), Some(ERESTARTNOHAND));
        assert_eq!(after(stopped(libc::SYS_semtimedop, EINTR)), Some(ERESTARTNOHAND));
        assert_eq!(after(stopped(epoll_wait, 1)), None, "it has its result");
        assert_eq!(after(stopped(epoll_wait, -11)), None, "it has failed by itself");
        assert_eq!(
            after(stopped(libc::SYS_read, ERESTARTSYS)),
            None,
            "the kernel knows"
        );
        assert_eq!(after(stopped(libc::SYS_close, EINTR)), None, "the file is closed");
        assert_eq!(after(stopped(libc::SYS_ioctl, EINTR)), None, "the driver knows");
        assert_eq!(after(stopped(-1, EINTR)), None, "it was in no system call");
        let mut of_32_bits = stopped(epoll_wait, EINTR);
        of_32_bits.cs = 0x23;
        assert_eq!(after(of_32_bits), None, "its calls have other numbers");
        // Code that uses the thread restarts the call by the instruction.
        let again = resumable(&undecided(&stopped(epoll_wait, EINTR)).unwrap(), Sleep::GoOn);
        assert_eq!((again.rax.cast_signed(), again.rip), (epoll_wait, 0x1000));
    }

    #[test]
    fn a_timed_sleep_can_be_begun_anew() {
        let sleeping = stopped(libc::SYS_nanosleep, ERESTART_RESTARTBLOCK);
        assert!(is_in_timed_sleep(&sleeping));
        assert!(!is_in_timed_sleep(&stopped(-1, ERESTART_RESTARTBLOCK)));
        let anew = resumable(&again_unless_handled(&sleeping), Sleep::GoOn);
        assert_eq!((anew.rax.cast_signed(), anew.rip), (libc::SYS_nanosleep, 0x1000));
    }
}
