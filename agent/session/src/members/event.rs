//! Events and effects of the processes of a job, as plain data.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::process::LastChange;
pub use crate::process::{ActuatorPid, MachineId, MemberProcess};
use profile::{
    OutOfMemory,
    format::{bytes, duration, plural},
};
use rules::Time;

/// A process as it was found in /proc.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub pid: ActuatorPid,
    pub user: u32,
    pub rank: Option<u32>,
    /// The file of its program.
    #[serde(with = "path")]
    pub program: PathBuf,
    pub has_mpi: bool,
    /// Number of files that it has mapped.
    pub modules: usize,
    /// Its dynamic linker has finished: all mapped libraries are known.
    pub is_linked: bool,
    /// When it started, by CLOCK_MONOTONIC.
    pub started: Time,
}

/// A file of a process that was attached to after the process had mapped it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateAttachment {
    pub name: String,
    pub attached: Time,
    /// It had probes before, which were detached at that time.
    pub is_again: bool,
    /// The start of the process was seen: it is still in its first call.
    pub begins: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By the signal of this number.
    Signal(i32),
}

impl Exit {
    /// How the OOM killer ends a process: SIGKILL.
    pub const KILLED: Exit = Exit::Signal(9);

    /// By the signal of a fault, which a wrong value can cause: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
    pub(super) fn is_fault(self) -> bool {
        matches!(self, Exit::Signal(4..=8 | 11 | 31))
    }
}

/// Why a process may have ended by a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitCause {
    /// What the OOM killer did in its cgroup.
    OutOfMemory(OutOfMemory),
    /// The newest change in it.
    Change(LastChange),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberEvent {
    /// A process to which the session attached when it began.
    Present(MemberProcess, Candidate),
    /// Something is not measured.
    NotMeasured(String),
    /// Time has passed, in a session that attached to a job.
    Tick(MachineId),
    /// Time has passed, in a session that started a command.
    Look {
        machine: MachineId,
        /// Number of programs that processes of the command have executed.
        execs: u64,
    },
    /// A process runs another program now.
    RunsAnother {
        process: MemberProcess,
        /// The file of the new program.
        #[serde(with = "path")]
        program: PathBuf,
    },
    /// A process has loaded libraries that matter to the session.
    Loaded {
        process: MemberProcess,
        candidate: Candidate,
        /// What it has loaded, in words.
        what: String,
    },
    /// A young process of a command was read a second time.
    LookedInto(MemberProcess, Candidate),
    /// The answer to [`MemberEffect::Scan`]: unknown processes, each with whether it still runs.
    Found(MachineId, Vec<(Candidate, bool)>),
    /// The answer to [`MemberEffect::Admit`]: the slot of this process; `None` if there is no room.
    Slot(MachineId, ActuatorPid, Option<u32>),
    /// A process of the command hit its first probe.
    Came(MemberProcess, Candidate),
    /// As `Came`, for a process that had ended before it could be read.
    CameUnseen {
        process: MemberProcess,
        pid: i32,
        /// MPI was not watched then.
        is_unwatched: bool,
    },
    /// A process of the command has ended.
    Went(MemberProcess),
    /// All starts and ends reported so far were passed on.
    Settled(MachineId),
    /// The answer to [`MemberEffect::Watch`]: the process is watched.
    Watched {
        process: MemberProcess,
        pid: ActuatorPid,
        /// A file that was attached to late.
        late: Option<LateAttachment>,
    },
    /// The answer to [`MemberEffect::Watch`]: the process cannot be watched.
    Refused {
        /// The slot that it gets all the same.
        process: MemberProcess,
        pid: ActuatorPid,
        reason: String,
    },
    /// The answer to [`MemberEffect::Watch`]: there is no room for this process, nor for any other.
    NoRoom(MachineId, ActuatorPid),
    /// How a process to which the session attached ended, if the kernel reports it; [`MemberEvent::Ended`] follows.
    Exited {
        process: MemberProcess,
        exit: Exit,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<ExitCause>,
    },
    /// A process to which the session attached has ended.
    Ended(MemberProcess),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberEffect {
    /// Check whether processes that have run execute another program: [`MemberEvent::RunsAnother`].
    CheckPrograms(MachineId),
    /// Check whether these processes have loaded an MPI or what rules are for: [`MemberEvent::Loaded`].
    CheckLibraries(Vec<MemberProcess>),
    /// Read again what this process has mapped: [`MemberEvent::LookedInto`].
    LookInto(MemberProcess),
    /// Read which program the command runs.
    LookAtCommand(MachineId),
    /// Search for unknown processes: [`MemberEvent::Found`].
    Scan(MachineId),
    /// Give a process a slot: [`MemberEvent::Slot`].
    Admit(MachineId, ActuatorPid),
    /// Attach to a process: [`MemberEvent::Watched`], [`MemberEvent::Refused`] or [`MemberEvent::NoRoom`].
    Watch {
        machine: MachineId,
        pid: ActuatorPid,
        /// Its slot; `None` for the next free one.
        slot: Option<u32>,
    },
    /// Remove the process in this slot from the rules.
    Leave(MemberProcess),
    /// Read the last totals of these processes, which then have ended.
    End(Vec<MemberProcess>),
    /// Stop counting the hits of this process.
    Forget(MemberProcess),
    /// Remove the records of the threads of this process.
    ForgetThreads(MemberProcess),
    /// Check whether this process has ended or runs another program: then its changes are gone.
    CheckChanges(MemberProcess),
    /// Check whether a process ended while probes were being attached to it, which is not reported then:
    /// [`MemberEvent::Went`].
    CheckEnded(MemberProcess, ActuatorPid),
    Say(MemberNotice),
    /// End the session, for this reason.
    Finish(&'static str),
}

pub type MemberEffects = Vec<MemberEffect>;

/// A line that stays on the screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberNotice {
    Joined {
        rank: Option<u32>,
        pid: ActuatorPid,
        /// It was watched before it executed another program or loaded libraries.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// A process runs another program.
    Replaced {
        rank: Option<u32>,
        pid: ActuatorPid,
        /// Nanoseconds since the probes were armed.
        after_ns: u64,
        /// The file of the new program.
        #[serde(with = "path")]
        program: PathBuf,
        /// It joins again only once it has MPI.
        needs_mpi: bool,
    },
    /// A process has loaded libraries that matter to the session.
    Loaded {
        rank: Option<u32>,
        pid: ActuatorPid,
        /// Nanoseconds since the probes were armed.
        after_ns: u64,
        what: String,
    },
    /// A process ended by a signal, or with a status that is not 0.
    Exited {
        rank: Option<u32>,
        pid: ActuatorPid,
        /// Nanoseconds since the probes were armed.
        after_ns: u64,
        exit: Exit,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<ExitCause>,
    },
    /// Numbers of processes whose ends have no line of their own.
    MoreExited { by_signal: u32, with_status: u32 },
    /// Something is not measured.
    Missing(String),
}

impl fmt::Display for MemberNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberNotice::Joined { rank, pid, again } => {
                let what = if *again { "is watched again" } else { "joined" };
                write!(f, "{} (pid {pid}) {what}", who(*rank))
            }
            MemberNotice::Replaced {
                rank,
                pid,
                after_ns,
                program,
                needs_mpi,
            } => write!(
                f,
                "{} (pid {pid}) executed another program (exec) after {}, {}: what it did before has its own entry, and the new \
                 program joins {}",
                who(*rank),
                duration(*after_ns as f64),
                program.display(),
                match needs_mpi {
                    true => "once it has loaded its MPI",
                    false => "soon",
                },
            ),
            MemberNotice::Loaded {
                rank,
                pid,
                after_ns,
                what,
            } => write!(
                f,
                "{} (pid {pid}) has loaded {what} after {}: what it did before has its own entry",
                who(*rank),
                duration(*after_ns as f64),
            ),
            MemberNotice::Exited {
                rank,
                pid,
                after_ns,
                exit,
                cause,
            } => {
                let after = duration(*after_ns as f64);
                write!(f, "{} (pid {pid}) {exit} after {after}", who(*rank))?;
                match cause {
                    None => Ok(()),
                    Some(ExitCause::OutOfMemory(memory)) => write!(f, ": {}", why_killed(memory)),
                    Some(ExitCause::Change(LastChange { number, rule, at_ns })) => {
                        let since = duration(after_ns.saturating_sub(*at_ns) as f64);
                        write!(
                            f,
                            ", {since} after change {number}, which {rule} made and which may be the cause"
                        )
                    }
                }
            }
            MemberNotice::MoreExited {
                by_signal,
                with_status,
            } => f.write_str(&more_exited(*by_signal, *with_status)),
            MemberNotice::Missing(text) => write!(f, "missing: {text}"),
        }
    }
}

