//! Raises the priority of the session so that it can act although ranks keep every CPU busy: its niceness for
//! its life, and its scheduling class while it begins.

use std::{fs, io};

use probe::kernel::set_real_time;
use rustix::{
    process::{getpid, setpriority_process},
    thread::{Pid, gettid},
};

/// Above busy ranks, below what keeps the machine alive.
const NICE: i32 = -15;

/// Gives this process priority over busy ranks of its own login session.
pub(crate) fn raise() -> io::Result<()> {
    Ok(setpriority_process(Some(getpid()), NICE)?)
}

/// The real-time class of the calling thread until this is dropped, and of the threads that it starts
/// meanwhile. The niceness is not sufficient: mpirun may give each rank a login session of its own, between
/// which niceness has no effect. The class ends with the process, whatever ends it.
#[derive(Debug)]
pub(crate) struct RealTimeClass(());

impl RealTimeClass {
    /// `None` if it is not permitted.
    pub(crate) fn begin() -> Option<RealTimeClass> {
        set_real_time(gettid(), true).ok()?;
        Some(RealTimeClass(()))
    }
}

impl Drop for RealTimeClass {
    fn drop(&mut self) {
        leave_real_time();
    }
}

/// Returns all threads of this process to the normal class. Processes that a session starts inherit its class,
/// and call this first.
pub(crate) fn leave_real_time() {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    for thread in numbers.filter_map(Pid::from_raw).chain([gettid()]) {
        let refused = set_real_time(thread, false).err();
        // A thread that has ended meanwhile has no class.
        if let Some(error) = refused.filter(|error| error.raw_os_error() != Some(libc::ESRCH)) {
            tracing::warn!(%error, "a thread keeps its real-time priority");
        }
    }
}
