//! The ranks of an MPI job, as a session sees them: `attach` runs in a process of its own, and passes its reports
//! on.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use job::Discovery;
use profile::streams::RankReport;

use crate::{cli::LearnArgs, commands::target, exit::Failure};

/// Number of reports, and the least time between two: messages by pair are read once a second.
const REPORTS: u32 = 10;
const BETWEEN_MIN: Duration = Duration::from_secs(2);

/// Whether TARGET is a job of processes that have MPI. Nothing is refused here.
pub(super) fn has_mpi(typed: &str) -> bool {
    let found = target::job(&mut Discovery::default(), typed, false);
    found.is_ok_and(|job| job.members.iter().any(|member| member.mpi.is_some()))
}

/// The reports of a session that watches TARGET.
pub(super) fn reports(args: &LearnArgs) -> Result<Vec<RankReport>, Failure> {
    let time = |time: Duration| format!("{}ms", time.as_millis());
    let every = (args.duration / REPORTS).max(BETWEEN_MIN);
    let mut child = Command::new("/proc/self/exe")
        .args(["attach", &args.target, "--plain", "--rules", "none"])
        .args(["--duration", &time(args.duration), "--snapshots", "/dev/stdout"])
        .args(["--every", &time(every)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Failure::no)?;
    let mut reports = Vec::new();
    // Lines for the user stand between the reports.
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|output| BufReader::new(output).lines())
    {
        let line = line.map_err(Failure::no)?;
        if line.starts_with('{') {
            reports.push(serde_json::from_str(&line).map_err(Failure::no)?);
        }
    }
    let status = child.wait().map_err(Failure::no)?;
    match status.code() {
        Some(0) => Ok(reports),
        // It has said why.
        Some(3) => Err(Failure::not_permitted("the job's calls of MPI cannot be watched")),
        Some(2) => Err(Failure::not_there("the job's calls of MPI cannot be watched")),
        _ => Err(Failure::no("the session that watched the job failed")),
    }
}
