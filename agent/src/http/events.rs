//! Streams of Server-Sent Events to browsers: the changed sections of the page, at most once a second, and each
//! mark at once.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io::Write,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use flate2::{Compression, write::GzEncoder};
use http_body::{Body, Frame};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::{sync::watch, time::Instant};

use super::{
    Connection, Newest,
    marks::MarkHistory,
    web::{DrawError, Drawn, Known, PERIOD, Web},
};

/// The next event and the state of its client after it; `None` at the end of the stream.
type NextEvent = Pin<Box<dyn Future<Output = Option<(Bytes, Follower)>> + Send>>;

/// The body of a stream. It makes an event only after the client has taken the previous one. So a slow client
/// misses no section, and each event has the newest state instead of a queue of old ones.
pub(super) struct Events {
    connection: Arc<Connection>,
    next: NextEvent,
}

impl Events {
    /// Streams what is new to a client that has `known`, until the client disconnects or the session ends.
    pub(super) fn after(
        known: Known,
        web: Arc<Web>,
        connection: Arc<Connection>,
        accepts_gzip: bool,
    ) -> Events {
        let follower = Follower {
            newest: web.newest(),
            marks: web.marks(),
            web,
            known,
            drawn_at: Instant::now(),
            is_over: false,
            encoder: accepts_gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast())),
        };
        Events {
            connection,
            next: Box::pin(follower.first()),
        }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.connection.has_read();
        let Some((event, follower)) = ready!(self.next.as_mut().poll(context)) else {
            return Poll::Ready(None);
        };
        self.next = Box::pin(follower.next());
        self.connection.has_written();
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}

/// The state of a client.
struct Follower {
    web: Arc<Web>,
    newest: Newest,
    marks: watch::Receiver<MarkHistory>,
    known: Known,
    /// When the last drawing was sent.
    drawn_at: Instant,
    is_over: bool,
    /// Compresses the events as one stream; `None` if the client does not accept gzip.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Follower {
    async fn first(mut self) -> Option<(Bytes, Follower)> {
        let event = self.news().await?;
        Some((event, self))
    }

    async fn next(mut self) -> Option<(Bytes, Follower)> {
        if self.is_over {
            return None;
        }
        if self.waits().await? == News::Drawing {
            return self.first().await;
        }
        let event = self.new_marks()?;
        let event = self.compressed(event).await?;
        Some((event, self))
    }

    /// Makes the next event of a drawing; `None` if the page cannot be drawn.
    async fn news(&mut self) -> Option<Bytes> {
        self.newest.mark_unchanged();
        let drawn = self.web.draw().await.ok()?;
        let since = self.known.drawing;
        (self.known.drawing, self.is_over) = (drawn.number, drawn.is_last());
        self.drawn_at = Instant::now();
        let id = self.web.name(self.known);
        let event = event(id, drawn, since).await.ok()?;
        self.compressed(event).await
    }

    /// The event of the marks that the client does not have; `None` if there are none.
    fn new_marks(&mut self) -> Option<Bytes> {
        let new = self.marks.borrow_and_update().after(self.known.marks)?;
        self.known.marks = new.newest;
        let (id, data) = (self.web.name(self.known), serde_json::to_string(&new).ok()?);
        Some(format!("id: {id}\nevent: mark\ndata: {data}\n\n").into())
    }

    /// Compresses an event and flushes the encoder, so that the client can read the event without the next
    /// one.
    async fn compressed(&mut self, event: Bytes) -> Option<Bytes> {
        let Some(mut encoder) = self.encoder.take() else {
            return Some(event);
        };
        let is_over = self.is_over;
        let compressing = tokio::task::spawn_blocking(move || {
            encoder.write_all(&event)?;
            match is_over {
                true => encoder.try_finish()?,
                false => encoder.flush()?,
            }
            let sent = std::mem::take(encoder.get_mut());
            std::io::Result::Ok((sent, encoder))
        });
        let (sent, encoder) = compressing.await.ok()?.ok()?;
        self.encoder = Some(encoder);
        Some(sent.into())
    }

    /// Waits for a mark, for the end of the session, or until a second has passed since the last drawing and there
    /// is a new snapshot. `None` if the session is gone.
    async fn waits(&mut self) -> Option<News> {
        let mut last = self.newest.clone();
        let (known, due) = (self.known.marks, self.drawn_at + PERIOD);
        let is_over = last.wait_for(|published| published.is_last);
        let is_marked = self.marks.wait_for(|history| history.newest() > known);
        let is_new = async {
            tokio::time::sleep_until(due).await;
            self.newest.changed().await
        };
        tokio::select! {
            biased;
            marked = is_marked => marked.is_ok().then_some(News::Marks),
            over = is_over => over.is_ok().then_some(News::Drawing),
            new = is_new => new.is_ok().then_some(News::Drawing),
        }
    }
}

/// What a client does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Marks,
    Drawing,
}

/// The data of an event.
#[derive(Serialize)]
struct PageUpdate<'a> {
    /// Wall-clock time in seconds since 1970.
    unix_s: f64,
    /// HTML of the changed sections, by id.
    sections: BTreeMap<&'static str, &'a str>,
    /// The page as one file; only in the last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

async fn event(id: String, drawn: Arc<Drawn>, since: u64) -> Result<Bytes, DrawError> {
    let made = tokio::task::spawn_blocking(move || -> Result<String, DrawError> {
        let is_last = drawn.is_last();
        let news = PageUpdate {
            unix_s: job::unix_s(),
            sections: drawn
                .news(since)
                .map(|section| (section.id, section.html.as_str()))
                .collect(),
            file: is_last.then(|| page::file(&drawn.page)).transpose()?,
        };
        let name = if is_last { "end" } else { "tick" };
        Ok(format!(
            "id: {id}\nevent: {name}\ndata: {}\n\n",
            serde_json::to_string(&news)?
        ))
    });
    Ok(made.await??.into())
}
