//! The carrier: the process that passes messages between a session and the server through which the machines of a job
//! talk. For a coordinator it also starts that server. It ends with the session, in whatever way that ends, and
//! reports to the coordinator that the node's agent has ended.

use std::{
    fs,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::OpenOptionsExt, net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use session::nodes::message::MESSAGE_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    addresses, certificates,
    nats::{Connection, NatsError, Server},
    ticket::Ticket,
};
use crate::{
    exit::Failure,
    readable::Readable,
    rights::{self, ProgramPart},
};

/// Instead of a node's number: the message is from or for the carrier itself.
pub(super) const CONTROL: u32 = u32::MAX;
/// Bytes before a message: its length and its node.
pub(super) const HEAD_BYTES: usize = 8;
/// How long the carrier may take to begin.
const BEGIN_WAIT: Duration = Duration::from_secs(30);

/// What the carrier is for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum CarrierOrder {
    /// Start a server, and write a ticket into each of these files.
    Coordinate {
        files: Vec<PathBuf>,
        /// What the tickets say; addresses and credentials are added.
        ticket: Ticket,
    },
    /// Join the session of this ticket.
    Join(Ticket),
}

/// The process, as a session sees it.
pub(crate) struct Carrier {
    pub(super) child: Child,
    pub(super) stream: UnixStream,
}

impl Carrier {
    /// Starts the carrier; returns once messages can travel.
    pub(crate) fn start(order: &CarrierOrder) -> Result<Carrier, Failure> {
        let (ours, theirs) = UnixStream::pair().map_err(Failure::no)?;
        ours.set_read_timeout(Some(BEGIN_WAIT)).map_err(Failure::no)?;
        let child = Command::new("/proc/self/exe")
            .arg("carrier")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // No certificates but our own count: those of the system need not be read.
            .env("SSL_CERT_FILE", "/dev/null")
            .env_remove("SSL_CERT_DIR")
            // Ctrl-C on the terminal must not reach it: the last messages are still to be carried.
            .process_group(0)
            .spawn()
            .map_err(Failure::no)?;
        let mut carrier = Carrier { child, stream: ours };
        let order = serde_json::to_vec(order).map_err(Failure::no)?;
        carrier.send(CONTROL, &order).map_err(Failure::no)?;
        match carrier.receive() {
            Ok((CONTROL, answer)) if answer.is_empty() => Ok(carrier),
            Ok((_, answer)) => Err(Failure::not_there(String::from_utf8_lossy(&answer).into_owned())),
            Err(error) => Err(Failure::no(format!(
                "the process that carries messages between nodes did not begin: {error}"
            ))),
        }
    }

    /// Sets the message that is sent for a node when this process has ended, in whatever way.
    pub(crate) fn set_last(&mut self, message: &[u8]) -> io::Result<()> {
        self.send(CONTROL, message)
    }

    /// Sends a message before the session's loop runs.
    pub(crate) fn send(&mut self, node: u32, message: &[u8]) -> io::Result<()> {
        self.stream.write_all(&framed(node, message))
    }

    /// Waits for the next message before the session's loop runs.
    pub(crate) fn receive(&mut self) -> io::Result<(u32, Vec<u8>)> {
        receive(&mut self.stream)
    }
}

fn receive(stream: &mut UnixStream) -> io::Result<(u32, Vec<u8>)> {
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

/// The main function of the carrier's process, with the session's socket as standard input. It reports to the session why
/// it cannot begin.
pub(crate) fn serve() -> Result<(), Failure> {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::no)?;
    let mut stream = UnixStream::from(stdin);
    let (_, order) = receive(&mut stream).map_err(Failure::no)?;
    let order: CarrierOrder = serde_json::from_slice(&order).map_err(Failure::no)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::no)?;
    match runtime.block_on(Open::begin(order)) {
        Ok(open) => {
            stream.write_all(&framed(CONTROL, &[])).map_err(Failure::no)?;
            runtime.block_on(open.carry(stream)).map_err(Failure::no)
        }
        Err(error) => stream
            .write_all(&framed(CONTROL, error.to_string().as_bytes()))
            .map_err(Failure::no),
    }
}