fn more_exited(by_signal: u32, with_status: u32) -> String {
    let of = |count: u32, how| match count {
        0 => None,
        count => Some(format!("{} {how}", plural(count as usize, "more process"))),
    };
    let parts = [
        of(by_signal, "ended by signals"),
        of(with_status, "exited with a status other than 0"),
    ];
    Vec::from_iter(parts.into_iter().flatten()).join(", ")
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Signal(signal) => write!(f, "was ended by signal {signal}{}", signal_name(*signal)),
        }
    }
}

/// Why the OOM killer ended a process.
fn why_killed(memory: &OutOfMemory) -> String {
    match &memory.reached {
        Some((cgroup, limit)) => format!(
            "the memory limit of its cgroup was reached ({cgroup}, {})",
            bytes(*limit as f64)
        ),
        None => format!(
            "the machine was out of memory (oom_kill of its cgroup {}, whose own limit was not reached)",
            memory.cgroup
        ),
    }
}

pub(super) fn who(rank: Option<u32>) -> String {
    rank.map_or_else(|| "a process".to_owned(), |rank| format!("rank {rank}"))
}

/// The name of a signal that usually ends programs.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        5 => " (SIGTRAP)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        14 => " (SIGALRM)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU)",
        31 => " (SIGSYS)",
        _ => "",
    }
}

/// A file name in JSON: bytes that are not UTF-8 are replaced.
mod path {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&path.to_string_lossy())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        String::deserialize(from).map(PathBuf::from)
    }
}
