//! Streams of events to browsers (Server-Sent Events): what changed on the page, once a second.

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

use super::{
    Connection, Newest,
    web::{DrawError, Drawn, PERIOD, Web},
};

/// An event, and where its client is then; `None` if the stream ends.
type NextEvent = Pin<Box<dyn Future<Output = Option<(Bytes, Follower)>> + Send>>;

/// The body of a stream. It makes an event when the client has taken the one before: a client that is behind
/// misses nothing, and gets what is new at the time when it reads.
pub(super) struct Events {
    connection: Arc<Connection>,
    next: NextEvent,
}

impl Events {
    /// What is new after the drawing `since`, until the client leaves or the session ends.
    pub(super) fn after(
        since: u64,
        web: Arc<Web>,
        connection: Arc<Connection>,
        accepts_gzip: bool,
    ) -> Events {
        let follower = Follower {
            newest: web.newest(),
            web,
            since,
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

/// Where a client is.
struct Follower {
    web: Arc<Web>,
    newest: Newest,
    /// The drawing that it has.
    since: u64,
    is_over: bool,
    /// Compresses all events of the stream; none if the client does not accept it.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Follower {
    async fn first(mut self) -> Option<(Bytes, Follower)> {
        let event = self.news().await?;
        Some((event, self))
    }

    async fn next(mut self) -> Option<(Bytes, Follower)> {
        if self.is_over || !self.waits().await {
            return None;
        }
        self.first().await
    }

    /// The event with what is new; `None` if it cannot be drawn.
    async fn news(&mut self) -> Option<Bytes> {
        self.newest.mark_unchanged();
        let drawn = self.web.draw().await.ok()?;
        let event = event(&self.web, Arc::clone(&drawn), self.since).await.ok()?;
        (self.since, self.is_over) = (drawn.number, drawn.is_last());
        self.compressed(event).await
    }

    /// The event as it is sent, so that the client can read all of it at once.
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

    /// Waits for the end of the session, or for something new, a second at least; false if nothing comes any
    /// more.
    async fn waits(&mut self) -> bool {
        let mut last = self.newest.clone();
        let is_over = last.wait_for(|published| published.is_last);
        let is_new = async {
            tokio::time::sleep(PERIOD).await;
            self.newest.changed().await
        };
        tokio::select! {
            over = is_over => over.is_ok(),
            new = is_new => new.is_ok(),
        }
    }
}

/// The data of an event: what is new.
#[derive(Serialize)]
struct PageUpdate<'a> {
    /// The wall clock, in seconds since 1970.
    unix_s: f64,
    /// The sections that changed, as HTML.
    sections: BTreeMap<&'static str, &'a str>,
    /// The page as one file, when the session is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

async fn event(web: &Arc<Web>, drawn: Arc<Drawn>, since: u64) -> Result<Bytes, DrawError> {
    let id = web.name(drawn.number);
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
