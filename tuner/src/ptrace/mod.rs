//! Stopping threads of another process, and letting them go again.
//!
//! Uses PTRACE_SEIZE and PTRACE_INTERRUPT: no signal is sent, no instruction is written, and a thread that
//! sleeps in a system call continues that call afterwards. This includes calls that the kernel would end with
//! EINTR only because of our stop (`arch/x86_64/restart.rs`; a timeout given as a duration starts anew). A
//! signal that arrives meanwhile is passed on.
//!
//! Every path lets the threads go: [`HeldThread`] and [`Stopped`] when they are dropped, and the kernel when
//! the thread of ours that holds them ends, for any reason. A thread that does not stop in time
//! (uninterruptible sleep, vfork) keeps our request pending; to cancel that too, hold in a separate thread
//! that ends afterwards ([`apart`]).
//!
//! The kernel accepts requests only from the thread that seized: neither type can be sent to another thread.

mod sys;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::arch::RawRegisters;
use crate::arch::x86_64::restart;
use crate::process::{Pid, Process, ProcessError, ThreadId};
use crate::seccomp::Filters;
use sys::{StopReason, ThreadEvent};

/// More threads than any program has. Bounds the listing, which is repeated until no thread is new.
const THREADS_MAX: usize = 65_536;
/// Polls without giving up the CPU: a thread on another CPU stops within microseconds, and a busy CPU that
/// was given up is returned after milliseconds.
const LOOKS_AT_ONCE: u32 = 100;
/// Polls up to which the CPU is only yielded, since the thread may be waiting for it.
const LOOKS_BETWEEN: u32 = 200;
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Why threads were not stopped. None is held then.
#[derive(Debug, Error)]
pub enum PtraceError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(
        "process {pid} is traced by process {tracer} (gdb, strace), and only one process can stop its threads"
    )]
    Traced { pid: Pid, tracer: i32 },
    #[error(
        "not permitted to stop the threads of process {pid}: only its owner may, where the kernel's Yama scope allows it, \
         and root with CAP_SYS_PTRACE"
    )]
    NotPermitted { pid: Pid },
    #[error("thread {tid} of process {pid} (state {state}) did not stop within {} ms: let go", .waited.as_millis())]
    NotStopped {
        pid: Pid,
        tid: i32,
        /// Its state, as ps shows it.
        state: char,
        /// How long we waited for it.
        waited: Duration,
    },
    #[error("thread {tid} of process {pid} has ended")]
    ThreadEnded { pid: Pid, tid: i32 },
    /// The hold ended before the thread was requested to stop.
    #[error("thread {tid} of process {pid} had to be let go before it was stopped")]
    LetGo { pid: Pid, tid: i32 },
    #[error("process {pid} has more than {THREADS_MAX} threads")]
    TooManyThreads { pid: Pid },
    #[error("cannot {what} thread {tid} of process {pid}: {source}")]
    Io {
        pid: Pid,
        tid: i32,
        what: &'static str,
        source: io::Error,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Stopped,
    /// Stopped with its process by a signal.
    StoppedBySignal,
    Running,
    Ended,
}

/// One stopped thread. It is let go on drop.
#[derive(Debug)]
pub struct HeldThread {
    pid: Pid,
    tid: i32,
    state: State,
    // Not `Send`: the kernel accepts requests only from the thread that seized.
    _stays_here: PhantomData<*const ()>,
}

impl HeldThread {
    /// Stops one thread within `wait`.
    pub fn stop(pid: Pid, tid: i32, wait: Duration) -> Result<HeldThread, PtraceError> {
        let mut thread = HeldThread::request_stop(pid, tid)?;
        thread.await_stop(Instant::now(), wait)?;
        Ok(thread)
    }

    /// Attaches to the thread without stopping it.
    pub(crate) fn seize(pid: Pid, tid: i32) -> Result<HeldThread, PtraceError> {
        sys::seize(tid).map_err(|source| seize_error(pid, tid, source))?;
        Ok(HeldThread {
            pid,
            tid,
            state: State::Running,
            _stays_here: PhantomData,
        })
    }

    /// The signal for which it has stopped since the last call; the signal is not delivered yet. Does not
    /// wait.
    pub(crate) fn signal(&mut self) -> Result<Option<i32>, PtraceError> {
        match self.poll()? {
            Some(StopReason::Signal(signal)) => {
                self.state = State::Stopped;
                Ok(Some(signal))
            }
            Some(StopReason::GroupStop) => sys::listen(self.tid)
                .map(|()| None)
                .map_err(|source| self.error("resume", source)),
            Some(StopReason::Interrupted | StopReason::SystemCall | StopReason::Other) => {
                self.pass(0).map(|()| None)
            }
            None => Ok(None),
        }
    }

