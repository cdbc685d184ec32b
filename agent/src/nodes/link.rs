//! The session's end of the socket of a subprocess, in its event loop.

use std::{io, time::Duration};

use rustix::process::Pid;
use session::nodes::StartEnd;
use tokio::{io::Interest, net::UnixStream};

use super::subprocess::{CONTROL, HEAD_BYTES, Subprocess, framed, parsed};

/// Bytes that wait to be written; messages beyond are lost, which is said once. Reports are sent again.
const OUTBOX_MAX: usize = 16 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

pub(crate) struct SubprocessLink {
    /// What the subprocess does, for messages.
    does: &'static str,
    stream: UnixStream,
    child: std::process::Child,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// Why messages were lost, until it was said.
    loss: Option<String>,
    /// That messages were lost was said.
    has_lost: bool,
    /// The subprocess has ended.
    is_over: bool,
}

/// What a subprocess passes on.
#[derive(Debug)]
pub(crate) enum Carried {
    /// A message of this node.
    Message(u32, Vec<u8>),
    /// The process that started the agent of this node has ended.
    StartEnded(u32, StartEnd),
    /// A line for the user.
    Note(String),
}

impl SubprocessLink {
    /// Must be called inside the tokio runtime.
    pub(crate) fn new(subprocess: Subprocess, does: &'static str) -> io::Result<SubprocessLink> {
        subprocess.stream.set_nonblocking(true)?;
        Ok(SubprocessLink {
            does,
            stream: UnixStream::from_std(subprocess.stream)?,
            child: subprocess.child,
            inbox: Vec::new(),
            outbox: Vec::new(),
            loss: None,
            has_lost: false,
            is_over: false,
        })
    }

    /// The next message. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Carried {
        loop {
            if let Some(loss) = self.loss.take() {
                return Carried::Note(loss);
            }
            if let Some(carried) = self.take() {
                return carried;
            }
            if self.is_over {
                return std::future::pending().await;
            }
            let interest = match self.outbox.is_empty() {
                true => Interest::READABLE,
                false => Interest::READABLE | Interest::WRITABLE,
            };
            let ready = self.stream.ready(interest).await;
            if ready.is_err() || !self.read() {
                self.is_over = true;
                return Carried::Note(format!("the process that {} has ended", self.does));
            }
            self.flush();
        }
    }

    /// Sends a message, at once or as soon as there is room.
    pub(crate) fn send(&mut self, node: u32, message: &[u8]) {
        if self.outbox.len() + message.len() > OUTBOX_MAX {
            if !std::mem::replace(&mut self.has_lost, true) {
                let text = format!(
                    "messages are lost: the process that {} does not take them",
                    self.does
                );
                self.loss = Some(text);
            }
            return;
        }
        self.outbox.extend(framed(node, message));
        self.flush();
    }

    /// Waits until everything is handed over, and no longer than this.
    pub(crate) async fn finish(mut self, patience: Duration) {
        let sent = async {
            while !self.outbox.is_empty() && self.stream.ready(Interest::WRITABLE).await.is_ok() {
                self.flush();
            }
        };
        let _ = tokio::time::timeout(patience, sent).await;
        drop(self.stream);
        // Its last messages are under way; it ends when they are sent.
        let ended = crate::readable::Readable::end_of(Pid::from_child(&self.child).as_raw_nonzero().get());
        if let Ok(ended) = ended {
            let _ = tokio::time::timeout(patience, ended.wait()).await;
        }
    }

    fn take(&mut self) -> Option<Carried> {
        let head = self.inbox.first_chunk::<HEAD_BYTES>()?;
        let Ok((length, node)) = parsed(*head) else {
            self.is_over = true;
            self.inbox.clear();
            return None;
        };
        let end = HEAD_BYTES + length;
        let message = self.inbox.get(HEAD_BYTES..end)?.to_vec();
        self.inbox.drain(..end);
        Some(match node {
            CONTROL => Carried::Note(String::from_utf8_lossy(&message).into_owned()),
            node => Carried::Message(node, message),
        })
    }

    /// Reads what is there; false if the subprocess has ended.
    fn read(&mut self) -> bool {
        let mut bytes = vec![0; READ_BYTES];
        match self.stream.try_read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.inbox.extend(bytes.iter().take(count));
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    fn flush(&mut self) {
        while !self.outbox.is_empty() {
            match self.stream.try_write(&self.outbox) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(_) => return,
            }
        }
    }
}
