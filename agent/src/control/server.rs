//! The session's side of the socket: accepts connections, refuses foreign users, and passes requests to the
//! session's loop.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
    task::Context,
    time::Duration,
};

use rustix::process::geteuid;
use session::request::{Answer, RefusalKind, Request};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::{mpsc, oneshot},
};

use crate::connections;

use super::{
    FolderError, REQUEST_BYTES_MAX, parse,
    place::{create, folder},
};

/// Maximum number of open connections; further ones wait.
const CONNECTIONS_MAX: usize = 8;
/// A peer that sends nothing, or does not read its answer, for this time is disconnected.
const IDLE: Duration = Duration::from_secs(30);

/// A request, and the channel for its answer.
pub(crate) type PendingRequest = (Request, oneshot::Sender<Answer>);

/// The socket of a session, created before it gives up the right to write. Dropping it removes the file if
/// that right still exists; otherwise the next session or a command that searches for sessions does.
#[derive(Debug)]
pub(crate) struct Control {
    listener: Option<UnixListener>,
    path: PathBuf,
}

impl Control {
    /// Creates the socket of this process.
    pub(crate) fn open() -> Result<Control, FolderError> {
        Control::at(&folder())
    }

    fn at(folder: &Path) -> Result<Control, FolderError> {
        create(folder)?;
        remove_ended(folder);
        let path = folder.join(format!("{}.sock", std::process::id()));
        let io_error = |error| FolderError::Io {
            path: path.clone(),
            error,
        };
        // Left by a session with the same process id that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(io_error)?;
        let control = Control {
            listener: Some(listener),
            path: path.clone(),
        };
        // Until here only the folder has kept others out.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(io_error)?;
        if let Some(listener) = &control.listener {
            listener.set_nonblocking(true).map_err(io_error)?;
        }
        Ok(control)
    }

    /// The listener to serve; `None` the second time.
    pub(crate) fn take_listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the sockets of sessions that have ended.
fn remove_ended(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = entries.map(|entry| entry.path());
    for path in sockets.filter(|path| path.extension().is_some_and(|ending| ending == "sock")) {
        let refused = std::os::unix::net::UnixStream::connect(&path);
        if refused.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Serves until it is dropped, which closes all connections. Each connection handles one request at a time.
pub(crate) async fn serve(
    listener: UnixListener,
    requested: mpsc::Sender<PendingRequest>,
) -> std::io::Result<()> {
    serve_within(listener, requested, IDLE).await
}

async fn serve_within(
    listener: UnixListener,
    requested: mpsc::Sender<PendingRequest>,
    idle: Duration,
) -> std::io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let accept = |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|(stream, _)| stream);
    connections::serve_each(CONNECTIONS_MAX, accept, |stream| {
        let requested = requested.clone();
        async move {
            // Errors of a peer that disconnects are ignored.
            let _ = converse(stream, requested, idle).await;
        }
    })
    .await;
    Ok(())
}

async fn converse(
    stream: UnixStream,
    requested: mpsc::Sender<PendingRequest>,
    idle: Duration,
) -> std::io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    let (reader, writer) = stream.into_split();
    let mut writer = Answers { writer, idle };
    if !may_control(peer, geteuid().as_raw()) {
        let text = format!(
            "this session belongs to {}, not to {}",
            tuner::user_name(geteuid().as_raw()),
            tuner::user_name(peer)
        );
        return writer
            .say(&Answer::refused(RefusalKind::NotPermitted, text))
            .await;
    }
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reader).take(REQUEST_BYTES_MAX as u64 + 1);
        let read = tokio::time::timeout(idle, bounded.read_until(b'\n', &mut line)).await;
        match read {
            Ok(Ok(count)) if count > 0 => {}
            // End of input, an error, or the time limit.
            _ => return Ok(()),
        }
        let is_complete = line.pop_if(|byte| *byte == b'\n').is_some();
        match parse(&line) {
            Ok(request) if is_complete => writer.say(&send(&requested, request).await).await?,
            Err(refused) => {
                writer.say(&refused).await?;
                if !is_complete {
                    // The rest of a line that is too long is not read.
                    return Ok(());
                }
            }
            // The sender ended within a line.
            Ok(_) => return Ok(()),
        }
    }
}

async fn send(requested: &mpsc::Sender<PendingRequest>, request: Request) -> Answer {
    let (answer, answered) = oneshot::channel();
    if requested.send((request, answer)).await.is_err() {
        return Answer::ending();
    }
    answered.await.unwrap_or_else(|_| Answer::ending())
}

struct Answers {
    writer: tokio::net::unix::OwnedWriteHalf,
    idle: Duration,
}

