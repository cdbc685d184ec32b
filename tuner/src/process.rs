//! A process that may be inspected: its identity (a pid alone is not enough), and what /proc shows of it.
//!
//! Refuses processes that must never be touched: init, kernel threads, zombies, ourselves. Reads no memory.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::author;
use crate::printable::{printable, printable_path};

/// The wait status of a process that has ended, as of waitpid. A zombie shows it in /proc, and its pidfd once its parent has
/// collected it (Linux 6.15); otherwise it is not known.
pub fn wait_status(pid: i32, pidfd: BorrowedFd<'_>) -> Option<i32> {
    let of_zombie = || {
        let stat = read_text(pid, "stat").ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        (fields.next()? == "Z").then(|| fields.last()?.parse().ok())?
    };
    let collected = || crate::sys::wait_status(pidfd);
    // It may be collected between the first two.
    collected().or_else(of_zombie).or_else(collected)
}

/// Why a process cannot be inspected.
#[derive(Debug, Error)]
pub enum ProcessError {
    #[error("there is no process {pid} here")]
    NotFound { pid: i32 },
    /// It ended; its number may belong to another process now.
    #[error("process {pid} has ended")]
    Ended { pid: Pid },
    /// It ended, and its parent has not collected it.
    #[error("process {pid} has ended already (a zombie, its parent {parent} has not collected it)")]
    Zombie { pid: i32, parent: i32 },
    #[error("process 1 is init: it is never inspected")]
    Init,
    #[error("process {pid} ({name}) is a thread of the kernel: it has no program to inspect")]
    KernelThread { pid: i32, name: String },
    #[error("process {pid} is tuneagent itself")]
    Ourselves { pid: i32 },
    /// A thread that is not the first of its process.
    #[error("{pid} is a thread of process {process}: give {process}")]
    NotAProcess {
        /// The number of the thread.
        pid: i32,
        /// The number of its process.
        process: i32,
    },
    #[error(
        "process {pid} belongs to {user}: not permitted to inspect it (the kernel permits it to root and, where its Yama scope \
         allows it, to the same user with the same group){}", without(.missing)
    )]
    NotPermitted {
        pid: i32,
        user: String,
        /// The capabilities that would permit it and that the calling process lacks.
        missing: Vec<&'static str>,
    },
    /// It was started with more rights than its user has: inspecting it would pass these rights on.
    #[error(
        "process {pid} ({user}) was started with rights that its user does not have (a set-uid or set-gid program, or one \
         with file capabilities): it is never inspected"
    )]
    Privileged { pid: Pid, user: String },
    #[error("cannot read {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
}

fn without(missing: &[&str]) -> String {
    match missing {
        [] => String::new(),
        missing => format!("; missing: {}", missing.join(", ")),
    }
}

/// Bytes of /proc/PID/status that are read to find the tracer.
const STATUS_HEAD_BYTES: usize = 1024;

/// Most files of a process in /proc are shorter.
const PROC_BYTES: usize = 4096;

/// The identity of a process: number and start time. A reused number has another start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pid {
    pub number: i32,
    /// Clock ticks after boot at which it started.
    pub start_time: u64,
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

impl Pid {
    /// False once this process has ended, even if another one has its number now. True if that cannot be
    /// determined (no descriptor is left), so that a process that may still run is not given up.
    pub fn is_alive(self) -> bool {
        !matches!(self.check_alive(), Err(ProcessError::Ended { .. }))
    }

    /// Checks that this process runs, and not another one under the same number.
    pub(crate) fn check_alive(self) -> Result<(), ProcessError> {
        self.check_stat(Stat::read(self.number))
    }

    fn check_stat(self, stat: Result<Stat, ProcessError>) -> Result<(), ProcessError> {
        match stat {
            Ok(stat) if stat.start_time == self.start_time && !stat.has_ended() => Ok(()),
            Ok(_) | Err(ProcessError::NotFound { .. }) => Err(ProcessError::Ended { pid: self }),
            Err(error) => Err(error),
        }
    }

