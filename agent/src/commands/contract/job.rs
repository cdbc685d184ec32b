//! The ranks of an MPI job, as a session sees them: `attach` runs in a process of its own, and passes its reports
//! on.

use std::{
    io::{self, BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

use job::Discovery;
use profile::streams::RankReport;
use rustix::process::{Pid, Signal, kill_process};

use crate::{commands::target, exit::Failure};

/// Whether TARGET is a job of processes that have MPI. Nothing is refused here.
pub(super) fn has_mpi(typed: &str) -> bool {
    let found = target::job(&mut Discovery::default(), typed, false);
    found.is_ok_and(|job| job.members.iter().any(|member| member.mpi.is_some()))
}

/// A session that watches an MPI job, and the reports that it writes.
pub(super) struct JobSession {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl JobSession {
    /// With `may_change`, rules that are added to it may change the program.
    pub(super) fn start(
        target: &str,
        (duration, every): (Duration, Duration),
        may_change: bool,
    ) -> Result<JobSession, Failure> {
        let time = |time: Duration| format!("{}ms", time.as_millis());
        let mut child = Command::new("/proc/self/exe")
            .args(["attach", target, "--plain", "--rules", "none"])
            .args(["--duration", &time(duration), "--snapshots", "/dev/stdout"])
            .args(["--every", &time(every)])
            .args(may_change.then_some("--apply"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::no)?;
        let output = child.stdout.take();
        let output = output.ok_or_else(|| Failure::no("the session has no output"))?;
        Ok(JobSession {
            child,
            lines: BufReader::new(output).lines(),
        })
    }

    /// The number of its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next report; `None` when the session has ended.
    pub(super) fn next(&mut self) -> Result<Option<RankReport>, Failure> {
        // Lines for the user stand between the reports.
        for line in &mut self.lines {
            let line = line.map_err(Failure::no)?;
            if line.starts_with('{') {
                return serde_json::from_str(&line).map(Some).map_err(Failure::no);
            }
        }
        Ok(None)
    }

    /// Ends the session, if it has not ended, as dropping this does.
    ///
    /// # Errors
    /// If it failed.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        match self.finish().map_err(Failure::no)?.code() {
            Some(0) => Ok(()),
            // It has said why.
            Some(3) => Err(Failure::not_permitted("the job's calls of MPI cannot be watched")),
            Some(2) => Err(Failure::not_there("the job's calls of MPI cannot be watched")),
            _ => Err(Failure::no("the session that watched the job failed")),
        }
    }

    /// Waits until the session has reverted what it changed.
    fn finish(&mut self) -> io::Result<ExitStatus> {
        // A number that was waited for may be another process's.
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        // Fails if it is ending.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        while self.lines.next().is_some_and(|line| line.is_ok()) {}
        self.child.wait()
    }
}

impl Drop for JobSession {
    fn drop(&mut self) {
        // The error that is reported is the one that kept it from being ended.
        let _ = self.finish();
    }
}
