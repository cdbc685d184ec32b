//! The client side: finds the caller's sessions and sends requests to them.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use session::request::{Answer, Mode, RefusalKind, Request, RuleSource, SessionView};

use super::{ANSWER_BYTES_MAX, folder};

/// A session that does not answer within this time is reported as hanging.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Ending a session reverts the changes in every rank and waits until the kernel has closed the probes.
const END_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The folder of the sockets cannot be read, or a socket cannot be used.
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The session does not answer in time.
    #[error(
        "{}: the session has not answered for {} s: it is stopped (kill -CONT) or starved of CPU time; its program continues. Try again",
        path.display(),
        ANSWER_TIMEOUT.as_secs()
    )]
    Silent { path: PathBuf },
    /// The answer does not match the request.
    #[error("{}: the session sent an answer that does not fit the request", path.display())]
    OutOfStep { path: PathBuf },
    #[error("{message}")]
    Refused {
        /// Determines the exit code.
        kind: RefusalKind,
        message: String,
    },
}

/// The result of the search for sessions: those that answered, and errors for the others.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub sessions: Vec<SessionClient>,
    /// Errors of sessions that did not answer.
    pub silent: Vec<ControlError>,
}

#[derive(Debug)]
pub(crate) struct SessionClient {
    path: PathBuf,
    reader: BufReader<UnixStream>,
    /// Its description of itself.
    pub view: SessionView,
}

/// Requests the description of every session of the caller. Sockets of sessions that were killed are removed.
pub(crate) fn sessions() -> Result<Answered, ControlError> {
    let folder = folder();
    let io_error = |error| ControlError::Io {
        path: folder.clone(),
        error,
    };
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Answered::default()),
        result => result.map_err(io_error)?,
    };
    let mut answered = Answered::default();
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(io_error)?.path());
    }
    paths.sort();
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "sock"))
    {
        match SessionClient::open(path) {
            Ok(Some(session)) => answered.sessions.push(session),
            Ok(None) => drop(fs::remove_file(path)),
            Err(error) => answered.silent.push(error),
        }
    }
    Ok(answered)
}

impl SessionClient {
    /// `None` if no process listens any more.
    fn open(path: &Path) -> Result<Option<SessionClient>, ControlError> {
        let stream = match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            result => result,
        };
        let io_error = |error| ControlError::Io {
            path: path.to_owned(),
            error,
        };
        let stream = stream.map_err(io_error)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(io_error)?;
        let mut session = SessionClient {
            path: path.to_owned(),
            reader: BufReader::new(stream),
            view: SessionView::default(),
        };
        match session.send(&Request::List)? {
            Answer::Session(view) => session.view = *view,
            _ => return Err(session.out_of_step()),
        }
        Ok(Some(session))
    }

    pub(crate) fn snapshot(&mut self) -> Result<serde_json::Value, ControlError> {
        match self.send(&Request::Snapshot)? {
            Answer::Report(report) => Ok(report),
            _ => Err(self.out_of_step()),
        }
    }

    /// Switches a rule; returns the previous mode.
    pub(crate) fn switch(&mut self, rule: &str, mode: Mode) -> Result<String, ControlError> {
        let rule = rule.to_owned();
        match self.send(&Request::Switch { rule, mode })? {
            Answer::Switched { before } => Ok(before),
            _ => Err(self.out_of_step()),
        }
    }

    /// Adds a rule; returns its name and the functions that could not be probed.
    pub(crate) fn add(
        &mut self,
        given: RuleSource,
        mode: Mode,
    ) -> Result<(String, Vec<String>), ControlError> {
        let given = Box::new(given);
        match self.send(&Request::Add { given, mode })? {
            Answer::Added { rule, missing, .. } => Ok((rule, missing)),
            _ => Err(self.out_of_step()),
        }
    }

    /// Removes a rule; returns the number of changes that are reverted, and the number that stay.
    pub(crate) fn remove(&mut self, rule: &str, keep: bool) -> Result<(usize, usize), ControlError> {
        let rule = rule.to_owned();
        match self.send(&Request::Remove { rule, keep })? {
            Answer::Removed { reverted, kept } => Ok((reverted, kept)),
            _ => Err(self.out_of_step()),
        }
    }

    /// Ends the session, and waits for its end.
    pub(crate) fn stop(mut self) -> Result<(), ControlError> {
        match self.send(&Request::Stop) {
            Ok(Answer::Stopping) => {}
            Ok(_) => return Err(self.out_of_step()),
            // It ended before it could answer.
            Err(ControlError::Io { error, .. }) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let stream = self.reader.get_ref();
        let ended = stream.set_read_timeout(Some(END_TIMEOUT)).and_then(|()| {
            // The stream ends when the session does.
            self.reader.read(&mut [0])
        });
        match ended {
            // The longer time limit for ending, not the one for answers.
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(ControlError::Io {
                path: self.path,
                error,
            }),
            _ => Ok(()),
        }
    }

    fn send(&mut self, request: &Request) -> Result<Answer, ControlError> {
        let exchanged = self.exchange(request);
        match exchanged.map_err(|error| self.io_error(error))? {
            Answer::Refused { kind, message } => Err(ControlError::Refused { kind, message }),
            answer => Ok(answer),
        }
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Answer> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        // A session that refuses a foreign user answers first and closes: its answer can be read even if
        // writing fails.
        let sent = self.reader.get_mut().write_all(&line);
        let mut answer = Vec::new();
        (&mut self.reader)
            .take(ANSWER_BYTES_MAX as u64)
            .read_until(b'\n', &mut answer)?;
        if answer.is_empty() {
            sent?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&answer)?)
    }

    fn io_error(&self, error: io::Error) -> ControlError {
        let path = self.path.clone();
        // The errors of a socket whose time limit is over.
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::Silent { path },
            _ => ControlError::Io { path, error },
        }
    }

    fn out_of_step(&self) -> ControlError {
        ControlError::OutOfStep {
            path: self.path.clone(),
        }
    }
}
