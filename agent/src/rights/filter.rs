//! The system calls that are left to a process that only reads: a list of those that a session needs, each
//! with the arguments that are permitted. Everything else fails with EPERM, which ends no process. So nothing
//! can be opened for writing, created, renamed or removed, no other process reached into or signalled, no
//! memory made executable, no program started, whatever happens to us. What is written later (the report, the
//! terminal) was opened before; what changes a program is the actuator, another process.

use std::{collections::BTreeMap, time::Duration};

use libc::c_long;
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule, TargetArch,
};

use super::RightsError;

/// What of a call's arguments is permitted. Only what is in registers can be looked at.
enum When {
    Always,
    /// The argument of this number has none of these bits.
    Without(u8, libc::c_int),
    /// It has all of these.
    With(u8, libc::c_int),
    /// It is one of these.
    OneOf(u8, &'static [u64]),
    /// It is our own process.
    OwnProcess,
}

use When::{Always, OneOf, OwnProcess, With, Without};

/// Open flags by which a file is changed or made. Of O_TMPFILE the bit that is not O_DIRECTORY's.
const WRITES: libc::c_int =
    libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// A thread of our own, and no process.
const OF_THREAD: libc::c_int = libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND;

/// How often a thread that is ending is waited for, and how long each time.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// Flags of descriptors; neither locks nor signals at input.
const FCNTL: &[u64] = &[
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_SETFL as u64,
    libc::F_DUPFD_CLOEXEC as u64,
];

/// The terminal's size, mode and group in front, descriptors that do not block, perf events.
const IOCTL: &[u64] = &[
    libc::TIOCGWINSZ,
    libc::TIOCGPGRP,
    libc::TCGETS,
    libc::TCSETS,
    libc::TCSETSW,
    libc::TCSETSF,
    libc::TCGETS2,
    libc::TCSETS2,
    libc::TCSETSW2,
    libc::TCSETSF2,
    libc::FIONBIO,
    libc::FIONREAD,
    libc::FIOCLEX,
    PERF_EVENT_IOC_ENABLE,
    PERF_EVENT_IOC_SET_BPF,
];
const PERF_EVENT_IOC_ENABLE: u64 = 0x2400;
const PERF_EVENT_IOC_SET_BPF: u64 = 0x4004_2408;

/// Names of threads and of mappings, the auxiliary vector, and what comes before a filter.
const PRCTL: &[u64] = &[
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_SET_VMA as u64,
    PR_GET_AUXV,
    libc::PR_SET_NO_NEW_PRIVS as u64,
];
const PR_GET_AUXV: u64 = 0x4155_5856;

/// Commands of bpf(2) that use maps and programs that are loaded: elements of maps, test runs, links.
const BPF: &[u64] = &[1, 2, 3, 4, 10, 15, 17, 28, 34];
/// The same and those that load: maps, programs, types, freezing.
const BPF_TO_ARM: &[u64] = &[0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 17, 18, 22, 28, 29, 34];

const SOCKETS_OF_UNIX: &[u64] = &[libc::AF_UNIX as u64];

const LEFT: &[(c_long, When)] = &[
    // Files that are open.
    (libc::SYS_read, Always),
    (libc::SYS_readv, Always),
    (libc::SYS_pread64, Always),
    (libc::SYS_preadv, Always),
    (libc::SYS_write, Always),
    (libc::SYS_writev, Always),
    (libc::SYS_pwrite64, Always),
    (libc::SYS_lseek, Always),
    (libc::SYS_close, Always),
    (libc::SYS_dup, Always),
    (libc::SYS_fcntl, OneOf(1, FCNTL)),
    (libc::SYS_ioctl, OneOf(1, IOCTL)),
    (libc::SYS_fsync, Always),
    (libc::SYS_fdatasync, Always),
    (libc::SYS_pipe2, Always),
    // Files that are looked at. openat2 has its flags in memory, which a filter cannot read.
    (libc::SYS_openat, Without(2, WRITES)),
    (libc::SYS_fstat, Always),
    (libc::SYS_newfstatat, Always),
    (libc::SYS_statx, Always),
    (libc::SYS_statfs, Always),
    (libc::SYS_fstatfs, Always),
    (libc::SYS_readlinkat, Always),
    (libc::SYS_faccessat, Always),
    (libc::SYS_faccessat2, Always),
    (libc::SYS_getdents64, Always),
    (libc::SYS_getcwd, Always),
    // Other processes, looking.
    (libc::SYS_process_vm_readv, Always),
    (libc::SYS_pidfd_open, Always),
    (libc::SYS_sched_getaffinity, Always),
    (libc::SYS_sched_getscheduler, Always),
    (libc::SYS_sched_getparam, Always),
    (libc::SYS_getpriority, Always),
    // The actuator is our child.
    (libc::SYS_wait4, Always),
    (libc::SYS_waitid, Always),
    // Probes.
    (libc::SYS_perf_event_open, Always),
    // Memory of our own.
    (libc::SYS_brk, Always),
    (libc::SYS_mmap, Without(2, libc::PROT_EXEC)),
    (libc::SYS_mprotect, Without(2, libc::PROT_EXEC)),
    (libc::SYS_munmap, Always),
    (libc::SYS_mremap, Always),
    (libc::SYS_madvise, Always),
    // Waiting, and clocks.
    (libc::SYS_epoll_create1, Always),
    (libc::SYS_epoll_ctl, Always),
    (libc::SYS_epoll_pwait, Always),
    (libc::SYS_epoll_pwait2, Always),
    (libc::SYS_ppoll, Always),
    (libc::SYS_pselect6, Always),
    (libc::SYS_eventfd2, Always),
    (libc::SYS_timerfd_create, Always),
    (libc::SYS_timerfd_settime, Always),
    (libc::SYS_nanosleep, Always),
    (libc::SYS_clock_nanosleep, Always),
    (libc::SYS_clock_gettime, Always),
    (libc::SYS_clock_getres, Always),
    (libc::SYS_gettimeofday, Always),
    (libc::SYS_restart_syscall, Always),
    // Peers connect to us; we connect to none.
    (libc::SYS_accept4, Always),
    (libc::SYS_recvfrom, Always),
    (libc::SYS_recvmsg, Always),
    (libc::SYS_sendto, Always),
    (libc::SYS_sendmsg, Always),
    (libc::SYS_shutdown, Always),
    (libc::SYS_getsockname, Always),
    (libc::SYS_getpeername, Always),
    (libc::SYS_getsockopt, Always),
    (libc::SYS_setsockopt, Always),
    (libc::SYS_socketpair, OneOf(0, SOCKETS_OF_UNIX)),
    // Threads and signals of our own. What clone3 is to do is in memory: see `without_clone3`.
    (libc::SYS_clone, With(0, OF_THREAD)),
    (libc::SYS_clone3, Always),
    (libc::SYS_set_robust_list, Always),
    (libc::SYS_rseq, Always),
    (libc::SYS_futex, Always),
    (libc::SYS_membarrier, Always),
    (libc::SYS_sched_yield, Always),
    (libc::SYS_rt_sigaction, Always),
    (libc::SYS_rt_sigprocmask, Always),
    (libc::SYS_rt_sigreturn, Always),
    (libc::SYS_rt_sigtimedwait, Always),
    (libc::SYS_sigaltstack, Always),
    (libc::SYS_tgkill, OwnProcess),
    (libc::SYS_kill, OwnProcess),
    (libc::SYS_exit, Always),
    (libc::SYS_exit_group, Always),
    // Ourselves.
    (libc::SYS_getpid, Always),
    (libc::SYS_gettid, Always),
    (libc::SYS_getppid, Always),
    (libc::SYS_getpgid, Always),
    (libc::SYS_getuid, Always),
    (libc::SYS_geteuid, Always),
    (libc::SYS_getgid, Always),
    (libc::SYS_getegid, Always),
    (libc::SYS_getgroups, Always),
    (libc::SYS_capget, Always),
    (libc::SYS_getrusage, Always),
    (libc::SYS_getrandom, Always),
    (libc::SYS_getcpu, Always),
    (libc::SYS_uname, Always),
    (libc::SYS_sysinfo, Always),
    (libc::SYS_prctl, OneOf(0, PRCTL)),
    // More can be given up.
    (libc::SYS_seccomp, Always),
];

/// What gives a file its name and its mode when it is complete, or removes it.
const OF_REPORT: &[(c_long, When)] = &[
    (libc::SYS_renameat2, Always),
    (libc::SYS_unlinkat, Always),
    (libc::SYS_fchmod, Always),
    (libc::SYS_ftruncate, Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_renameat, Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, Always),
];

/// Older calls for the same.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(c_long, When)] = &[
    (libc::SYS_open, Without(1, WRITES)),
    (libc::SYS_getpgrp, Always),
    (libc::SYS_stat, Always),
    (libc::SYS_lstat, Always),
    (libc::SYS_readlink, Always),
    (libc::SYS_access, Always),
    (libc::SYS_poll, Always),
    (libc::SYS_select, Always),
    (libc::SYS_epoll_wait, Always),
    (libc::SYS_time, Always),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(c_long, When)] = &[];