#[derive(Debug, thiserror::Error)]
enum BeginError {
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error("the certificates of the session could not be made: {0}")]
    Certificates(#[from] rcgen::Error),
    #[error("--join-file {}: a file of this name is there already; remove it, or give another name", .0.display())]
    Exists(PathBuf),
    #[error("--join-file {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Rights(#[from] rights::RightsError),
    #[error(transparent)]
    Ticket(#[from] serde_json::Error),
}

/// What the carrier holds open.
struct Open {
    connection: Connection,
    /// The number of the node; `None` for a coordinator.
    node: Option<u32>,
    server: Option<Server>,
    /// What is sent when the session has closed its end.
    last: Option<Vec<u8>>,
    _files: JoinFiles,
}

/// Join files, which are removed at the end if no node has taken them.
#[derive(Default)]
struct JoinFiles(Vec<(PathBuf, fs::File)>);

impl JoinFiles {
    /// Creates the files, which only their owner may read.
    fn create(paths: Vec<PathBuf>) -> Result<JoinFiles, BeginError> {
        let mut files = JoinFiles::default();
        for path in paths {
            let mut options = fs::OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => files.0.push((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(BeginError::Exists(path));
                }
                Err(source) => return Err(BeginError::File { path, source }),
            }
        }
        Ok(files)
    }
}

impl Drop for JoinFiles {
    fn drop(&mut self) {
        self.0.iter().for_each(|(path, _)| drop(fs::remove_file(path)));
    }
}

impl Open {
    async fn begin(order: CarrierOrder) -> Result<Open, BeginError> {
        match order {
            CarrierOrder::Join(ticket) => {
                rights::keep_only(ProgramPart::Carrier)?;
                let subject = format!("down.{}", ticket.node);
                Ok(Open {
                    connection: Connection::open(&ticket.addresses, &ticket.credential, &subject).await?,
                    node: Some(ticket.node),
                    server: None,
                    last: None,
                    _files: JoinFiles::default(),
                })
            }
            CarrierOrder::Coordinate { files, ticket } => Open::coordinate(files, ticket).await,
        }
    }

    async fn coordinate(files: Vec<PathBuf>, ticket: Ticket) -> Result<Open, BeginError> {
        let mut created = JoinFiles::create(files)?;
        rights::keep_only(ProgramPart::Carrier)?;
        let own: Vec<String> = addresses::own().iter().map(ToString::to_string).collect();
        let mut names = own.clone();
        names.extend(["127.0.0.1".to_owned(), ticket.host.clone()]);
        let nodes = u32::try_from(created.0.len()).unwrap_or(u32::MAX);
        let certificates = certificates::make(names, nodes)?;
        let server = Server::start(&certificates)?;
        let port = server.port;
        let local = [format!("127.0.0.1:{port}")];
        let connection = Connection::open(&local, &certificates.coordinator, "up.*").await?;
        let reached: Vec<String> = own.iter().map(|address| format!("{address}:{port}")).collect();
        let credentials = certificates.nodes.into_iter();
        for (((path, file), credential), node) in created.0.iter_mut().zip(credentials).zip(1..) {
            let ticket = Ticket {
                addresses: reached.clone(),
                node,
                credential,
                ..ticket.clone()
            };
            let text = serde_json::to_string_pretty(&ticket)? + "\n";
            file.write_all(text.as_bytes())
                .map_err(|source| BeginError::File {
                    path: path.clone(),
                    source,
                })?;
        }
        Ok(Open {
            connection,
            node: None,
            server: Some(server),
            last: None,
            _files: created,
        })
    }

    /// Carries messages until the session closes its end.
    async fn carry(mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let (mut from, mut to) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let mut ended = self.server.as_ref().map(|server| Readable::end_of(server.pid()));
        let (sender, mut sent) = tokio::sync::mpsc::channel(8);
        let mut reading = tokio::task::JoinSet::new();
        reading.spawn(async move {
            let mut head = [0; HEAD_BYTES];
            while from.read_exact(&mut head).await.is_ok() {
                let Ok((length, node)) = parsed(head) else { return };
                let mut message = vec![0; length];
                if from.read_exact(&mut message).await.is_err() || sender.send((node, message)).await.is_err()
                {
                    return;
                }
            }
        });
        loop {
            let server_end = async {
                match &ended {
                    Some(Ok(server)) => server.wait().await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                message = sent.recv() => match message {
                    Some((CONTROL, message)) => self.last = Some(message),
                    Some((node, message)) => {
                        let subject = match self.node {
                            Some(own) => format!("up.{own}"),
                            None => format!("down.{node}"),
                        };
                        self.connection.send(subject, message).await;
                    }
                    None => break,
                },
                Some((subject, message)) = self.connection.next() => {
                    let node = subject.rsplit('.').next().and_then(|node| node.parse().ok());
                    if let Some(node) = node && to.write_all(&framed(node, &message)).await.is_err() {
                        break;
                    }
                }
                _ = server_end => {
                    ended = None;
                    let text = "nats-server has ended: nothing arrives from the other nodes any more, and they end by themselves";
                    to.write_all(&framed(CONTROL, text.as_bytes())).await?;
                }
            }
        }
        reading.abort_all();
        if let Some((node, last)) = self.node.zip(self.last.take()) {
            self.connection.send(format!("up.{node}"), last).await;
        }
        self.connection.flush().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn join_files_are_private_and_removed_but_none_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let [new, old] = ["new", "old"].map(|name| folder.path().join(name));
        let files = JoinFiles::create(vec![new.clone()]).unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, 0o600);
        drop(files);
        fs::write(&old, "mine").unwrap();
        let refused = JoinFiles::create(vec![new.clone(), old.clone()]);
        assert!(matches!(refused, Err(BeginError::Exists(path)) if path == old));
        assert_eq!(
            (new.exists(), fs::read(&old).unwrap().as_slice()),
            (false, &b"mine"[..])
        );
    }

    #[test]
    fn a_message_that_is_too_long_is_not_read() {
        let head = |length: u32| [length.to_le_bytes(), 7u32.to_le_bytes()].concat();
        let of = |length| parsed(head(length).try_into().unwrap());
        assert_eq!(of(5).unwrap(), (5, 7));
        assert!(of(MESSAGE_MAX as u32 + 1).is_err());
    }
}
