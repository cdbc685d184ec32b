//! Read-only HTTP: /metrics and /healthz. Nothing can be changed through it. Every local user can connect, so
//! everything is bounded: connections, the time for a request, and the time for its answer.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HOST, X_CONTENT_TYPE_OPTIONS},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use profile::Snapshot;
use report::metrics_page;

/// The content type of Prometheus' text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);

/// The newest snapshot, written by the session and read by scrapes.
pub(crate) type Shared = Arc<Mutex<Arc<Snapshot>>>;

#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Maximum number of open connections; further ones wait.
    connections: usize,
    /// From the connection to the end of the request's header.
    header: Duration,
    /// From the connection to the end of the answer.
    total: Duration,
}

const BOUNDS: Bounds = Bounds {
    connections: 32,
    header: Duration::from_secs(5),
    total: Duration::from_secs(30),
};

/// Serves until it is dropped, which closes all connections.
pub(crate) async fn serve(listener: TcpListener, shared: Shared) -> std::io::Result<()> {
    serve_within(listener, shared, BOUNDS).await
}

async fn serve_within(listener: TcpListener, shared: Shared, bounds: Bounds) -> std::io::Result<()> {
    let names = Names {
        is_loopback: listener.local_addr()?.ip().is_loopback(),
        host: job::host(),
    };
    let names = Arc::new(names);
    let places = Arc::new(Semaphore::new(bounds.connections));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return Ok(());
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "/metrics takes no connection for a moment");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (shared, names) = (Arc::clone(&shared), Arc::clone(&names));
        connections.spawn(async move {
            // Errors of a client that is too slow or disconnects are ignored.
            let _ = tokio::time::timeout(bounds.total, converse(stream, shared, names, bounds)).await;
            drop(place);
        });
    }
}

/// Handles one request; keep-alive is not supported.
async fn converse(
    stream: TcpStream,
    shared: Shared,
    names: Arc<Names>,
    bounds: Bounds,
) -> Result<(), hyper::Error> {
    let answer = move |request: Request<Incoming>| {
        let (shared, names) = (Arc::clone(&shared), Arc::clone(&names));
        async move { Ok::<_, Infallible>(answer(&request, &names, shared).await) }
    };
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.header)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await
}

async fn answer<B>(request: &Request<B>, names: &Names, shared: Shared) -> Response<Full<Bytes>> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| names.has(host)) {
        let text = format!(
            "/metrics is not served under this host name: use the address, localhost or {}\n",
            names.host
        );
        return text_with(StatusCode::MISDIRECTED_REQUEST, text);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text_with(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        refused
            .headers_mut()
            .insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/metrics" => scrape(shared).await,
        "/healthz" => text_with(StatusCode::OK, "ok\n".to_owned()),
        "/" => landing(),
        _ => text_with(
            StatusCode::NOT_FOUND,
            "there are /metrics and /healthz\n".to_owned(),
        ),
    }
}

