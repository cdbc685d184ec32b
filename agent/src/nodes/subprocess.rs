//! Processes of a session that do what it may not do itself, and the messages to them: the carrier and the node starter. Each ends
//! when the session closes its end of the socket, in whatever way that happens.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Serialize, de::DeserializeOwned};
use session::nodes::message::MESSAGE_MAX;

use crate::exit::Failure;

/// Instead of a node's number: the message is from or for the subprocess itself.
pub(super) const CONTROL: u32 = u32::MAX;
/// Bytes before a message: its length and its node.
pub(super) const HEAD_BYTES: usize = 8;
/// How long a subprocess may take to begin.
const BEGIN_WAIT: Duration = Duration::from_secs(30);

/// A subprocess, as the session sees it.
pub(crate) struct Subprocess {
    pub(super) child: Child,
    pub(super) stream: UnixStream,
}

impl Subprocess {
    /// The hidden command of ours with this name.
    pub(super) fn command(name: &str) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg(name);
        command
    }

    /// Starts a subprocess with an order; returns its answer.
    pub(super) fn start<T: DeserializeOwned>(
        mut command: Command,
        order: &impl Serialize,
    ) -> Result<(Subprocess, T), Failure> {
        let (ours, theirs) = UnixStream::pair().map_err(Failure::failed)?;
        ours.set_read_timeout(Some(BEGIN_WAIT)).map_err(Failure::failed)?;
        let child = command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Ctrl-C on the terminal must not reach it: the last messages are still to be carried.
            .process_group(0)
            .spawn()
            .map_err(Failure::failed)?;
        let mut subprocess = Subprocess { child, stream: ours };
        let order = serde_json::to_vec(order).map_err(Failure::failed)?;
        subprocess.send(CONTROL, &order).map_err(Failure::failed)?;
        let silent = |error| {
            Failure::failed(format!(
                "a process of the session for its nodes did not begin: {error}"
            ))
        };
        let (_, answer) = subprocess.receive(false).map_err(silent)?;
        let answer: Result<T, String> = serde_json::from_slice(&answer).map_err(Failure::failed)?;
        Ok((subprocess, answer.map_err(Failure::invalid)?))
    }

    /// Of a carrier: the message that it sends for a node when this process has ended, in whatever way.
    pub(crate) fn set_last(&mut self, message: &[u8]) -> io::Result<()> {
        self.send(CONTROL, message)
    }

    /// Sends a message before the session's loop runs.
    pub(crate) fn send(&mut self, node: u32, message: &[u8]) -> io::Result<()> {
        self.stream.write_all(&framed(node, message))
    }

    /// Waits for the next message before the session's loop runs; `until_input_ends`: and no longer than standard input is
    /// open.
    pub(crate) fn receive(&mut self, until_input_ends: bool) -> io::Result<(u32, Vec<u8>)> {
        let stdin = io::stdin();
        let mut entries = vec![PollFd::new(&self.stream, PollFlags::IN)];
        if until_input_ends {
            entries.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let timeout = Timespec::try_from(BEGIN_WAIT).ok();
        // An interrupted wait goes on in `receive`, which has the same bound.
        let _ = poll(&mut entries, timeout.as_ref());
        if entries.get(1).is_some_and(|input| !input.revents().is_empty()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        receive(&mut self.stream)
    }
}

/// In a subprocess: the socket to the session, and its order.
pub(super) fn order<T: DeserializeOwned>() -> Result<(UnixStream, T), Failure> {
    let stdin = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(Failure::failed)?;
    let mut stream = UnixStream::from(stdin);
    let (_, order) = receive(&mut stream).map_err(Failure::failed)?;
    Ok((stream, serde_json::from_slice(&order).map_err(Failure::failed)?))
}

/// In a subprocess: the answer to its order, or why it cannot carry it out.
pub(super) fn answer<T: Serialize>(
    stream: &mut UnixStream,
    answer: &Result<T, String>,
) -> Result<(), Failure> {
    let answer = serde_json::to_vec(answer).map_err(Failure::failed)?;
    stream
        .write_all(&framed(CONTROL, &answer))
        .map_err(Failure::failed)
}

pub(super) fn receive(stream: &mut UnixStream) -> io::Result<(u32, Vec<u8>)> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head)?;
    let (length, node) = parsed(head)?;
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok((node, message))
}

pub(super) fn framed(node: u32, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), &node.to_le_bytes(), message].concat()
}

/// The length and the node of a message.
pub(super) fn parsed(head: [u8; HEAD_BYTES]) -> io::Result<(usize, u32)> {
    let [a, b, c, d, rest @ ..] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    match length > MESSAGE_MAX {
        true => Err(io::ErrorKind::InvalidData.into()),
        false => Ok((length, u32::from_le_bytes(rest))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_long_is_not_read() {
        let head = |length: u32| [length.to_le_bytes(), 7u32.to_le_bytes()].concat();
        let of = |length| parsed(head(length).try_into().unwrap());
        assert_eq!(of(5).unwrap(), (5, 7));
        assert!(of(MESSAGE_MAX as u32 + 1).is_err());
    }
}
