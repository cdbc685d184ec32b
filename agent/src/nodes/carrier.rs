//! The carrier: the process that passes messages between a session and the server through which the machines of a job
//! talk. For a coordinator it also starts that server. It ends with the session, in whatever way that ends, and
//! reports to the coordinator that the node's agent has ended.

use std::{
    fs,
    io::{self, Write},
    os::unix::{fs::OpenOptionsExt, net::UnixStream},
    path::PathBuf,
};

use profile::error::ErrorText;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    addresses,
    certificates::{self, Credential},
    nats::{Connection, NatsError, Server},
    subprocess::{self, CONTROL, HEAD_BYTES, Subprocess, framed, parsed},
    ticket::Ticket,
};
use crate::{
    exit::Failure,
    readable::Readable,
    rights::{self, ProgramPart},
};

/// Messages that wait to be sent; the session waits if there are more.
const SENT_MAX: usize = 8;

/// What the carrier is for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum CarrierOrder {
    /// Start a server, write a ticket into each of these files, and return further ones.
    Coordinate {
        files: Vec<PathBuf>,
        /// How many tickets are returned.
        further: u32,
        /// What the tickets say; addresses and credentials are added.
        ticket: Ticket,
    },
    /// Join the session of this ticket.
    Join(Ticket),
}

/// Starts the carrier; returns once messages can travel. The tickets are the further ones.
pub(crate) fn start_carrier(order: &CarrierOrder) -> Result<(Subprocess, Vec<Ticket>), Failure> {
    let mut command = Subprocess::command("carrier");
    // No certificates but our own count: those of the system need not be read.
    command
        .env("SSL_CERT_FILE", "/dev/null")
        .env_remove("SSL_CERT_DIR");
    Subprocess::start(command, order)
}

/// The main function of the carrier's process, with the session's socket as standard input. It reports to the session why
/// it cannot begin.
pub(crate) fn serve_carrier() -> Result<(), Failure> {
    let (mut stream, order): (UnixStream, CarrierOrder) = subprocess::order()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::failed)?;
    match runtime.block_on(Open::begin(order)) {
        Ok((open, further)) => {
            subprocess::answer(&mut stream, &Ok(further))?;
            runtime.block_on(open.carry(stream)).map_err(Failure::failed)
        }
        Err(error) => subprocess::answer::<Vec<Ticket>>(&mut stream, &Err(ErrorText::new(error).to_string())),
    }
}

#[derive(Debug, thiserror::Error)]
enum BeginError {
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error("the certificates of the session could not be made")]
    Certificates(#[from] rcgen::Error),
    #[error("--join-file {}: a file of this name is there already; remove it, or give another name", .0.display())]
    Exists(PathBuf),
    #[error("--join-file {}", path.display())]
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
    async fn begin(order: CarrierOrder) -> Result<(Open, Vec<Ticket>), BeginError> {
        match order {
            CarrierOrder::Join(ticket) => {
                rights::keep_only(ProgramPart::Carrier)?;
                let subject = format!("down.{}", ticket.node);
                let open = Open {
                    connection: Connection::open(&ticket.addresses, &ticket.credential, &subject).await?,
                    node: Some(ticket.node),
                    server: None,
                    last: None,
                    _files: JoinFiles::default(),
                };
                Ok((open, Vec::new()))
            }
            CarrierOrder::Coordinate {
                files,
                further,
                ticket,
            } => Open::coordinate(files, further, ticket).await,
        }
    }

    async fn coordinate(
        files: Vec<PathBuf>,
        further: u32,
        ticket: Ticket,
    ) -> Result<(Open, Vec<Ticket>), BeginError> {
        let mut created = JoinFiles::create(files)?;
        rights::keep_only(ProgramPart::Carrier)?;
        let own: Vec<String> = addresses::own().iter().map(ToString::to_string).collect();
        let mut names = own.clone();
        names.extend(["127.0.0.1".to_owned(), ticket.host.clone()]);
        let nodes = u32::try_from(created.0.len()).unwrap_or(u32::MAX);
        let certificates = certificates::make(names, nodes.saturating_add(further))?;
        let server = Server::start(&certificates)?;
        let port = server.port;
        let local = [format!("127.0.0.1:{port}")];
        let connection = Connection::open(&local, &certificates.coordinator, "up.*").await?;
        let reached: Vec<String> = own.iter().map(|address| format!("{address}:{port}")).collect();
        let filled = |(node, credential): (u32, Credential)| Ticket {
            addresses: reached.clone(),
            node,
            credential,
            ..ticket.clone()
        };
        let mut tickets = (1..).zip(certificates.nodes).map(filled);
        for ((path, file), ticket) in created.0.iter_mut().zip(tickets.by_ref()) {
            file.write_all(ticket.line()?.as_bytes())
                .map_err(|source| BeginError::File {
                    path: path.clone(),
                    source,
                })?;
        }
        let further = tickets.collect();
        let open = Open {
            connection,
            node: None,
            server: Some(server),
            last: None,
            _files: created,
        };
        Ok((open, further))
    }

    /// Carries messages until the session closes its end.
    async fn carry(mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let (mut from, mut to) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let mut ended = self.server.as_ref().map(|server| Readable::end_of(server.pid()));
        let (sender, mut sent) = tokio::sync::mpsc::channel(SENT_MAX);
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
}