    /// The process, if it still runs.
    pub fn open(self) -> Result<Process, ProcessError> {
        match Process::open(self.number) {
            Ok(process) if process.pid == self => Ok(process),
            Ok(_) | Err(ProcessError::NotFound { .. } | ProcessError::Zombie { .. }) => {
                Err(ProcessError::Ended { pid: self })
            }
            Err(error) => Err(error),
        }
    }

    /// The text of /proc/PID/status. The process existed, so "not found" means that it has ended.
    fn status(self) -> Result<String, ProcessError> {
        read_text(self.number, "status").map_err(|error| match error {
            ProcessError::NotFound { .. } => ProcessError::Ended { pid: self },
            error => error,
        })
    }

    pub(crate) fn tracer(self) -> Result<Option<i32>, ProcessError> {
        self.tracer_in(&self.open_status()?)
    }

    /// Opens /proc/PID/status. The handle stays bound to the process that it was opened for.
    pub(crate) fn open_status(self) -> Result<File, ProcessError> {
        let path = self.proc_path("status");
        File::open(&path).map_err(|error| self.io_error(&path, error))
    }

    /// The tracer, read through the open file: looking up the path takes as long as reading.
    pub(crate) fn tracer_in(self, status: &File) -> Result<Option<i32>, ProcessError> {
        let io_error = |error| self.io_error(self.proc_path("status"), error);
        // TracerPid is the eighth line. Of the lines before it only the name can be long, and it has at most
        // 16 characters.
        let mut bytes = [0; STATUS_HEAD_BYTES];
        let length = status.read_at(&mut bytes, 0).map_err(io_error)?;
        let head = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        let lines = head.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let tracer = status_numbers(lines, "TracerPid:").next();
        // Without a TracerPid a debugger cannot be excluded, so this is an error and nothing is written.
        let unknown = || io_error(io::Error::new(io::ErrorKind::InvalidData, "it has no TracerPid"));
        Ok(Some(tracer.ok_or_else(unknown)?).filter(|tracer| *tracer != 0))
    }

    /// Refuses a program with more rights than its user has. AT_SECURE in the auxiliary vector says that it
    /// was started so; an effective uid other than the real one, or capabilities of a user other than root,
    /// show rights that it acquired later. (Capabilities in its own user namespace, as in rootless
    /// containers, do not count.) If these values cannot be read, the process cannot be accessed anyway.
    pub(crate) fn refuse_privileged(self) -> Result<(), ProcessError> {
        let status = self.status()?;
        let differ = |key| {
            let mut ids = status_numbers(&status, key);
            let real = ids.next();
            ids.any(|id| Some(id) != real)
        };
        let is_secure = read_proc(self.proc_path("auxv")).is_ok_and(|vector| secure_in(&vector));
        let is_root = status_numbers(&status, "Uid:").next() == Some(0);
        let has_capabilities = !is_root && has_capabilities(&status) && self.shares_user_namespace();
        if is_secure || has_capabilities || differ("Uid:") || differ("Gid:") {
            let user = owner(self.number);
            return Err(ProcessError::Privileged { pid: self, user });
        }
        Ok(())
    }

    fn shares_user_namespace(self) -> bool {
        let theirs = fs::read_link(self.proc_path("ns/user"));
        theirs.is_ok_and(|theirs| fs::read_link("/proc/self/ns/user").is_ok_and(|ours| ours == theirs))
    }

    /// The error for a failed read in /proc of a process that existed.
    pub(crate) fn io_error(self, path: impl AsRef<Path>, error: io::Error) -> ProcessError {
        match io_error(self.number, path, error) {
            ProcessError::NotFound { .. } => ProcessError::Ended { pid: self },
            error => error,
        }
    }

    pub(crate) fn proc_path(self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.number))
    }
}

