//! The actuator's end of the stream: the loop, and the end of the session.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use super::session::Session;
use super::{
    ActuatorAnswer, ActuatorCommand, ActuatorRefusalKind, ActuatorRequest, Expectation, REPLY_BYTES_MAX,
    REQUEST_BYTES_MAX, Refusal, Reply, RevertSummary, line,
};
use crate::rendezvous::Rendezvous;
use crate::sys;
use crate::write::Hooks;

/// Creates the rendezvous when the first change has a sync point, or says why there is none.
pub type RendezvousSource = fn() -> Result<Box<dyn Rendezvous>, Box<dyn std::error::Error + Send + Sync>>;

/// The longest time for which an expected order is polled for.
const LOOK_OUT_MAX: Duration = Duration::from_millis(5);

/// Options that the agent's binary fixes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServeOptions {
    /// See [`Hooks`].
    pub hooks: Hooks,
    /// If set, processes of other users are refused, whatever the stream requests: this process's rights may
    /// be used only for this user's own processes.
    pub only_user: Option<u32>,
    /// Without one no change can have a sync point.
    pub rendezvous: Option<RendezvousSource>,
}

/// Why a session ended before it began. Nothing was changed then.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The first line was not a hello.
    #[error("the actuator's stream did not begin with a hello")]
    NoHello,
    #[error("the actuator's stream failed: {0}")]
    Io(io::Error),
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> ServeError {
        ServeError::Io(error)
    }
}

/// Serves one session until its stream ends, reverts the session's changes, and returns the result. Ignores
/// SIGINT, SIGTERM and SIGHUP for the rest of the process's life.
///
/// The process at the other end of `stand_in` ([`Orphaned`](super::Orphaned)) reverts if this one is killed.
pub fn serve(
    stream: UnixStream,
    options: ServeOptions,
    stand_in: Option<UnixStream>,
) -> Result<RevertSummary, ServeError> {
    sys::ignore_termination_signals();
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    let hello = match line::read::<ActuatorRequest>(&mut reader, REQUEST_BYTES_MAX)? {
        Some(ActuatorRequest {
            id,
            command: ActuatorCommand::Hello(hello),
        }) => {
            answer(
                &mut writer,
                id,
                Ok(ActuatorAnswer::Welcome {
                    actuator: std::process::id(),
                }),
            )?;
            hello
        }
        _ => return Err(ServeError::NoHello),
    };
    let session = Session::new(hello, options, stand_in);
    Ok(run(&mut reader, &mut writer, session))
}

/// From here on nothing may return before the changes are reverted.
fn run(reader: &mut BufReader<UnixStream>, writer: &mut UnixStream, mut session: Session) -> RevertSummary {
    loop {
        match line::read(reader, REQUEST_BYTES_MAX) {
            Ok(Some(ActuatorRequest {
                id,
                command: ActuatorCommand::Shutdown,
            })) => {
                let summary = session.finish();
                // The agent may have gone: the summary is also returned.
                let _ = answer(writer, id, Ok(ActuatorAnswer::Goodbye(summary.clone())));
                return summary;
            }
            Ok(Some(ActuatorRequest {
                command: ActuatorCommand::Expect(Expectation { look_out_us, like }),
                ..
            })) => {
                session.expect(like);
                look_out(reader, Duration::from_micros(u64::from(look_out_us)));
            }
            Ok(Some(ActuatorRequest { id, command })) => {
                if answer(writer, id, session.execute(command)).is_err() {
                    return session.finish();
                }
            }
            Ok(None) => return session.finish(),
            Err(error) => {
                let refusal = Refusal {
                    kind: ActuatorRefusalKind::Protocol,
                    message: error.to_string(),
                };
                let _ = answer(writer, 0, Err(refusal));
                return session.finish();
            }
        }
    }
}

/// Polls until there is something to read or the time is over: waking a sleeping thread takes longer than a
/// write.
fn look_out(reader: &BufReader<UnixStream>, longest: Duration) {
    let until = Instant::now() + longest.min(LOOK_OUT_MAX);
    let nothing = |reader: &BufReader<UnixStream>| {
        let mut stream = [PollFd::new(reader.get_ref(), PollFlags::IN)];
        reader.buffer().is_empty()
            && poll(&mut stream, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
    };
    while Instant::now() < until && nothing(reader) {
        std::hint::spin_loop();
    }
}

fn answer(writer: &mut UnixStream, id: u64, result: Result<ActuatorAnswer, Refusal>) -> io::Result<()> {
    line::write(writer, &Reply { id, result }, REPLY_BYTES_MAX)
}
