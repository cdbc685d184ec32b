//! Processes that executed other programs: what is missing of each is one sentence, however often it did so.

use std::{fmt, path::PathBuf};

use super::{
    Members,
    event::{ActuatorPid, Candidate, MemberProcess, who},
    since,
};
use profile::format::duration;
use rules::Time;

/// The programs that a process has executed since the session began.
#[derive(Debug)]
pub(super) struct Executed {
    rank: Option<u32>,
    pid: ActuatorPid,
    count: u32,
    /// When the last of them was noticed.
    at: Time,
    /// The same in nanoseconds since the probes were armed.
    after_ns: u64,
    /// The file of the last.
    program: PathBuf,
    /// It joins only once it has MPI.
    needs_mpi: bool,
    /// Probes were attached to it.
    is_attached: bool,
    /// From when a new program was noticed until probes were attached to it, over all of them.
    unmeasured_ns: u64,
    /// The sentence as it is listed.
    listed: String,
}

impl fmt::Display for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, pid, after) = (who(self.rank), self.pid, duration(self.after_ns as f64));
        let file = self.program.file_name().unwrap_or(self.program.as_os_str());
        let program = file.to_string_lossy();
        match self.count {
            1 => write!(
                f,
                "{who} (pid {pid}) executed another program (exec) after {after}, {program}: "
            )?,
            count => write!(
                f,
                "{who} (pid {pid}) executed another program (exec) {count} times, the last after {after}, {program}: "
            )?,
        }
        match self.is_attached {
            true => write!(
                f,
                "each has its own entry, and {} until probes were attached are not measured",
                duration(self.unmeasured_ns as f64)
            ),
            false => write!(
                f,
                "no probes were attached to it{}; attach again while it runs (tuneagent attach {program}) to watch it fully",
                match self.needs_mpi {
                    true => ", because that is done once it has loaded its MPI",
                    false => "",
                },
            ),
        }
    }
}

impl Members {
    /// A process executes another program.
    pub(super) fn has_executed(
        &mut self,
        process: MemberProcess,
        rank: Option<u32>,
        pid: ActuatorPid,
        program: PathBuf,
        now: Time,
    ) {
        let key = (process.machine, pid.number);
        let before = self.executed.remove(&key).filter(|before| before.pid == pid);
        let before = before.map(|before| (before.count, before.unmeasured_ns, before.listed));
        let (count, unmeasured_ns, listed) = before.unwrap_or_default();
        let executed = Executed {
            rank,
            pid,
            count: count + 1,
            at: now,
            after_ns: since(now, self.armed),
            program,
            needs_mpi: self.has_launcher(),
            is_attached: false,
            unmeasured_ns,
            listed,
        };
        self.executed.insert(key, executed);
        self.list_executed(process, pid.number);
    }

    /// Probes were attached to a process, which may have executed a program before.
    pub(super) fn was_attached(&mut self, process: MemberProcess, candidate: &Candidate, now: Time) {
        let key = (process.machine, candidate.pid.number);
        let executed = self.executed.get_mut(&key);
        let Some(executed) =
            executed.filter(|executed| executed.pid == candidate.pid && !executed.is_attached)
        else {
            return;
        };
        executed.is_attached = true;
        executed.unmeasured_ns += since(now, executed.at);
        // It may have executed a further program until it was found.
        executed.program.clone_from(&candidate.program);
        self.list_executed(process, candidate.pid.number);
    }

    fn list_executed(&mut self, process: MemberProcess, pid: i32) {
        if let Some(executed) = self.executed.get_mut(&(process.machine, pid)) {
            let text = executed.to_string();
            self.missing.replace(&executed.listed, text.clone());
            executed.listed = text;
        }
    }
}
