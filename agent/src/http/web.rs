//! The live page. It is drawn at most once a second, and only if a browser requests it.

use std::{
    fmt::Display,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::BodyExt;
use hyper::{
    HeaderMap, Request, StatusCode,
    body::Bytes,
    header::{CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, SET_COOKIE},
};
use page::{PageError, PageModel, PageSection};
use profile::error::ErrorText;
use tokio::sync::{Mutex, Semaphore, watch};

use super::{
    Connection, Newest, Published, Token,
    answer::{Answer, HTML, accepts_gzip, compressed, fields, text_with, with_type},
    events::Events,
    marks::{LiveMark, MarkHistory},
};

/// Minimum time between two drawings of the page.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// Maximum number of streams of events.
const STREAMS_MAX: usize = 8;

/// Maximum time that the end of a session waits for browsers to take the last values.
const END_MAX: Duration = Duration::from_secs(2);

/// The paths. Style, script and health need no token: they reveal only that a session exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Page,
    Model,
    Events,
    Style,
    Script,
    Health,
}

/// All paths; requests for others get 404.
pub(super) const ROUTES: [(&str, Route); 6] = [
    ("/", Route::Page),
    ("/api/page", Route::Model),
    ("/api/events", Route::Events),
    ("/page.css", Route::Style),
    ("/page.js", Route::Script),
    ("/healthz", Route::Health),
];

impl Route {
    fn of(path: &str) -> Option<Route> {
        ROUTES.iter().find(|(of, _)| *of == path).map(|(_, route)| *route)
    }

    fn needs_token(self) -> bool {
        matches!(self, Route::Page | Route::Model | Route::Events)
    }
}

/// Serves the page of a session.
#[derive(Debug)]
pub(crate) struct Web {
    newest: Newest,
    token: Token,
    cookie: String,
    /// Distinguishes drawings of this session from those of the next session at the same address.
    session: String,
    drawn: Mutex<Arc<Drawn>>,
    marks: watch::Sender<MarkHistory>,
    streams: Arc<Semaphore>,
}

/// Numbers of the newest drawing and of the newest mark that a client has; 0 if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) drawing: u64,
    pub(super) marks: u64,
}

/// A drawing of the page.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) number: u64,
    of: Published,
    at: Option<Instant>,
    pub(super) page: PageModel,
    /// Each section with the number of the drawing in which it last changed.
    sections: Vec<(u64, PageSection)>,
}