/// Leaves the list to the calling thread and those that it starts. It cannot be revoked.
pub(super) fn leave_to_this_thread() -> Result<(), RightsError> {
    seccompiler::apply_filter(&without_clone3()?)?;
    Ok(seccompiler::apply_filter(&filter(BPF, &[])?)?)
}

/// Leaves the list to all threads of this process. It cannot be revoked.
pub(super) fn leave_to_all() -> Result<(), RightsError> {
    apply_to_all(&without_clone3()?)?;
    apply_to_all(&filter(BPF, &[])?)
}

/// The same, and what loads programs and maps is left until [`leave_to_all`].
pub(super) fn leave_to_all_to_arm() -> Result<(), RightsError> {
    apply_to_all(&filter(BPF_TO_ARM, &[])?)
}

/// Leaves the list and what completes a file that is open, for the process that writes a report.
pub(super) fn leave_to_report_writer() -> Result<(), RightsError> {
    apply_to_all(&without_clone3()?)?;
    apply_to_all(&filter(&[], OF_REPORT)?)
}

/// A thread with a filter of its own, such as one that looked, is in the way until the kernel has forgotten
/// it, somewhat after it was joined.
fn apply_to_all(program: &BpfProgram) -> Result<(), RightsError> {
    let mut tries = 0;
    loop {
        match seccompiler::apply_filter_all_threads(program) {
            Err(seccompiler::Error::ThreadSync(_)) if tries < TRIES => tries += 1,
            applied => return Ok(applied?),
        }
        std::thread::sleep(PAUSE);
    }
}

