//! The process that becomes the command: it waits until the probes are attached, and ends if the process that
//! started it ends or gives up.

use std::{
    ffi::OsString,
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            net::{SocketAddr, UnixListener, UnixStream},
            process::CommandExt,
        },
    },
    process::{Child, Command},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt::socket_peercred,
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::Environment;
use crate::exit::{Code, CommandResult, Failure};

/// The message that the probes are attached.
const GO: u8 = b'g';

/// A waiting process. Dropping this without opening it ends the process.
pub(super) struct Gate {
    child: Child,
    stream: UnixStream,
}

impl Gate {
    /// Starts the process with our own input, output and terminal.
    pub(super) fn start(command: &[OsString], environment: &Environment) -> io::Result<Gate> {
        let secret = RandomState::new().hash_one(std::process::id());
        let door = format!("tuneagent-{}-{secret:016x}", std::process::id());
        // No descriptor is passed, because the command would inherit it.
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&door)?)?;
        let mut gate = Command::new("/proc/self/exe");
        gate.arg("gate").arg(&door).arg("--").args(command);
        let child = environment.apply(&mut gate).spawn()?;
        let stream = hear(&listener, &child)?;
        Ok(Gate { child, stream })
    }

    /// Its process id, which will be the command's.
    pub(super) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Lets it become the command.
    pub(super) fn open(mut self) -> io::Result<Child> {
        self.stream.write_all(&[GO])?;
        Ok(self.child)
    }
}

/// Accepts the connection of the child, and of no other process.
fn hear(listener: &UnixListener, child: &Child) -> io::Result<UnixStream> {
    let number = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::InvalidInput)?;
    let ended = pidfd_open(number, PidfdFlags::empty())?;
    loop {
        let mut entries = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(&ended, PollFlags::IN),
        ];
        match poll(&mut entries, None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?,
        };
        if entries[0].revents().is_empty() {
            return Err(io::Error::other("the process that was to become it has ended"));
        }
        let (stream, _) = listener.accept()?;
        if socket_peercred(&stream)?.pid == number {
            return Ok(stream);
        }
    }
}

/// The main function of the gate: waits, then becomes the command.
pub(in crate::commands) fn pass(
    door: &str,
    command: &[OsString],
    environment: &Environment,
) -> CommandResult {
    let not_started = |error: io::Error| Failure::new(Code::NOT_STARTED, error);
    let address = SocketAddr::from_abstract_name(door).map_err(not_started)?;
    let mut stream = UnixStream::connect_addr(&address).map_err(not_started)?;
    let mut said = [0];
    let is_open = matches!(stream.read(&mut said), Ok(1)) && said[0] == GO;
    let Some((program, arguments)) = command.split_first().filter(|_| is_open) else {
        // The process that closed it reports the reason.
        return Ok(Code::NOT_STARTED);
    };
    // The stream is closed when the command replaces this program.
    let error = environment.apply(Command::new(program).args(arguments)).exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::NO_COMMAND,
        _ => Code::NOT_EXECUTABLE,
    };
    let program = program.to_string_lossy();
    Err(Failure::new(code, format!("{program} cannot be executed")).caused_by(&error))
}
