//! A session in a process of its own: it watches the ranks of an MPI job or the functions of stages, or may change
//! processes of a pipeline, and passes its reports on.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    thread,
    time::Duration,
};

use job::Discovery;
use profile::streams::{RankReport, StageFunctions};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    commands::target,
    exit::{Failure, unreadable},
};

/// Where a stream program is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamSource<'a> {
    /// The ranks of an MPI job, or functions that were named.
    Job(&'a str),
    /// Processes that are joined by pipes.
    Pipes(&'a str),
    /// The reports of a session on an MPI job: `attach --snapshots`.
    Written(&'a Path),
}

impl<'a> StreamSource<'a> {
    /// Nothing is refused here. The parser of the arguments requires one of the two.
    pub(super) fn of(
        target: Option<&'a str>,
        reports: Option<&'a Path>,
        has_stages: bool,
    ) -> StreamSource<'a> {
        let target = target.unwrap_or_default();
        match reports {
            Some(file) => StreamSource::Written(file),
            None if has_stages || has_mpi(target) => StreamSource::Job(target),
            None => StreamSource::Pipes(target),
        }
    }
}

/// Whether TARGET is a job of processes that have MPI.
fn has_mpi(typed: &str) -> bool {
    let found = target::job(&mut Discovery::default(), typed, false);
    found.is_ok_and(|job| job.has_mpi())
}

/// The reports of a session that `attach --snapshots` has written, one after the other. An error is of a line that is
/// no report.
///
/// # Errors
/// If the file cannot be opened.
pub(super) fn written(
    file: &Path,
) -> Result<impl Iterator<Item = Result<RankReport, Failure>> + '_, Failure> {
    let cannot = |error: io::Error| unreadable(file, &error);
    let lines = BufReader::new(File::open(file).map_err(cannot)?).lines();
    Ok(lines.enumerate().map(move |(at, line)| {
        let report = serde_json::from_str(&line.map_err(cannot)?);
        report.map_err(|error| {
            let place = format!("{}:{}", file.display(), at + 1);
            Failure::invalid(format!(
                "{place}: this is no report of a session ({error}): `attach --snapshots FILE` writes them"
            ))
        })
    }))
}

/// Reports that wait to be read; one of 2 048 ranks has about 1 MB.
const WAITING_MAX: usize = 64;

/// A session, and the reports that it writes.
pub(super) struct JobSession {
    child: Child,
    reports: Receiver<Result<RankReport, Failure>>,
}

impl JobSession {
    /// The functions of these stages are probed, without a bound of the cost: few calls in sampling windows would say
    /// little about an item. With `may_change`, rules that are added to it may change the program.
    pub(super) fn start(
        targets: &[String],
        stages: &[StageFunctions],
        duration: Duration,
        every: Duration,
        may_change: bool,
    ) -> Result<JobSession, Failure> {
        let time = |time: Duration| format!("{}ms", time.as_millis());
        let functions = stages.iter().flat_map(StageFunctions::functions);
        let mut child = Command::new("/proc/self/exe")
            .arg("attach")
            .args(targets)
            .args(["--plain", "--rules", "none"])
            .args(["--duration", &time(duration), "--snapshots", "/dev/stdout"])
            .args(["--every", &time(every)])
            .args(functions.map(|function| format!("--probe={function}")))
            .args((!stages.is_empty()).then_some("--budget=none"))
            .args(may_change.then_some("--apply"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::failed)?;
        let output = child.stdout.take();
        let output = output.ok_or_else(|| Failure::failed("the session has no output"))?;
        let (sender, reports) = sync_channel(WAITING_MAX);
        // The session is never held up by a reader that does something else. Not joined: it ends with the session's output,
        // and until then `next` waits for it.
        thread::Builder::new()
            .name("reports".to_owned())
            .spawn(move || pass_on(output, &sender))
            .map_err(Failure::failed)?;
        Ok(JobSession { child, reports })
    }

    /// The number of its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next report; `None` when the session has ended.
    pub(super) fn next(&mut self) -> Result<Option<RankReport>, Failure> {
        self.reports.recv().ok().transpose()
    }

    /// The newest of the reports since the last one that was taken; `None` if there is none.
    pub(super) fn newest(&mut self) -> Result<Option<RankReport>, Failure> {
        self.reports.try_iter().last().transpose()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Ends the session, if it has not ended, as dropping this does.
    ///
    /// # Errors
    /// If it failed.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        // It has said why.
        let why = "the session that watches the program could not begin";
        match self.finish().map_err(Failure::failed)?.code() {
            Some(0) => Ok(()),
            Some(3) => Err(Failure::not_permitted(why)),
            Some(2) => Err(Failure::invalid(why)),
            _ => Err(Failure::failed("the session that watched the program failed")),
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
        self.child.wait()
    }
}

/// Lines for the user stand between the reports. A report that finds no room is left out: its counts are in the
/// next one.
fn pass_on(output: ChildStdout, reports: &SyncSender<Result<RankReport, Failure>>) {
    let mut left_out = 0;
    for line in BufReader::new(output).lines() {
        let report = match line {
            Ok(line) if !line.starts_with('{') => continue,
            Ok(line) => serde_json::from_str(&line).map_err(Failure::failed),
            Err(error) => Err(Failure::failed(error)),
        };
        // If no one waits for it any more, the rest is read all the same, so that the session can end.
        left_out += u32::from(matches!(reports.try_send(report), Err(TrySendError::Full(_))));
    }
    if left_out > 0 {
        warn!(
            "{left_out} reports of the session were left out, because they were not read in time: some windows are longer"
        );
    }
}

impl Drop for JobSession {
    fn drop(&mut self) {
        // The error that is reported is the one that kept it from being ended.
        let _ = self.finish();
    }
}
