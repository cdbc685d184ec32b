//! The stand-in of an actuator: a process that waits, and reverts what the actuator left if that was killed. The
//! actuator reports to it which processes it has opened.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::getppid;
use serde::{Deserialize, Serialize};

use super::session::Session;
use super::{Hello, REQUEST_BYTES_MAX, RevertSummary, ServeOptions, line};
use crate::process::Pid;
use crate::sys;

/// The longest wait for the end of a killed actuator, which still holds its locks when its stream ends.
const DEATH_WAIT: Duration = Duration::from_secs(1);

/// One line to the stand-in.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Note {
    Begun(Hello),
    /// Changes of this process above this number are the session's.
    Opened {
        pid: Pid,
        newest_before: u64,
    },
    /// The session has ended in order.
    Finished,
}

/// Sends a note. Without a stand-in, as if that was killed, the next start reverts what is left.
pub(super) fn tell(stand_in: Option<&mut UnixStream>, note: &Note) {
    if let Some(stream) = stand_in {
        let _ = line::write(stream, note, REQUEST_BYTES_MAX);
    }
}

/// What a killed actuator may have left.
#[derive(Debug)]
pub struct Orphaned {
    hello: Hello,
    /// The number of the newest change before the session, by process.
    opened: BTreeMap<Pid, u64>,
}

impl Orphaned {
    /// Waits for the end of the actuator at the other end of the stream, which started this process; `None` if it ended
    /// in order.
    pub fn wait(stream: UnixStream) -> Option<Orphaned> {
        sys::ignore_termination_signals();
        let actuator = getppid();
        let mut reader = BufReader::new(stream);
        let (mut begun, mut opened) = (None, BTreeMap::new());
        while let Ok(Some(note)) = line::read(&mut reader, REQUEST_BYTES_MAX) {
            match note {
                Note::Begun(hello) => begun = Some(hello),
                Note::Opened { pid, newest_before } => {
                    opened.insert(pid, newest_before);
                }
                Note::Finished => return None,
            }
        }
        let until = Instant::now() + DEATH_WAIT;
        while getppid() == actuator && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let hello = begun?;
        (!opened.is_empty()).then_some(Orphaned { hello, opened })
    }

    /// Reverts the changes of the session, except those to keep.
    pub fn revert(self, options: ServeOptions) -> RevertSummary {
        let mut session = Session::new(self.hello, options, None);
        for (pid, newest_before) in self.opened {
            // A process that cannot be opened has ended, or somebody else is at work on it.
            if let Ok(writer) = session.writer(pid) {
                writer.newest_before = newest_before;
            }
        }
        session.finish()
    }
}