    /// Resumes it and delivers the signal for which it has stopped.
    pub(crate) fn pass(&mut self, signal: i32) -> Result<(), PtraceError> {
        self.state = State::Running;
        sys::go_on(self.tid, signal).map_err(|source| self.error("resume", source))
    }

    /// Attaches to the thread and requests it to stop.
    pub(crate) fn request_stop(pid: Pid, tid: i32) -> Result<HeldThread, PtraceError> {
        let thread = HeldThread::seize(pid, tid)?;
        sys::interrupt(tid).map_err(|source| thread.error("interrupt", source))?;
        Ok(thread)
    }

    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Whether it has stopped after a request; does not wait. Signals that arrive first are passed on.
    pub(crate) fn look(&mut self) -> Result<bool, PtraceError> {
        while let Some(reason) = self.poll()? {
            if self.has_stopped(reason)? {
                return Ok(true);
            }
        }
        Ok(matches!(self.state, State::Stopped | State::StoppedBySignal))
    }

    /// Whether it has stopped as requested, or with its process. Otherwise it is resumed.
    fn has_stopped(&mut self, reason: StopReason) -> Result<bool, PtraceError> {
        let signal = match reason {
            StopReason::Interrupted => {
                self.state = State::Stopped;
                return Ok(true);
            }
            StopReason::GroupStop => {
                self.state = State::StoppedBySignal;
                return Ok(true);
            }
            StopReason::Signal(signal) => signal,
            StopReason::SystemCall | StopReason::Other => 0,
        };
        sys::go_on(self.tid, signal).map_err(|source| self.error("resume", source))?;
        Ok(false)
    }

    /// The error for a thread that did not stop within `waited`.
    pub(crate) fn not_stopped(&self, waited: Duration) -> PtraceError {
        let (pid, tid) = (self.pid, self.tid);
        let state = thread_state(pid, tid).unwrap_or('?');
        PtraceError::NotStopped {
            pid,
            tid,
            state,
            waited,
        }
    }

    /// A signal has stopped the process (SIGSTOP, Ctrl-Z): it executes nothing until SIGCONT.
    pub(crate) fn is_stopped_by_signal(&self) -> bool {
        self.state == State::StoppedBySignal
    }

    pub(crate) fn registers(&self) -> Result<RawRegisters, PtraceError> {
        sys::registers(self.tid).map_err(|source| self.error("read the registers of", source))
    }

    pub(crate) fn set_registers(&self, registers: &RawRegisters) -> Result<(), PtraceError> {
        sys::set_registers(self.tid, registers).map_err(|source| self.error("set the registers of", source))
    }

    /// The floating-point and vector state, in the standard format of XSAVE.
    pub(crate) fn extended_state(&self) -> Result<Vec<u8>, PtraceError> {
        sys::extended_state(self.tid).map_err(|source| self.error("read the vector registers of", source))
    }

    pub(crate) fn signal_mask(&self) -> Result<u64, PtraceError> {
        sys::signal_mask(self.tid).map_err(|source| self.error("read the signal mask of", source))
    }

    pub(crate) fn set_signal_mask(&self, mask: u64) -> Result<(), PtraceError> {
        sys::set_signal_mask(self.tid, mask).map_err(|source| self.error("set the signal mask of", source))
    }

    /// Stores a word of 8 bytes. Ignores page protection.
    pub(crate) fn store(&self, address: u64, word: u64) -> io::Result<()> {
        sys::store(self.tid, address, word)
    }

    /// The address of its registered rseq area; also `None` if the kernel does not report it (before 5.13).
    pub(crate) fn rseq_place(&self) -> Option<u64> {
        sys::rseq_place(self.tid).ok().flatten()
    }

    /// Resumes it until the next begin or end of a system call.
    pub(crate) fn run_to_system_call(&mut self, wait: Duration) -> Result<(), PtraceError> {
        let began = Instant::now();
        let mut signal = 0;
        loop {
            sys::go_to_system_call(self.tid, signal).map_err(|source| self.error("resume", source))?;
            self.state = State::Running;
            let reason = self.next_stop(began, wait)?;
            self.state = State::Stopped;
            match reason {
                StopReason::SystemCall => return Ok(()),
                StopReason::Signal(number) => signal = number,
                StopReason::Interrupted | StopReason::GroupStop | StopReason::Other => signal = 0,
            }
        }
    }