/// A process that may be inspected, with the properties that stay constant while its program runs.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: Pid,
    /// The parent when it was opened.
    pub parent: i32,
    pub name: String,
    /// The path of its executable in its own mount namespace.
    pub executable: PathBuf,
    /// Its arguments, the program name first.
    pub arguments: Vec<String>,
    pub uid: u32,
}

impl Process {
    /// Opens process `pid`, or returns why it must not be inspected.
    pub fn open(pid: i32) -> Result<Process, ProcessError> {
        if pid == 1 {
            return Err(ProcessError::Init);
        }
        if pid.unsigned_abs() == std::process::id() {
            return Err(ProcessError::Ourselves { pid });
        }
        let stat = Stat::read(pid)?;
        if stat.is_kernel_thread() {
            return Err(ProcessError::KernelThread { pid, name: stat.name });
        }
        if stat.has_ended() {
            return Err(ProcessError::Zombie {
                pid,
                parent: stat.parent,
            });
        }
        let status = read_text(pid, "status")?;
        let process = status_numbers(&status, "Tgid:").next().unwrap_or(pid);
        if process != pid {
            return Err(ProcessError::NotAProcess { pid, process });
        }
        let executable = format!("/proc/{pid}/exe");
        let executable = fs::read_link(&executable).map_err(|error| io_error(pid, &executable, error))?;
        let executable = printable_path(executable);
        let process = Process {
            pid: Pid {
                number: pid,
                start_time: stat.start_time,
            },
            parent: stat.parent,
            name: stat.name,
            executable,
            arguments: split_zero(read_bytes(pid, "cmdline")?),
            uid: status_numbers(&status, "Uid:")
                .next()
                .unwrap_or_default()
                .unsigned_abs(),
        };
        // All values must be of one process: the number could have been reused between two reads.
        process.pid.check_alive()?;
        Ok(process)
    }

    /// A process that ended before it was inspected: only its number and short name are known.
    pub fn gone(number: i32, name: &str) -> Process {
        Process {
            pid: Pid {
                number,
                start_time: 0,
            },
            parent: 0,
            name: printable(name).into_owned(),
            executable: PathBuf::from(printable(name).as_ref()),
            arguments: Vec::new(),
            uid: 0,
        }
    }

    pub fn is_alive(&self) -> bool {
        self.pid.is_alive()
    }

    /// The letter of its current state (R, S, D, T …), as ps shows it.
    pub fn state(&self) -> Result<char, ProcessError> {
        Ok(Stat::read(self.pid.number)?.state)
    }

    /// The process that debugs it now (gdb, strace), if any.
    pub fn tracer(&self) -> Result<Option<i32>, ProcessError> {
        self.pid.tracer()
    }

    /// Its initial environment, as NAME=VALUE.
    pub fn environment(&self) -> Result<Vec<String>, ProcessError> {
        Ok(split_zero(read_bytes(self.pid.number, "environ")?))
    }

    /// Its user, by name if there is one.
    pub fn user(&self) -> String {
        author::user_name(self.uid)
    }
}

/// The fields of /proc/PID/stat that are used.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    parent: i32,
    flags: u64,
    start_time: u64,
}

/// Flag of kernel threads (include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

impl Stat {
    fn read(pid: i32) -> Result<Stat, ProcessError> {
        let text = read_text(pid, "stat")?;
        Stat::parse(&text).ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::InvalidData, format!("not understood: `{text}`"));
            io_error(pid, format!("/proc/{pid}/stat"), error)
        })
    }

    /// A name may contain spaces and parentheses; the last parenthesis of the line ends it, since only
    /// numbers follow.
    fn parse(text: &str) -> Option<Stat> {
        let (before, after) = text.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        Some(Stat {
            name: printable(name).into_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }

    fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

fn has_capabilities(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
    line.is_some_and(|mask| mask.trim().chars().any(|digit| digit != '0'))
}

fn status_numbers<'a>(status: &'a str, key: &str) -> impl Iterator<Item = i32> + 'a {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|word| word.parse().ok())
}

