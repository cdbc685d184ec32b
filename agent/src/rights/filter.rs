//! A list of the system calls that a process that only reads may use, each with its permitted arguments.
//! Everything else fails with EPERM, which ends no process. So even a compromised process cannot open
//! anything for writing, create, rename or remove files, access or signal other processes, make memory
//! executable, or start programs. Later outputs (the report, the terminal) were opened before; programs are
//! changed by the actuator, a separate process.

use std::{collections::BTreeMap, time::Duration};

use libc::c_long;
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule, TargetArch,
};

use super::RightsError;

/// The condition on a call's arguments. Only values in registers can be checked.
enum When {
    Always,
    /// The argument with this number has none of these bits.
    Without(u8, libc::c_int),
    /// The argument has all of these bits.
    With(u8, libc::c_int),
    /// The argument is one of these values.
    OneOf(u8, &'static [u64]),
    /// The argument is our own process id.
    OwnProcess,
}

use When::{Always, OneOf, OwnProcess, With, Without};

/// Open flags that change or create a file. Of O_TMPFILE, the bit that O_DIRECTORY does not have.
const WRITES: libc::c_int = libc::O_WRONLY
    | libc::O_RDWR
    | libc::O_CREAT
    | libc::O_TRUNC
    | libc::O_APPEND
    | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// Flags that create a thread and no process.
const OF_THREAD: libc::c_int = libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND;

/// How often to retry while a thread is ending, and the pause between the tries.
const TRIES: u32 = 1000;
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// Descriptor flags; neither locks nor signals on input.
const FCNTL: &[u64] = &[
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_SETFL as u64,
    libc::F_DUPFD_CLOEXEC as u64,
];

/// A session ends the real-time priority with which it begins, and cannot raise one.
const NORMAL_CLASS: &[u64] = &[libc::SCHED_OTHER as u64];

/// The terminal's size, mode and foreground group, non-blocking descriptors, perf events.
const IOCTL: &[u64] = &[
    libc::TIOCGWINSZ as _,
    libc::TIOCGPGRP as _,
    libc::TCGETS as _,
    libc::TCSETS as _,
    libc::TCSETSW as _,
    libc::TCSETSF as _,
    libc::TCGETS2 as _,
    libc::TCSETS2 as _,
    libc::TCSETSW2 as _,
    libc::TCSETSF2 as _,
    libc::FIONBIO as _,
    libc::FIONREAD as _,
    libc::FIOCLEX as _,
    libc::PIDFD_GET_INFO as _,
    PERF_EVENT_IOC_ENABLE,
    PERF_EVENT_IOC_SET_BPF,
];
const PERF_EVENT_IOC_ENABLE: u64 = 0x2400;
const PERF_EVENT_IOC_SET_BPF: u64 = 0x4004_2408;

/// Names of threads and of mappings, the auxiliary vector, and the preparation of a filter.
const PRCTL: &[u64] = &[
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_SET_VMA as u64,
    PR_GET_AUXV,
    libc::PR_SET_NO_NEW_PRIVS as u64,
];
const PR_GET_AUXV: u64 = 0x4155_5856;

/// Commands of bpf(2) that use loaded maps and programs: elements of maps, test runs, links.
const BPF: &[u64] = &[1, 2, 3, 4, 10, 15, 17, 28, 34];
/// Those and the commands for loading: maps, programs, types, freezing.
const BPF_TO_ARM: &[u64] = &[0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 17, 18, 22, 28, 29, 34];

const SOCKETS_OF_UNIX: &[u64] = &[libc::AF_UNIX as u64];

/// A row: a condition on the arguments, then the calls that are permitted under it.
macro_rules! calls {
    ($($when:expr => $($call:ident)+;)*) => { &[$($((libc::$call, $when)),+),*] };
}

const LEFT: &[(c_long, When)] = calls! {
    // Open files.
    Always => SYS_read SYS_readv SYS_pread64 SYS_preadv SYS_write SYS_writev SYS_pwrite64 SYS_lseek
        SYS_close SYS_dup SYS_fsync SYS_fdatasync SYS_pipe2;
    OneOf(1, FCNTL) => SYS_fcntl;
    OneOf(1, IOCTL) => SYS_ioctl;
    // Reading files. openat2 has its flags in memory, which a filter cannot read.
    Without(2, WRITES) => SYS_openat;
    Always => SYS_fstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs SYS_readlinkat SYS_faccessat
        SYS_faccessat2 SYS_getdents64 SYS_getcwd;
    // Reading other processes.
    Always => SYS_process_vm_readv SYS_pidfd_open SYS_sched_getaffinity SYS_sched_getscheduler
        SYS_sched_getparam SYS_getpriority;
    OneOf(1, NORMAL_CLASS) => SYS_sched_setscheduler;
    // The actuator is our child.
    Always => SYS_wait4 SYS_waitid;
    // Probes.
    Always => SYS_perf_event_open;
    // Our own memory.
    Always => SYS_brk SYS_munmap SYS_mremap SYS_madvise;
    Without(2, libc::PROT_EXEC) => SYS_mmap SYS_mprotect;
    // Waiting, and clocks.
    Always => SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_ppoll SYS_pselect6
        SYS_eventfd2 SYS_timerfd_create SYS_timerfd_settime SYS_nanosleep SYS_clock_nanosleep
        SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_restart_syscall;
    // Peers connect to us; we connect to none.
    Always => SYS_accept4 SYS_recvfrom SYS_recvmsg SYS_sendto SYS_sendmsg SYS_shutdown SYS_getsockname
        SYS_getpeername SYS_getsockopt SYS_setsockopt;
    OneOf(0, SOCKETS_OF_UNIX) => SYS_socketpair;
    // Our own threads and signals. The flags of clone3 are in memory: see `without_clone3`.
    With(0, OF_THREAD) => SYS_clone;
    Always => SYS_clone3 SYS_set_robust_list SYS_rseq SYS_futex SYS_membarrier SYS_sched_yield
        SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigtimedwait SYS_sigaltstack SYS_exit
        SYS_exit_group;
    OwnProcess => SYS_tgkill SYS_kill;
    // Information about ourselves.
    Always => SYS_getpid SYS_gettid SYS_getppid SYS_getpgid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid
        SYS_getgroups SYS_capget SYS_getrusage SYS_getrandom SYS_getcpu SYS_uname SYS_sysinfo;
    OneOf(0, PRCTL) => SYS_prctl;
    // More rights can be given up.
    Always => SYS_seccomp;
};

/// Calls that give a complete file its name and mode, or remove it.
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

/// Older calls with the same purpose.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(c_long, When)] = calls! {
    Without(1, WRITES) => SYS_open;
    Always => SYS_getpgrp SYS_stat SYS_lstat SYS_readlink SYS_access SYS_poll SYS_select SYS_epoll_wait
        SYS_time;
};
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(c_long, When)] = &[];