    /// Runs from the end of our system call to the stop before the program continues, where the kernel
    /// decides how an interrupted call goes on.
    pub(crate) fn run_to_the_program(&mut self, wait: Duration) -> Result<(), PtraceError> {
        sys::interrupt(self.tid).map_err(|source| self.error("interrupt", source))?;
        self.pass(0)?;
        self.await_stop(Instant::now(), wait)
    }

    /// Waits until it has stopped after a request.
    fn await_stop(&mut self, began: Instant, wait: Duration) -> Result<(), PtraceError> {
        loop {
            let reason = self.next_stop(began, wait)?;
            if self.has_stopped(reason)? {
                return Ok(());
            }
        }
    }

    fn next_stop(&mut self, began: Instant, wait: Duration) -> Result<StopReason, PtraceError> {
        let mut looks = 0;
        loop {
            match self.poll()? {
                Some(reason) => return Ok(reason),
                None if began.elapsed() > wait => return Err(self.not_stopped(wait)),
                None => looks += 1,
            }
            if looks < LOOKS_AT_ONCE {
                std::hint::spin_loop();
            } else if looks < LOOKS_BETWEEN {
                std::thread::yield_now();
            } else {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// The next stop since the last poll; does not wait. At every stop at which the kernel is about to decide
    /// how an interrupted system call goes on, makes sure that the call does not fail because of our stop.
    fn poll(&mut self) -> Result<Option<StopReason>, PtraceError> {
        let (pid, tid) = (self.pid, self.tid);
        let reason = match sys::poll(tid).map_err(|source| self.error("wait for", source))? {
            Some(ThreadEvent::Stopped(reason)) => reason,
            Some(ThreadEvent::Ended) => {
                self.state = State::Ended;
                return Err(PtraceError::ThreadEnded { pid, tid });
            }
            None => return Ok(None),
        };
        if matches!(
            reason,
            StopReason::Interrupted | StopReason::GroupStop | StopReason::Signal(_)
        ) {
            self.leave_call_undecided();
        }
        Ok(Some(reason))
    }

    /// Errors are ignored: they happen only if the thread is being killed.
    fn leave_call_undecided(&self) {
        let Ok(registers) = sys::registers(self.tid) else {
            return;
        };
        let resumed = match restart::undecided(&registers) {
            Some(undecided) => undecided,
            // Its seccomp filters would kill it for restart_syscall: it sleeps anew.
            None if restart::is_in_timed_sleep(&registers) && !self.may_go_on_sleeping(&registers) => {
                restart::again_unless_handled(&registers)
            }
            None => return,
        };
        let _ = sys::set_registers(self.tid, &resumed);
    }

    fn may_go_on_sleeping(&self, registers: &RawRegisters) -> bool {
        self.seccomp_filters().allow(&restart::going_on(registers))
    }

    /// Its seccomp filters, which decide about system calls that it makes for us.
    pub(crate) fn seccomp_filters(&self) -> Filters {
        Filters::of(self.pid, self.tid, |place| sys::seccomp_filter(self.tid, place))
    }

    fn error(&self, what: &'static str, source: io::Error) -> PtraceError {
        let (pid, tid) = (self.pid, self.tid);
        match source.raw_os_error() {
            Some(libc::ESRCH) => PtraceError::ThreadEnded { pid, tid },
            _ => PtraceError::Io {
                pid,
                tid,
                what,
                source,
            },
        }
    }
}

impl Drop for HeldThread {
    fn drop(&mut self) {
        // A running thread cannot be detached; the kernel does so when this thread of ours ends.
        if matches!(self.state, State::Stopped | State::StoppedBySignal) {
            let _ = sys::detach(self.tid);
        }
    }
}

/// All threads of a process, stopped. They are let go on drop.
#[derive(Debug)]
pub struct Stopped {
    threads: Vec<HeldThread>,
    since: Instant,
}

impl Stopped {
    /// Stops all threads within `wait`, including those that are started meanwhile.
    pub fn all(process: &Process, wait: Duration) -> Result<Stopped, PtraceError> {
        let pid = process.pid;
        refuse_traced(pid)?;
        let since = Instant::now();
        let mut held: BTreeMap<i32, HeldThread> = BTreeMap::new();
        let mut ended: BTreeSet<i32> = BTreeSet::new();
        // A stopped thread starts no other: once a listing has no new thread, all are held.
        loop {
            let listed = threads(pid)?;
            let new: Vec<i32> = listed
                .into_iter()
                .filter(|tid| !held.contains_key(tid) && !ended.contains(tid))
                .collect();
            if new.is_empty() {
                break;
            }
            if held.len() + new.len() > THREADS_MAX {
                return Err(PtraceError::TooManyThreads { pid });
            }
            for tid in &new {
                match HeldThread::request_stop(pid, *tid) {
                    Ok(thread) => _ = held.insert(*tid, thread),
                    Err(PtraceError::ThreadEnded { .. }) => _ = ended.insert(*tid),
                    Err(error) => return Err(error),
                }
            }
            for tid in new {
                let Some(thread) = held.get_mut(&tid) else {
                    continue;
                };
                match thread.await_stop(since, wait) {
                    Ok(()) => {}
                    Err(PtraceError::ThreadEnded { .. }) => {
                        held.remove(&tid);
                        ended.insert(tid);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if held.is_empty() || !process.is_alive() {
            return Err(ProcessError::Ended { pid }.into());
        }
        Ok(Stopped {
            threads: held.into_values().collect(),
            since,
        })
    }

    pub fn threads(&self) -> &[HeldThread] {
        &self.threads
    }

    pub(crate) fn threads_mut(&mut self) -> &mut [HeldThread] {
        &mut self.threads
    }

    /// Time since the stop began.
    pub fn held(&self) -> Duration {
        self.since.elapsed()
    }
}

/// Runs `act` in a separate thread and waits for it. When that thread ends, the kernel detaches all threads
/// that it has seized and not let go.
pub(crate) fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let result = std::thread::scope(|scope| scope.spawn(act).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The threads of a process, the first one first.
pub(crate) fn threads(pid: Pid) -> Result<Vec<i32>, PtraceError> {
    let path = pid.proc_path("task");
    let entries = fs::read_dir(&path).map_err(|source| pid.io_error(&path, source))?;
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let mut found: Vec<i32> = entries.filter_map(number).collect();
    found.sort_by_key(|tid| (*tid != pid.number, *tid));
    Ok(found)
}

/// An error with the tracer if the process is debugged.
pub(crate) fn refuse_traced(pid: Pid) -> Result<(), PtraceError> {
    match pid.tracer()? {
        Some(tracer) => Err(PtraceError::Traced { pid, tracer }),
        None => Ok(()),
    }
}

/// A thread of a process, with its start time.
pub(crate) fn thread_id(pid: Pid, tid: i32) -> Result<ThreadId, PtraceError> {
    let text = fs::read_to_string(pid.proc_path(&format!("task/{tid}/stat"))).unwrap_or_default();
    // A name may contain anything; the last parenthesis ends it.
    let fields = text.rsplit_once(") ").map(|(_, fields)| fields);
    let start_time = fields.and_then(|fields| fields.split_ascii_whitespace().nth(19)?.parse().ok());
    match start_time {
        Some(start_time) => Ok(ThreadId { tid, start_time }),
        None => Err(PtraceError::ThreadEnded { pid, tid }),
    }
}

fn thread_state(pid: Pid, tid: i32) -> Option<char> {
    let text = fs::read_to_string(pid.proc_path(&format!("task/{tid}/stat"))).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

fn thread_tracer(pid: Pid, tid: i32) -> Option<i32> {
    let text = fs::read_to_string(pid.proc_path(&format!("task/{tid}/status"))).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|tracer| *tracer != 0)
}

/// The kernel returns EPERM for a zombie, for a traced thread, and if it does not permit tracing.
fn seize_error(pid: Pid, tid: i32, source: io::Error) -> PtraceError {
    let has_ended = |state| matches!(state, 'Z' | 'X' | 'x');
    match (
        source.raw_os_error(),
        thread_state(pid, tid),
        thread_tracer(pid, tid),
    ) {
        (Some(libc::ESRCH), _, _) | (_, None, _) => PtraceError::ThreadEnded { pid, tid },
        (_, Some(state), _) if has_ended(state) => PtraceError::ThreadEnded { pid, tid },
        (Some(libc::EPERM), _, Some(tracer)) => PtraceError::Traced { pid, tracer },
        (Some(libc::EPERM), _, None) => PtraceError::NotPermitted { pid },
        _ => PtraceError::Io {
            pid,
            tid,
            what: "seize",
            source,
        },
    }
}