impl Answers {
    async fn say(&mut self, answer: &Answer) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        // A peer that never reads would occupy its connection for ever.
        tokio::time::timeout(self.idle, self.writer.write_all(&line)).await?
    }
}

/// Only the session's own user and root.
fn may_control(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use tokio::task::JoinSet;

    use super::*;

    #[test]
    fn only_the_sessions_user_and_root_may_control_it() {
        assert!(may_control(1000, 1000) && may_control(0, 1000) && may_control(0, 0));
        assert!(!may_control(1001, 1000) && !may_control(1000, 0));
    }

    /// Serves while `talk` runs: every request is answered with `Answer::Stopping`.
    fn served(talk: impl FnOnce(&Path) + Send) {
        served_with(IDLE, || Answer::Stopping, Path::to_owned, |path| talk(&path));
    }

    /// As `served`, for peers that connect before anything is served.
    fn served_with<T: Send>(
        idle: Duration,
        answer_with: impl Fn() -> Answer,
        connect: impl FnOnce(&Path) -> T,
        talk: impl FnOnce(T) + Send,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("tuneagent");
        let mut control = Control::at(&place).unwrap();
        let path = control.path.clone();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let listener = control.take_listener().unwrap();
        let connected = connect(&path);
        std::thread::scope(|scope| {
            let talking = scope.spawn(move || talk(connected));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let (sender, mut requested) = mpsc::channel::<PendingRequest>(8);
                let mut serving = JoinSet::new();
                serving.spawn(serve_within(listener, sender, idle));
                while !talking.is_finished() {
                    let next = tokio::time::timeout(Duration::from_millis(10), requested.recv()).await;
                    if let Ok(Some((request, answer))) = next {
                        assert_eq!(request, Request::Stop);
                        let _ = answer.send(answer_with());
                    }
                }
            });
        });
        drop(control);
        assert!(!path.exists(), "the file goes with the session");
    }

    fn line(reader: &mut impl BufRead) -> String {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn requests_are_answered_in_order_and_nonsense_is_refused_without_ending_the_connection() {
        served(|path| {
            let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            stream.write_all(b"nonsense\n{\"request\":\"stop\"}\n").unwrap();
            assert!(line(&mut reader).contains("not understood"));
            assert_eq!(line(&mut reader), "\"stopping\"\n");
        });
    }

    #[test]
    fn a_connection_ends_with_whoever_serves_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut control = Control::at(&folder.path().join("tuneagent")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let (sender, _requests) = mpsc::channel::<PendingRequest>(8);
            let mut serving = JoinSet::new();
            serving.spawn(serve_within(control.take_listener().unwrap(), sender, 2 * IDLE));
            let mut stream = tokio::io::BufReader::new(UnixStream::connect(&control.path).await.unwrap());
            stream.write_all(b"nonsense\n").await.unwrap();
            let mut said = String::new();
            stream.read_line(&mut said).await.unwrap();
            assert!(said.contains("not understood"), "{said}");
            drop(serving);
            let closed = tokio::time::timeout(IDLE, stream.read_line(&mut said)).await;
            assert!(closed.is_ok(), "the connection is open still");
        });
    }

    #[test]
    fn peers_that_never_read_their_answers_are_let_go() {
        // More than the buffer of a socket holds.
        let large = || Answer::Report(serde_json::Value::from("x".repeat(8 << 20)));
        // All have written before the first is served, so that none is disconnected for a late request.
        let connect = |path: &Path| {
            let peers = (0..=CONNECTIONS_MAX).map(|_| std::os::unix::net::UnixStream::connect(path).unwrap());
            let mut peers: Vec<_> = peers.collect();
            let mut next = peers.pop().unwrap();
            for silent in &mut peers {
                silent.write_all(b"{\"request\":\"stop\"}\n").unwrap();
            }
            next.write_all(b"nonsense\n").unwrap();
            (peers, next)
        };
        served_with(Duration::from_millis(100), large, connect, |(silent, next)| {
            // All connections are in use: this one is served once one of them has been closed.
            next.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            assert!(line(&mut BufReader::new(next)).contains("not understood"));
            drop(silent);
        });
    }

    #[test]
    fn a_line_over_the_bound_ends_the_connection_and_not_the_session() {
        served(|path| {
            let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            // The other side closes while this one still writes, so that may fail.
            let _ = stream.write_all(&vec![b'x'; 3 * REQUEST_BYTES_MAX]);
            assert!(line(&mut reader).contains("longer than"));
            let mut next = std::os::unix::net::UnixStream::connect(path).unwrap();
            let mut reader = BufReader::new(next.try_clone().unwrap());
            next.write_all(b"{\"request\":\"stop\"}\n").unwrap();
            assert_eq!(line(&mut reader), "\"stopping\"\n");
        });
    }
}
