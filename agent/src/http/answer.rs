//! The answers of the server: status, headers and bodies of requests.

use std::{convert::Infallible, fmt::Display, io::Write, sync::Arc};

use flate2::{Compression, write::GzEncoder};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Bytes,
    header::{
        ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST,
        HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use report::{contract_metrics_page, metrics_page};

use super::{Connection, ServedPages, Server};

/// The content type of Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const HTML: &str = "text/html; charset=utf-8";

/// Minimum size of a compressed answer, in bytes.
const COMPRESSED_FROM: usize = 1024;

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The Content-Security-Policy: a page may load only what the session serves, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (CACHE_CONTROL, "no-store"),
];

/// The only methods, because no request changes anything.
const METHODS: &str = "GET, HEAD";

pub(super) async fn answer<B>(request: &Request<B>, server: &Server, connection: &Arc<Connection>) -> Answer {
    let mut answer = match refusal(request, server) {
        Some(refusal) => refusal,
        None => match &server.site {
            ServedPages::Metrics(newest) => {
                let snapshot = Arc::clone(&newest.borrow().snapshot);
                metrics(request, move || metrics_page(&snapshot)).await
            }
            ServedPages::Contract(newest) => {
                let window = newest.borrow().clone();
                let page = move || window.map_or(Ok(String::new()), |window| contract_metrics_page(&window));
                metrics(request, page).await
            }
            ServedPages::Page(web) => web.answer(request, connection).await,
        },
    };
    for (name, value) in HEADERS {
        answer
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answer
}

/// Refuses a request because of its host name, origin or method, before its path is read.
fn refusal<B>(request: &Request<B>, server: &Server) -> Option<Answer> {
    let headers = request.headers();
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let Some(host) = text(HOST).filter(|host| server.names.has(host)) else {
        let text = format!(
            "this is not served under this host name: use the address, localhost or {}\n",
            server.names.host
        );
        return Some(text_with(StatusCode::FORBIDDEN, text));
    };
    // `Origin` is the site of the page that sent the request, if that is another site.
    let is_ours = |origin: &str| origin.split_once("://").is_some_and(|(_, name)| name == host);
    if headers.contains_key(ORIGIN) && !text(ORIGIN).is_some_and(is_ours) {
        return Some(text_with(
            StatusCode::FORBIDDEN,
            "pages of others are not answered\n",
        ));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text_with(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        refused
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static(METHODS));
        return Some(refused);
    }
    None
}

/// The paths beside `page`, which is what a scrape gets.
async fn metrics<B, E: Display + Send + 'static>(
    request: &Request<B>,
    page: impl FnOnce() -> Result<String, E> + Send + 'static,
) -> Answer {
    match request.uri().path() {
        "/metrics" => scrape(request.headers(), page).await,
        "/healthz" => text_with(StatusCode::OK, "ok\n"),
        "/" => landing(),
        _ => text_with(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
    }
}

async fn scrape<E: Display + Send + 'static>(
    headers: &HeaderMap,
    page: impl FnOnce() -> Result<String, E> + Send + 'static,
) -> Answer {
    let accepts = accepts_gzip(headers);
    // Rendering a page of thousands of ranks takes a while, and must not block the session's loop.
    let page = tokio::task::spawn_blocking(move || {
        page().map(|text| compressed(METRICS, text.into_bytes(), accepts))
    });
    match page.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => text_with(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        Err(error) => text_with(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Lists the paths, for browsers.
fn landing() -> Answer {
    const PAGE: &str = "<!doctype html><html lang=\"en\"><title>tuneagent</title><h1>tuneagent</h1>\
        <p>A session that watches a running program. Nothing can be changed here.</p>\
        <ul><li><a href=\"/metrics\">/metrics</a> for Prometheus</li><li><a href=\"/healthz\">/healthz</a></li></ul></html>\n";
    with_type(HTML, PAGE.into())
}

pub(super) fn text_with(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = with_type(TEXT, text.into());
    *answer.status_mut() = status;
    answer
}

pub(super) fn with_type(content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body).boxed_unsync());
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// The values of the query field `name`.
pub(super) fn fields<'a>(query: Option<&'a str>, name: &'static str) -> impl Iterator<Item = &'a str> {
    let pairs = query.unwrap_or_default().split('&');
    pairs.filter_map(move |pair| pair.strip_prefix(name)?.strip_prefix('='))
}

pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|list| list.to_str().ok());
    let mut codings = lists.flat_map(|list| list.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && weight.replace(' ', "") != "q=0"
    })
}

/// Compresses the body if it is large and the client accepts gzip. Large bodies take a while: call this on a
/// blocking thread, not on the session's loop.
pub(super) fn compressed(content_type: &'static str, body: Vec<u8>, accepts_gzip: bool) -> Answer {
    let is_large = body.len() >= COMPRESSED_FROM;
    let small = match accepts_gzip && is_large {
        true => gzip(&body).ok(),
        false => None,
    };
    let is_compressed = small.is_some();
    let mut answer = with_type(content_type, small.unwrap_or(body).into());
    let headers = answer.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}