/// Refuses clone3 as a kernel does that has none: then the C library starts its threads by clone, whose flags
/// can be looked at.
fn without_clone3() -> Result<BpfProgram, RightsError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch()?)?.try_into()?)
}

/// `bpf` are the commands of bpf(2) that are permitted.
fn filter(bpf: &'static [u64], more: &[(c_long, When)]) -> Result<BpfProgram, RightsError> {
    let mut rules: BTreeMap<i64, Vec<Rule>> = BTreeMap::new();
    for (call, when) in LEFT.iter().chain(OLDER).chain(more) {
        rules.insert(*call, permitted(when)?);
    }
    // No condition at all would permit every command.
    if !bpf.is_empty() {
        rules.insert(libc::SYS_bpf, permitted(&OneOf(0, bpf))?);
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch()?)?.try_into()?)
}

fn arch() -> Result<TargetArch, RightsError> {
    Ok(TargetArch::try_from(std::env::consts::ARCH)?)
}

/// One of these has to hold; none at all permits every call.
fn permitted(when: &When) -> Result<Vec<Rule>, RightsError> {
    let bits = |mask: libc::c_int| u64::from(mask.cast_unsigned());
    let rule = |argument: u8, compare: Compare, value: u64| -> Result<Rule, RightsError> {
        let condition = Condition::new(argument, Width::Dword, compare, value)?;
        Ok(Rule::new(vec![condition])?)
    };
    match when {
        Always => Ok(Vec::new()),
        Without(argument, mask) => Ok(vec![rule(*argument, Compare::MaskedEq(bits(*mask)), 0)?]),
        With(argument, mask) => {
            let mask = bits(*mask);
            Ok(vec![rule(*argument, Compare::MaskedEq(mask), mask)?])
        }
        OneOf(argument, values) => {
            let values = values.iter();
            values.map(|value| rule(*argument, Compare::Eq, *value)).collect()
        }
        OwnProcess => {
            let own = u64::from(getpid().as_raw_nonzero().get().cast_unsigned());
            Ok(vec![rule(0, Compare::Eq, own)?])
        }
    }
}
