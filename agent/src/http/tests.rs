//! Tests of the server over real connections.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};
use tuneagent_e2e::wait::wait_until;

use super::*;

fn metrics_site() -> ServedPages {
    ServedPages::Metrics(watch::channel(Published::default()).1)
}

/// Limit for each step, longer than any step takes on any machine: a test that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn served(bounds: Bounds, talk: impl FnOnce(SocketAddr) + Send) {
    served_site(metrics_site(), bounds, talk);
}

fn served_site(site: ServedPages, bounds: Bounds, talk: impl FnOnce(SocketAddr) + Send) {
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
            serving.spawn(serve_within(listener, site, Vec::new(), bounds));
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
        ..BOUNDS
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(serve_within(listener, metrics_site(), Vec::new(), bounds));
        let mut slow = tokio::net::TcpStream::connect(address).await.unwrap();
        // The slow connection occupies the only slot as soon as a further one gets no answer.
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

/// Reads until the server closes the connection.
fn observed(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn requested(address: SocketAddr, request: &str) -> String {
    observed(connected(address, request))
}

#[test]
fn incomplete_requests_are_closed_and_later_ones_are_served() {
    let bounds = Bounds {
        connections: 2,
        header: Duration::from_millis(50),
        total: PATIENCE,
        ..BOUNDS
    };
    served(bounds, |address| {
        let half = "GET /metrics HTTP/1.1\r\nX: ";
        let slow: Vec<TcpStream> = ["", half, "", half, half]
            .map(|said| connected(address, said))
            .into();
        let page = requested(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
        for stream in slow {
            // The server closes each connection, with or without an answer.
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
        ..BOUNDS
    };
    served(bounds, |address| {
        // The incomplete header is within its own bound, but the connection exceeds the total time.
        let slow = connected(address, "GET /metrics HTTP/1.1\r\n");
        let health = requested(address, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        assert!(health.starts_with("HTTP/1.1 200 OK"), "{health}");
        assert_eq!(observed(slow), "");
    });
}

#[test]
fn requests_for_other_pages_are_refused() {
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
                "HTTP/1.1 403",
            ),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200"),
            ("GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.0 403"),
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

/// A page whose snapshots the test publishes through a channel.
fn page_site(newest: Newest) -> (ServedPages, String) {
    let token = Token::new().unwrap();
    let known = token.text().to_owned();
    (ServedPages::Page(Web::new(newest, token, 9478)), known)
}

fn get(address: SocketAddr, path: &str, more: &str) -> String {
    requested(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"),
    )
}

#[test]
fn the_page_requires_the_token_and_changes_nothing() {
    let (_sender, newest) = watch::channel(Published::default());
    let (site, token) = page_site(newest);
    served_site(site, BOUNDS, |address| {
        for (path, _) in web::ROUTES {
            let is_open = ["/page.css", "/page.js", "/healthz"].contains(&path);
            let without = get(address, path, "");
            let expected = if is_open { "HTTP/1.1 200" } else { "HTTP/1.1 401" };
            assert!(without.starts_with(expected), "{path}: {without}");
            for header in [
                "content-security-policy: default-src 'none'; script-src 'self'",
                "x-content-type-options: nosniff",
                "referrer-policy: no-referrer",
                "cross-origin-opener-policy: same-origin",
                "cross-origin-resource-policy: same-origin",
                "cache-control: no-",
            ] {
                assert!(without.contains(header), "{path}: {header}: {without}");
            }
            assert!(!without.contains("access-control"), "{path}: {without}");
            for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
                let request = format!("{method} {path}?t={token} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                let refused = requested(address, &request);
                assert!(refused.starts_with("HTTP/1.1 405"), "{method} {path}: {refused}");
            }
        }
        for other in ["Origin: http://evil.example\r\n", "Origin: null\r\n"] {
            let refused = get(address, &format!("/api/page?t={token}"), other);
            assert!(refused.starts_with("HTTP/1.1 403"), "{other}: {refused}");
        }
        let long = format!("X: {}\r\n", "x".repeat(1 << 20));
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{long}\r\n").as_bytes());
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(!String::from_utf8_lossy(&said).contains(" 200 "));
    });
}

#[test]
fn the_token_is_taken_from_the_address_once_and_a_cookie_keeps_it() {
    let (_sender, newest) = watch::channel(Published::default());
    let (site, token) = page_site(newest);
    served_site(site, BOUNDS, |address| {
        let page = get(address, &format!("/?t={token}"), "");
        assert!(
            page.starts_with("HTTP/1.1 200") && page.contains("no process was watched"),
            "{page}"
        );
        let (_, cookie) = page.split_once("set-cookie: ").unwrap();
        let cookie = cookie.lines().next().unwrap();
        assert!(
            cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"),
            "{cookie}"
        );
        let (pair, _) = cookie.split_once(';').unwrap();
        let model = get(address, "/api/page", &format!("Cookie: {pair}\r\n"));
        assert!(model.contains("\"schema\":\"tuneagent.page/1\""), "{model}");
        assert!(
            !page.split_once("<html").unwrap().1.contains(&token),
            "the page has the token"
        );
        // A client that has the newest state gets no body.
        let (_, tag) = model.split_once("etag: ").unwrap();
        let tag = tag.lines().next().unwrap();
        let same = get(
            address,
            "/api/page",
            &format!("Cookie: {pair}\r\nIf-None-Match: {tag}\r\n"),
        );
        assert!(same.starts_with("HTTP/1.1 304"), "{same}");
        let small = get_bytes(address, &format!("/?t={token}"), "Accept-Encoding: br, gzip\r\n");
        let text = String::from_utf8_lossy(&small);
        assert!(
            text.contains("content-encoding: gzip") && small.len() < page.len() / 2,
            "{}",
            small.len()
        );
    });
}

fn get_bytes(address: SocketAddr, path: &str, more: &str) -> Vec<u8> {
    let mut stream = connected(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"),
    );
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads until the answer contains `text`.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut said = Vec::new();
    let mut part = [0; 4096];
    while !String::from_utf8_lossy(&said).contains(text) {
        let count = stream.read(&mut part).unwrap();
        assert!(
            count > 0,
            "it ended without {text:?}: {}",
            String::from_utf8_lossy(&said)
        );
        said.extend(&part[..count]);
    }
    String::from_utf8_lossy(&said).into_owned()
}

fn publish(sender: &watch::Sender<Published>, missing: &str, is_last: bool) {
    let snapshot = Snapshot {
        missing: vec![missing.to_owned()],
        ..Snapshot::default()
    };
    let snapshot = Arc::new(snapshot);
    sender.send_replace(Published { snapshot, is_last });
}

#[test]
fn a_stream_has_updates_and_the_complete_page_at_the_end() {
    let (sender, newest) = watch::channel(Published::default());
    let (site, token) = page_site(newest);
    served_site(site, BOUNDS, |address| {
        let path = format!("/api/events?t={token}");
        let mut stream = connected(
            address,
            &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        );
        let first = read_until(&mut stream, "\n\n");
        assert!(
            first.contains("content-type: text/event-stream") && first.contains("event: tick"),
            "{first}"
        );
        assert!(
            first.contains("\"session\":") && first.contains("\"findings\":"),
            "{first}"
        );
        let (_, id) = first.split_once("id: ").unwrap();
        let id = id.lines().next().unwrap().to_owned();
        publish(&sender, "rank 7", false);
        let second = read_until(&mut stream, "\n\n");
        assert!(
            second.contains("rank 7") && !second.contains("\"findings\":"),
            "only what changed: {second}"
        );
        // A client that reconnects with an older id gets the same changes again.
        let more = format!("Last-Event-ID: {id}\r\n");
        let mut other = connected(
            address,
            &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"),
        );
        let missed = read_until(&mut other, "\n\n");
        assert!(
            missed.contains("rank 7") && !missed.contains("\"findings\":"),
            "{missed}"
        );
        publish(&sender, "rank 7", true);
        let end = observed(stream);
        assert!(
            end.contains("event: end") && end.contains("\"file\":\"<!DOCTYPE html>"),
            "{end}"
        );
        observed(other);
    });
}

#[test]
fn a_stream_has_a_mark_at_once_and_one_that_was_missed_after_it_is_resumed() {
    let (_sender, newest) = watch::channel(Published::default());
    let token = Token::new().unwrap();
    let path = format!("/api/events?t={}", token.text());
    let web = Web::new(newest, token, 9478);
    let mark = |rule: &str| LiveMark {
        at_s: 1.5,
        kind: "finding",
        rule: rule.to_owned(),
        text: "4 ranks spin".to_owned(),
    };
    served_site(ServedPages::Page(Arc::clone(&web)), BOUNDS, |address| {
        let request = |more: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        let mut stream = connected(address, &request(""));
        read_until(&mut stream, "event: tick");
        // There is no new snapshot, which ticks wait for.
        web.mark(mark("first"));
        let first = read_until(&mut stream, "4 ranks spin");
        assert!(
            first.contains("event: mark") && first.contains("\"rule\":\"first\""),
            "{first}"
        );
        let (_, id) = first.split_once("id: ").unwrap();
        let id = id.lines().next().unwrap().to_owned();
        drop(stream);
        web.mark(mark("second"));
        let mut resumed = connected(address, &request(&format!("Last-Event-ID: {id}\r\n")));
        let second = read_until(&mut resumed, "4 ranks spin");
        assert!(second.contains("second") && !second.contains("first"), "{second}");
        assert!(
            !second.contains("\"findings\":"),
            "it has the page already: {second}"
        );
        // A client that has nothing, or comes from another session, gets all.
        for more in ["", "Last-Event-ID: 1f-9-9\r\n"] {
            let mut other = connected(address, &request(more));
            let all = read_until(&mut other, "second");
            assert!(all.contains("\"findings\":") && all.contains("first"), "{all}");
        }
    });
}

/// Joins the chunks of an answer's body.
fn joined(answer: &[u8]) -> Vec<u8> {
    let end = |of: &[u8], mark: &[u8]| of.windows(mark.len()).position(|at| at == mark).unwrap();
    let mut rest = &answer[end(answer, b"\r\n\r\n") + 4..];
    let mut body = Vec::new();
    loop {
        let line = end(rest, b"\r\n");
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend(&rest[line + 2..][..length]);
        rest = &rest[line + 2 + length + 2..];
    }
}

#[test]
fn a_stream_is_compressed_and_each_event_can_be_read_when_it_comes() {
    let (sender, newest) = watch::channel(Published::default());
    let (site, token) = page_site(newest);
    served_site(site, BOUNDS, |address| {
        let path = format!("/api/events?t={token}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
        let mut stream = connected(address, &request);
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        let mut text = Vec::new();
        // The first event must be readable before the session ends.
        while !text.ends_with(b"\n\n") {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&text));
            answer.extend(&part[..count]);
            text.clear();
            let body = joined(&[answer.as_slice(), b"0\r\n\r\n"].concat());
            let _ = flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut text);
        }
        publish(&sender, "rank 7", true);
        stream.read_to_end(&mut answer).unwrap();
        let mut text = String::new();
        let body = joined(&answer);
        flate2::read::GzDecoder::new(body.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        assert!(
            text.contains("event: tick") && text.contains("event: end"),
            "{text}"
        );
        assert!(body.len() < text.len() / 2, "{} of {}", body.len(), text.len());
    });
}

#[test]
fn the_ninth_stream_is_refused_and_one_that_is_closed_makes_room() {
    let (_sender, newest) = watch::channel(Published::default());
    let (site, token) = page_site(newest);
    served_site(site, BOUNDS, |address| {
        let request = format!("GET /api/events?t={token} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut streams: Vec<TcpStream> = (0..8).map(|_| connected(address, &request)).collect();
        streams
            .iter_mut()
            .for_each(|stream| drop(read_until(stream, "event: tick")));
        let ninth = requested(address, &request);
        assert!(
            ninth.starts_with("HTTP/1.1 503") && ninth.contains("8 browsers"),
            "{ninth}"
        );
        streams.pop();
        let began = std::time::Instant::now();
        loop {
            let mut again = connected(address, &request);
            let mut head = [0; 12];
            again.read_exact(&mut head).unwrap();
            if head == *b"HTTP/1.1 200" {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "no place became free");
        }
    });
}

#[test]
fn a_client_that_does_not_read_its_stream_is_disconnected() {
    let (sender, newest) = watch::channel(Published::default());
    let token = Token::new().unwrap();
    let request = format!(
        "GET /api/events?t={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        token.text()
    );
    let web = Web::new(newest, token, 9478);
    let bounds = Bounds {
        // The request must be answered within it, on a busy machine too.
        total: Duration::from_secs(2),
        unread: Duration::from_millis(100),
        ..BOUNDS
    };
    served_site(ServedPages::Page(Arc::clone(&web)), bounds, |address| {
        let mut reader = connected(address, &request);
        read_until(&mut reader, "event: tick");
        let mut sleeper = connected(address, &request);
        read_until(&mut sleeper, "event: tick");
        drop(reader);
        // An event larger than the kernel's buffers of a connection.
        publish(&sender, &"x".repeat(64 << 20), false);
        wait_until("the end of the stream", PATIENCE, || Ok(!web.is_followed())).unwrap();
    });
}
