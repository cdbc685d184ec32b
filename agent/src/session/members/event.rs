//! What can happen to the processes of a job, and what is to be done then: plain data.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::session::process::{Machine, Pid, Process};
use crate::{format::duration, rulebook::Time};

/// A process as it was found in /proc.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which process it is.
    pub pid: Pid,
    /// The user it belongs to.
    pub user: u32,
    /// Its rank.
    pub rank: Option<u32>,
    /// The file of its program.
    #[serde(with = "path")]
    pub program: PathBuf,
    /// It has mapped an MPI library.
    pub has_mpi: bool,
    /// How many files it has mapped.
    pub modules: usize,
    /// Its dynamic linker has finished: what it has mapped is known.
    pub is_linked: bool,
    /// When it started, by CLOCK_MONOTONIC.
    #[serde(with = "time")]
    pub started: Time,
}

/// A file of a process that was attached to after the process had mapped it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateFile {
    /// The file's name.
    pub name: String,
    /// When the probes were attached.
    #[serde(with = "time")]
    pub attached: Time,
    /// It had probes before, which were off at that time.
    pub is_again: bool,
    /// The process was seen to begin: it is in its first call still.
    pub begins: bool,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A process that was attached to when the session began.
    Present(Process, Candidate),
    /// Something is not measured.
    NotMeasured(String),
    /// Time has passed, in a session that attached to a job.
    Tick(Machine),
    /// Time has passed, in a session that started a command.
    Look {
        /// Where.
        machine: Machine,
        /// How often a process of the command has executed a program.
        execs: u64,
    },
    /// A process runs another program now.
    RunsAnother {
        /// Which process.
        process: Process,
        /// The file of the new program.
        #[serde(with = "path")]
        program: PathBuf,
    },
    /// A rank without MPI has loaded one.
    LoadedMpi(Process, Candidate),
    /// A young process of a command was looked into a second time.
    LookedInto(Process, Candidate),
    /// The answer to [`Effect::Scan`]: processes that are not known, each with whether it still runs.
    Found(Machine, Vec<(Candidate, bool)>),
    /// The answer to [`Effect::Admit`]: the slot of this process; none where there is no room.
    Slot(Machine, Pid, Option<u32>),
    /// A process of the command hit its first probe.
    Came(Process, Candidate),
    /// The same of one that had ended before it could be looked into; while MPI was not watched or not.
    CameUnseen {
        /// Its slot.
        process: Process,
        /// Its number.
        pid: i32,
        /// MPI was not watched then.
        is_unwatched: bool,
    },
    /// A process of the command has ended.
    Went(Process),
    /// All that came and went so far was handed over.
    Settled(Machine),
    /// The answer to [`Effect::Watch`]: the process is watched.
    Watched {
        /// Its slot.
        process: Process,
        /// Which process it is.
        pid: Pid,
        /// What was attached late.
        late: Option<LateFile>,
    },
    /// The answer to [`Effect::Watch`]: the process cannot be watched.
    Refused {
        /// The slot that it takes all the same.
        process: Process,
        /// Which process it is.
        pid: Pid,
        /// Why.
        reason: String,
    },
    /// The answer to [`Effect::Watch`]: there is no room for this process, nor for any other.
    NoRoom(Machine, Pid),
    /// A process that was attached to has ended.
    Ended(Process),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Look whether processes that have run run another program: [`Event::RunsAnother`].
    CheckPrograms(Machine),
    /// Look whether these ranks have loaded an MPI: [`Event::LoadedMpi`].
    CheckMpi(Vec<Process>),
    /// Read again what this process has mapped: [`Event::LookedInto`].
    LookInto(Process),
    /// Look which program the command runs.
    LookAtCommand(Machine),
    /// Look for processes that are not known: [`Event::Found`].
    Scan(Machine),
    /// Give a process a slot: [`Event::Slot`].
    Admit(Machine, Pid),
    /// Attach to a process: [`Event::Watched`], [`Event::Refused`] or [`Event::NoRoom`].
    Watch {
        /// Where it runs.
        machine: Machine,
        /// Which process it is.
        pid: Pid,
        /// Its slot; none for the next free one.
        slot: Option<u32>,
    },
    /// The rules are to forget the process in this slot.
    Leave(Process),
    /// Read the last totals of these processes; from then on they have ended.
    End(Vec<Process>),
    /// Count the hits of this process no longer.
    Forget(Process),
    /// Remove the records of the threads of this process.
    ForgetThreads(Process),
    /// If this process runs no longer, or runs another program, what was changed in it is gone.
    CheckChanges(Process),
    /// Look whether a process ended while it was attached to, of which nobody tells then: [`Event::Went`].
    CheckEnded(Process, Pid),
    /// Say a line.
    Say(Notice),
    /// End the session, for this reason.
    Finish(&'static str),
}

/// In this order.
pub type Effects = Vec<Effect>;

/// A line that stays on the screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// A process joined.
    Joined {
        /// Its rank.
        rank: Option<u32>,
        /// Which process it is.
        pid: Pid,
    },
    /// A process runs another program.
    Replaced {
        /// Its rank.
        rank: Option<u32>,
        /// Which process it is.
        pid: Pid,
        /// How long after the probes were armed.
        after_ns: u64,
        /// The file of the new program.
        #[serde(with = "path")]
        program: PathBuf,
        /// It joins again with its MPI only.
        needs_mpi: bool,
    },
    /// A rank has loaded its MPI.
    LoadedMpi {
        /// Its rank.
        rank: Option<u32>,
        /// Which process it is.
        pid: Pid,
        /// How long after the probes were armed.
        after_ns: u64,
    },
    /// Something is not measured.
    Missing(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Joined { rank, pid } => write!(f, "{} (pid {pid}) joined", who(*rank)),
            Notice::Replaced {
                rank,
                pid,
                after_ns,
                program,
                needs_mpi,
            } => write!(
                f,
                "{} (pid {pid}) executed another program after {}, {}: what it did before has its own entry, and the new \
                 program joins {}",
                who(*rank),
                duration(*after_ns as f64),
                program.display(),
                match needs_mpi {
                    true => "once it has loaded its MPI",
                    false => "soon",
                },
            ),
            Notice::LoadedMpi { rank, pid, after_ns } => write!(
                f,
                "{} (pid {pid}) has loaded its MPI after {}: what it did before has its own entry",
                who(*rank),
                duration(*after_ns as f64),
            ),
            Notice::Missing(text) => write!(f, "missing: {text}"),
        }
    }
}

fn who(rank: Option<u32>) -> String {
    rank.map_or_else(|| "a process".to_owned(), |rank| format!("rank {rank}"))
}

/// A file's name as JSON has it: what of it is no UTF-8 is replaced.
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

/// Nanoseconds.
mod time {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::rulebook::Time;

    pub(super) fn serialize<S: Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(time.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        u64::deserialize(from).map(Time)
    }
}