/// Restricts the calling thread and those that it starts to the list. It cannot be revoked.
pub(super) fn leave_to_this_thread() -> Result<(), RightsError> {
    seccompiler::apply_filter(&without_clone3()?)?;
    Ok(seccompiler::apply_filter(&filter(BPF, &[])?)?)
}

/// Restricts all threads of this process to the list. It cannot be revoked.
pub(super) fn leave_to_all() -> Result<(), RightsError> {
    apply_to_all(&without_clone3()?)?;
    apply_to_all(&filter(BPF, &[])?)
}

/// Restricts all threads to the list and to loading programs and maps, until [`leave_to_all`].
pub(super) fn leave_to_all_to_arm() -> Result<(), RightsError> {
    apply_to_all(&filter(BPF_TO_ARM, &[])?)
}

/// Restricts the process that writes a report to the list and to the calls that complete an open file.
pub(super) fn leave_to_report_writer() -> Result<(), RightsError> {
    apply_to_all(&without_clone3()?)?;
    apply_to_all(&filter(&[], OF_REPORT)?)
}

/// A thread with a separate filter, such as one of [`super::looking`], blocks this until the kernel has
/// removed it, some time after it was joined.
fn apply_to_all(program: &BpfProgram) -> Result<(), RightsError> {
    let mut tries = 0;
    loop {
        match seccompiler::apply_filter_all_threads(program) {
            Err(seccompiler::Error::ThreadSync(_)) if tries < TRIES => tries += 1,
            applied => return Ok(applied?),
        }
        std::thread::sleep(RETRY_AFTER);
    }
}

/// Makes clone3 fail as on a kernel that does not have it. Then the C library starts its threads by clone,
/// whose flags can be checked.
fn without_clone3() -> Result<BpfProgram, RightsError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch()?)?.try_into()?)
}

/// `bpf` are the permitted commands of bpf(2).
fn filter(bpf: &'static [u64], more: &[(c_long, When)]) -> Result<BpfProgram, RightsError> {
    let mut rules: BTreeMap<i64, Vec<Rule>> = BTreeMap::new();
    for (call, when) in LEFT.iter().chain(OLDER).chain(more) {
        rules.insert(*call, permitted(when)?);
    }
    // An empty condition would permit every command.
    if !bpf.is_empty() {
        rules.insert(libc::SYS_bpf, permitted(&OneOf(0, bpf))?);
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch()?)?.try_into()?)
}

fn arch() -> Result<TargetArch, RightsError> {
    Ok(TargetArch::try_from(std::env::consts::ARCH)?)
}

/// At least one of the rules must hold; an empty list permits every call.
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