fn read_bytes(pid: i32, file: &str) -> Result<Vec<u8>, ProcessError> {
    let path = format!("/proc/{pid}/{file}");
    read_proc(&path).map_err(|error| io_error(pid, &path, error))
}

/// A file of /proc, of which the kernel reports no size: [`fs::read`] begins with 32 bytes then and takes four
/// times as many system calls.
pub fn read_proc(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PROC_BYTES);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_text(pid: i32, file: &str) -> Result<String, ProcessError> {
    Ok(String::from_utf8_lossy(&read_bytes(pid, file)?).into_owned())
}

fn split_zero(bytes: Vec<u8>) -> Vec<String> {
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            std::ffi::OsString::from_vec(part.to_vec())
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

/// The error for a failed read in /proc.
fn io_error(pid: i32, path: impl AsRef<Path>, error: io::Error) -> ProcessError {
    match error.kind() {
        io::ErrorKind::NotFound => ProcessError::NotFound { pid },
        io::ErrorKind::PermissionDenied => {
            let file = path.as_ref().file_name().unwrap_or_default();
            ProcessError::not_permitted(pid, &file.to_string_lossy())
        }
        // ESRCH: it ended between opening the file and reading it.
        _ if error.raw_os_error() == Some(libc::ESRCH) => ProcessError::NotFound { pid },
        _ => ProcessError::Io {
            path: path.as_ref().to_owned(),
            error,
        },
    }
}

impl ProcessError {
    /// The kernel refused `file` of /proc/PID. All these files require the right to trace; memory and
    /// environment also require the owner's rights.
    pub(crate) fn not_permitted(pid: i32, file: &str) -> ProcessError {
        let held = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let private = matches!(file, "mem" | "environ");
        let needed = [
            ("CAP_SYS_PTRACE", CapabilitySet::SYS_PTRACE, true),
            (
                "CAP_DAC_READ_SEARCH",
                CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE,
                private,
            ),
        ];
        let is_missing =
            |(_, any_of, requested): &(_, CapabilitySet, bool)| *requested && !held.intersects(*any_of);
        ProcessError::NotPermitted {
            pid,
            user: owner(pid),
            missing: needed
                .into_iter()
                .filter(is_missing)
                .map(|(name, ..)| name)
                .collect(),
        }
    }
}

fn secure_in(vector: &[u8]) -> bool {
    auxiliary(vector, libc::AT_SECURE).is_some_and(|value| value != 0)
}

/// The value of `key` in an auxiliary vector, which consists of pairs of words.
pub(crate) fn auxiliary(vector: &[u8], key: u64) -> Option<u64> {
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    let mut pairs = vector
        .chunks_exact(16)
        .map(|pair| (word(&pair[..8]), word(&pair[8..])));
    pairs.find_map(|(known, value)| (known == key).then_some(value))
}

/// The living descendants of a process, nearest first, at most `most`. Descendants of an ended child are not
/// found. Reads `children` in /proc, which is cheap enough to be polled.
pub fn descendants(pid: i32, most: usize) -> Vec<i32> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([pid]);
    while let Some(parent) = waiting.pop_front() {
        for child in children(parent) {
            if found.len() < most && !found.contains(&child) {
                found.push(child);
                waiting.push_back(child);
            }
        }
    }
    found
}

/// The living children of a process. Orphans count as children of the process that collects them.
pub(crate) fn children(parent: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let numbers = |list: String| -> Vec<i32> {
        let words = list.split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

fn owner(pid: i32) -> String {
    fs::metadata(format!("/proc/{pid}")).map_or_else(
        |_| "another user".to_owned(),
        |meta| author::user_name(meta.uid()),
    )
}

/// The identity of a thread: a reused number has another start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadId {
    pub tid: i32,
    /// Clock ticks after boot at which it started.
    pub start_time: u64,
}

#[cfg(test)]
mod tests;