async fn scrape(shared: Shared) -> Response<Full<Bytes>> {
    let snapshot = Arc::clone(&shared.lock().unwrap_or_else(PoisonError::into_inner));
    // Rendering a page of thousands of ranks takes a while, and must not block the session's loop.
    let page = tokio::task::spawn_blocking(move || metrics_page(&snapshot));
    match page.await {
        Ok(Ok(text)) => text_with(StatusCode::OK, text),
        Ok(Err(error)) => text_with(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        Err(error) => text_with(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// A list of the pages, for browsers.
fn landing() -> Response<Full<Bytes>> {
    const PAGE: &str = "<!doctype html><html lang=\"en\"><title>tuneagent</title><h1>tuneagent</h1>\
        <p>A session that watches a running program. Nothing can be changed here.</p>\
        <ul><li><a href=\"/metrics\">/metrics</a> for Prometheus</li><li><a href=\"/healthz\">/healthz</a></li></ul></html>\n";
    let mut page = text_with(StatusCode::OK, PAGE.to_owned());
    let html = hyper::header::HeaderValue::from_static("text/html; charset=utf-8");
    page.headers_mut().insert(CONTENT_TYPE, html);
    page
}

fn text_with(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let format = hyper::header::HeaderValue::from_static(TEXT_FORMAT);
    response.headers_mut().insert(CONTENT_TYPE, format);
    let as_it_is = hyper::header::HeaderValue::from_static("nosniff");
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, as_it_is);
    response
}

/// The host names under which a session answers. A web page can have its own name resolve to this machine and
/// then send requests from the user's browser (DNS rebinding). It cannot do so for an address, for localhost,
/// or for a name that it does not control.
#[derive(Debug)]
struct Names {
    /// Only this machine can connect.
    is_loopback: bool,
    /// The host name of this machine.
    host: String,
}

impl Names {
    /// Whether the `Host` header of a request refers to us.
    fn has(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            // Colons within brackets belong to an IPv6 address.
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let address: Option<IpAddr> = bare.unwrap_or(name).parse().ok();
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match address {
            Some(address) => !self.is_loopback || address.to_canonical().is_loopback(),
            None if is("localhost") => true,
            // The short host name, or the short name followed by any domain, because ours is unknown.
            None if !self.is_loopback => {
                is(&self.host)
                    || name
                        .split('.')
                        .next()
                        .is_some_and(|first| first.eq_ignore_ascii_case(&self.host))
            }
            None => is(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{Shutdown, SocketAddr, TcpStream},
    };

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Longer than any step takes on any machine: an exceeded limit is a failure.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn served(bounds: Bounds, talk: impl FnOnce(SocketAddr) + Send) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        std::thread::scope(|scope| {
            let talking = scope.spawn(move || talk(address));
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let mut serving = JoinSet::new();
                serving.spawn(serve_within(listener, Shared::default(), bounds));
                while !talking.is_finished() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        });
    }

    #[test]
    fn a_connection_ends_with_whoever_serves_it() {
        let bounds = Bounds {
            connections: 1,
            header: 2 * PATIENCE,
            total: 2 * PATIENCE,
        };
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut serving = JoinSet::new();
            serving.spawn(serve_within(listener, Shared::default(), bounds));
            let mut slow = tokio::net::TcpStream::connect(address).await.unwrap();
            // Its connection occupies the only slot once the next one is not answered any more.
            slow.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
            let mut next = tokio::net::TcpStream::connect(address).await.unwrap();
            next.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .await
                .unwrap();
            let mut said = String::new();
            let answered = tokio::time::timeout(Duration::from_millis(50), next.read_to_string(&mut said));
            assert!(answered.await.is_err(), "{said}");
            drop(serving);
            let closed = tokio::time::timeout(PATIENCE, slow.read_to_string(&mut said)).await;
            assert!(closed.is_ok(), "the connection is open still");
        });
    }

    fn connected(address: SocketAddr, said: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        stream
    }

    /// Reads until the other side closes.
    fn observed(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn requested(address: SocketAddr, request: &str) -> String {
        observed(connected(address, request))
    }

    #[test]
    fn half_requests_are_closed_and_those_who_waited_behind_them_are_served() {
        let bounds = Bounds {
            connections: 2,
            header: Duration::from_millis(50),
            total: PATIENCE,
        };
        served(bounds, |address| {
            let half = "GET /metrics HTTP/1.1\r\nX: ";
            let slow: Vec<TcpStream> = ["", half, "", half, half]
                .map(|said| connected(address, said))
                .into();
            let page = requested(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
            for stream in slow {
                // Closed, with or without an answer; none stays open.
                let said = observed(stream);
                assert!(!said.contains("200 OK"), "{said}");
            }
        });
    }

    #[test]
    fn one_that_does_not_read_its_answer_is_closed() {
        let bounds = Bounds {
            connections: 1,
            header: PATIENCE,
            total: Duration::from_millis(100),
        };
        served(bounds, |address| {
            // The time for the header is within its bound, the total time is not.
            let slow = connected(address, "GET /metrics HTTP/1.1\r\n");
            let health = requested(address, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
            assert!(health.starts_with("HTTP/1.1 200 OK"), "{health}");
            assert_eq!(observed(slow), "");
        });
    }

    #[test]
    fn what_is_not_a_request_for_a_page_of_ours_is_refused() {
        served(BOUNDS, |address| {
            for (request, expected) in [
                (
                    "GET /healthz HTTP/1.1\r\nHost: localhost:9477\r\n\r\n",
                    "HTTP/1.1 200",
                ),
                (
                    "HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                    "HTTP/1.1 200",
                ),
                (
                    "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                    "HTTP/1.1 421",
                ),
                ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200"),
                ("GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.0 421"),
                (
                    "GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    "HTTP/1.1 404",
                ),
                (
                    "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    "HTTP/1.1 405",
                ),
                ("nonsense\r\n\r\n", "HTTP/1.1 400"),
            ] {
                let said = requested(address, request);
                assert!(said.starts_with(expected), "{request:?}: {said}");
            }
            let closed = connected(address, "");
            closed.shutdown(Shutdown::Write).unwrap();
            assert_eq!(observed(closed), "");
        });
    }

    #[test]
    fn a_name_that_others_can_make_resolve_to_this_machine_is_not_ours() {
        let host = || "node17".to_owned();
        let here = Names {
            is_loopback: true,
            host: host(),
        };
        let everywhere = Names {
            is_loopback: false,
            host: host(),
        };
        for (name, is_ours_here, is_ours_everywhere) in [
            ("localhost", true, true),
            ("LocalHost:9477", true, true),
            ("127.0.0.1:9477", true, true),
            ("[::1]:9477", true, true),
            ("[::ffff:127.0.0.1]", true, true),
            ("10.0.0.7:9477", false, true),
            ("[fe80::1]", false, true),
            ("node17:9477", true, true),
            ("node17.cluster.example", false, true),
            ("evil.example", false, false),
            ("evil.example:9477", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("", false, false),
        ] {
            assert_eq!(here.has(name), is_ours_here, "{name}");
            assert_eq!(everywhere.has(name), is_ours_everywhere, "{name}");
        }
    }
}