/// The reason why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum DrawError {
    #[error("the page could not be drawn")]
    Page(#[from] PageError),
    #[error("the thread that draws the page failed")]
    Thread(#[from] tokio::task::JoinError),
    #[error("the page could not be written")]
    Json(#[from] serde_json::Error),
}

impl Drawn {
    fn next(&self, of: Published, at: Instant) -> Result<Drawn, PageError> {
        let number = self.number + 1;
        let page = page::page(&of.snapshot);
        let sections = page::sections(&page)?.into_iter().map(|section| {
            let mut old = self.sections.iter().filter(|(_, old)| *old == section);
            (old.next().map_or(number, |(changed, _)| *changed), section)
        });
        Ok(Drawn {
            number,
            sections: sections.collect(),
            page,
            of,
            at: Some(at),
        })
    }

    /// The sections that changed after the drawing `since`.
    pub(super) fn news(&self, since: u64) -> impl Iterator<Item = &PageSection> {
        let news = self.sections.iter().filter(move |(changed, _)| *changed > since);
        news.map(|(_, section)| section)
    }

    pub(super) fn is_last(&self) -> bool {
        self.of.is_last
    }

    fn sections(&self) -> Vec<PageSection> {
        self.news(0).cloned().collect()
    }
}

impl Web {
    pub(crate) fn new(newest: Newest, token: Token, port: u16) -> Arc<Web> {
        Arc::new(Web {
            newest,
            cookie: format!("tuneagent-{port}"),
            session: format!("{:x}", job::monotonic_ns()),
            token,
            drawn: Mutex::default(),
            marks: watch::Sender::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        })
    }

    /// Whether a browser follows the page.
    pub(crate) fn is_followed(&self) -> bool {
        self.streams.available_permits() < STREAMS_MAX
    }

    /// Waits until all browsers that follow the page have its last values, or until [`END_MAX`] is over.
    pub(crate) async fn end(&self) {
        let all = self.streams.acquire_many(STREAMS_MAX as u32);
        let _ = tokio::time::timeout(END_MAX, all).await;
    }

    pub(super) fn newest(&self) -> Newest {
        self.newest.clone()
    }

    /// Sends a mark to all browsers that follow the page.
    pub(crate) fn mark(&self, mark: LiveMark) {
        self.marks.send_modify(|history| history.push(mark));
    }

    pub(super) fn marks(&self) -> watch::Receiver<MarkHistory> {
        self.marks.subscribe()
    }

    /// The id by which clients say what they have.
    pub(super) fn name(&self, known: Known) -> String {
        format!("{}-{}-{}", self.session, known.drawing, known.marks)
    }

    /// What a client with this id has: nothing if it is of another session.
    fn known(&self, name: &str) -> Option<Known> {
        let numbers = name.strip_prefix(&self.session)?.strip_prefix('-')?;
        let (drawing, marks) = numbers.split_once('-')?;
        Some(Known {
            drawing: drawing.parse().ok()?,
            marks: marks.parse().ok()?,
        })
    }

    /// Draws the page if there is a new snapshot, and returns the newest drawing, which can be a second old.
    pub(super) async fn draw(&self) -> Result<Arc<Drawn>, DrawError> {
        let mut drawn = self.drawn.lock().await;
        let newest = self.newest.borrow().clone();
        let is_new = drawn.of.is_last != newest.is_last || !Arc::ptr_eq(&drawn.of.snapshot, &newest.snapshot);
        let is_due = drawn.at.is_none_or(|at| at.elapsed() >= PERIOD) || newest.is_last;
        if is_new && is_due {
            let old = Arc::clone(&drawn);
            // Drawing a page of thousands of ranks takes a while, and must not block the session's loop.
            let next = tokio::task::spawn_blocking(move || old.next(newest, Instant::now()));
            *drawn = Arc::new(next.await??);
        }
        Ok(Arc::clone(&drawn))
    }

    pub(super) async fn answer<B>(
        self: &Arc<Self>,
        request: &Request<B>,
        connection: &Arc<Connection>,
    ) -> Answer {
        let Some(route) = Route::of(request.uri().path()) else {
            return text_with(StatusCode::NOT_FOUND, "there are / and /api/page\n");
        };
        let (query, headers) = (request.uri().query(), request.headers());
        if route.needs_token() && !self.token.is_in(query, headers, &self.cookie) {
            let text = "this page needs the complete address that tuneagent printed, with ?t=\n";
            return text_with(StatusCode::UNAUTHORIZED, text);
        }
        let answer = match route {
            Route::Page => self.page(query, headers).await,
            Route::Model => self.model(headers).await,
            Route::Events => Ok(self.events(query, headers, connection)),
            Route::Style => Ok(asset("text/css; charset=utf-8", page::STYLE)),
            Route::Script => Ok(asset("text/javascript; charset=utf-8", page::SCRIPT)),
            Route::Health => Ok(text_with(StatusCode::OK, "ok\n")),
        };
        answer.unwrap_or_else(|error| {
            let text = format!("{}\n", ErrorText::new(error));
            text_with(StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }

    async fn page(&self, query: Option<&str>, headers: &HeaderMap) -> Result<Answer, DrawError> {
        let drawn = self.draw().await?;
        let known = Known {
            drawing: drawn.number,
            marks: self.marks.borrow().newest(),
        };
        let (name, accepts) = (self.name(known), accepts_gzip(headers));
        let answer = tokio::task::spawn_blocking(move || {
            let text = page::live(&drawn.page, &drawn.sections(), &name);
            compressed(HTML, text.into_bytes(), accepts)
        });
        let mut answer = answer.await?;
        if self.token.is_in_query(query)
            && let Some(cookie) = self.token.cookie(&self.cookie)
        {
            answer.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(answer)
    }

    async fn model(&self, headers: &HeaderMap) -> Result<Answer, DrawError> {
        let drawn = self.draw().await?;
        let tag = format!("\"{}-{}\"", self.session, drawn.number);
        let is_known = headers
            .get(IF_NONE_MATCH)
            .is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let mut answer = match is_known {
            true => {
                let mut answer = with_type(JSON, Bytes::new());
                *answer.status_mut() = StatusCode::NOT_MODIFIED;
                answer
            }
            false => {
                let accepts = accepts_gzip(headers);
                let answer = tokio::task::spawn_blocking(move || {
                    serde_json::to_vec(&drawn.page).map(|text| compressed(JSON, text, accepts))
                });
                answer.await??
            }
        };
        insert(&mut answer, ETAG, tag);
        Ok(answer)
    }

    /// Answers with a stream of the changes after the drawing that the client has.
    fn events(
        self: &Arc<Self>,
        query: Option<&str>,
        headers: &HeaderMap,
        connection: &Arc<Connection>,
    ) -> Answer {
        let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
            let text = format!("{STREAMS_MAX} browsers follow this session already; close one of them\n");
            return text_with(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        connection.becomes_stream(place);
        let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
        let since = fields(query, "since").next();
        let since = last.or(since).and_then(|name| self.known(name));
        let accepts = accepts_gzip(headers);
        let events = Events::after(
            since.unwrap_or_default(),
            Arc::clone(self),
            Arc::clone(connection),
            accepts,
        );
        let mut answer = with_type("text/event-stream", Bytes::new());
        *answer.body_mut() = events.boxed_unsync();
        if accepts {
            let coding = HeaderValue::from_static("gzip");
            answer.headers_mut().insert(CONTENT_ENCODING, coding);
        }
        answer
    }
}

const JSON: &str = "application/json";

/// Answers with a text that is part of the program. Browsers may store it, but must revalidate it, because
/// another version of the program may have another text.
fn asset(content_type: &'static str, text: &'static str) -> Answer {
    let mut answer = with_type(content_type, Bytes::from_static(text.as_bytes()));
    answer
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

fn insert(answer: &mut Answer, name: HeaderName, value: impl Display) {
    if let Ok(value) = HeaderValue::try_from(value.to_string()) {
        answer.headers_mut().insert(name, value);
    }
}
