//! Read-only HTTP: /metrics for Prometheus, and the page for browsers. No request changes anything. Every
//! local user can connect; therefore the number of connections, the time for a request, the time for its
//! answer, and the time for which a client may leave an event unread are bounded.

mod answer;
mod events;
mod marks;
mod names;
#[cfg(test)]
mod tests;
mod token;
mod web;

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Context,
    time::{Duration, Instant},
};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use profile::{Snapshot, streams::WatchedWindow};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, watch},
};

use self::{answer::answer, names::HostNames};
pub(crate) use self::{marks::LiveMark, token::Token, web::Web};
use crate::connections;

/// The newest state of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Whether the session is over.
    pub(crate) is_last: bool,
}

pub(crate) type Newest = watch::Receiver<Published>;

/// The pages that an address serves.
#[derive(Clone, Debug)]
pub(crate) enum ServedPages {
    Metrics(Newest),
    /// The metrics of a contract; none before its first window.
    Contract(watch::Receiver<Option<Arc<WatchedWindow>>>),
    Page(Arc<Web>),
}

/// The state that all connections to an address share.
#[derive(Debug)]
struct Server {
    site: ServedPages,
    names: HostNames,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Maximum number of open connections; further ones wait.
    connections: usize,
    /// Size of a request's header, in bytes.
    header_bytes: usize,
    /// From the connection to the end of the request's header.
    header: Duration,
    /// From the connection to the end of the answer, unless it is a stream of events.
    total: Duration,
    /// How long the client of a stream may leave an event unread.
    unread: Duration,
}

const BOUNDS: Bounds = Bounds {
    connections: 64,
    header_bytes: 32 * 1024,
    header: Duration::from_secs(5),
    total: Duration::from_secs(30),
    unread: Duration::from_secs(10),
};

/// The state of a connection, which decides for how long it may stay open.
#[derive(Debug, Default)]
struct Connection {
    /// The permit of a stream of events, kept until the connection is closed. The total time of a stream is
    /// not bounded.
    stream: Mutex<Option<OwnedSemaphorePermit>>,
    /// Time since which the client has left an event unread; `None` if it has read all.
    unread: Mutex<Option<Instant>>,
}

impl Connection {
    fn becomes_stream(&self, place: OwnedSemaphorePermit) {
        *locked(&self.stream) = Some(place);
    }

    fn has_written(&self) {
        *locked(&self.unread) = Some(Instant::now());
    }

    fn has_read(&self) {
        *locked(&self.unread) = None;
    }

    /// Whether the answer is a stream and its client reads.
    fn is_followed(&self, bounds: Bounds) -> bool {
        let reads = locked(&self.unread).is_none_or(|since| since.elapsed() < bounds.unread);
        reads && locked(&self.stream).is_some()
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until the future is dropped, which closes all connections. `names` are further accepted host names,
/// in addition to those of this machine.
pub(crate) async fn serve(
    listener: TcpListener,
    site: ServedPages,
    names: Vec<String>,
) -> std::io::Result<()> {
    serve_within(listener, site, names, BOUNDS).await
}

async fn serve_within(
    listener: TcpListener,
    site: ServedPages,
    names: Vec<String>,
    bounds: Bounds,
) -> std::io::Result<()> {
    let names = HostNames {
        is_loopback: listener.local_addr()?.ip().is_loopback(),
        host: job::host(),
        others: names,
    };
    let server = Arc::new(Server { site, names });
    let accept = |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|(stream, _)| stream);
    connections::serve_each(bounds.connections, accept, |stream| {
        converse(stream, Arc::clone(&server), bounds)
    })
    .await;
    Ok(())
}

/// Handles one request; keep-alive is not supported. Errors of a client that is too slow or disconnects are
/// ignored.
async fn converse(stream: TcpStream, server: Arc<Server>, bounds: Bounds) {
    let connection = Arc::new(Connection::default());
    let of_service = Arc::clone(&connection);
    let service = move |request: Request<Incoming>| {
        let (server, connection) = (Arc::clone(&server), Arc::clone(&of_service));
        async move { Ok::<_, Infallible>(answer(&request, &server, &connection).await) }
    };
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(bounds.header_bytes)
        .header_read_timeout(bounds.header)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service_fn(service));
    let too_long = async {
        tokio::time::sleep(bounds.total).await;
        while connection.is_followed(bounds) {
            tokio::time::sleep(bounds.unread / 10).await;
        }
    };
    tokio::select! {
        _ = conversation => {}
        () = too_long => {}
    }
}

/// Binding an address failed.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} cannot be served at {address}: {error}; {flag} ADDR:PORT takes an address of this machine and a port that is free"
)]
pub(crate) struct BindError {
    what: &'static str,
    flag: &'static str,
    address: SocketAddr,
    error: io::Error,
}

/// Binds the address of `flag`.
pub(crate) fn bind(
    what: &'static str,
    flag: &'static str,
    address: SocketAddr,
) -> Result<std::net::TcpListener, BindError> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| BindError {
        what,
        flag,
        address,
        error,
    })
}
