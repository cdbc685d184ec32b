//! All output of a session, to the terminal, to scrapes and to files, and when each is due.

use std::{fmt::Display, net::SocketAddr, sync::Arc, time::Duration};

use job::{Namer, monotonic_ns};
use profile::Snapshot;
use report::Trace;
use report::view::{self, Input, Keys, Painter, UserRequest};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use super::{Options, Outputs, budget::TICK, views::Views};
use crate::{
    exit::Failure,
    http::{self, LiveMark, Published, ServedPages, Token, Web},
    rulebook::Time,
};

/// Interval of plain lines after those of the first second. The live view is redrawn at most at every second
/// tick.
const PLAIN_PERIOD: Duration = Duration::from_secs(10);

/// When numbers were shown on the terminal.
#[derive(Clone, Copy, Debug)]
struct LastShown {
    last: Time,
    /// Whether any numbers were shown.
    has_any: bool,
}

impl LastShown {
    fn is_due(self, is_live: bool, now: Time) -> bool {
        let period = match (is_live, self.has_any) {
            (true, _) | (false, false) => 2 * TICK,
            (false, true) => PLAIN_PERIOD,
        };
        // Ticks may be late by some milliseconds.
        let since = now.0.saturating_sub(self.last.0) + TICK.as_nanos() as u64 / 2;
        since >= period.as_nanos() as u64
    }
}

/// The terminal, /metrics and files.
pub(super) struct Screen {
    painter: Painter,
    outputs: Outputs,
    /// The newest snapshot for scrapes and browsers; `None` without a server.
    published: Option<watch::Sender<Published>>,
    web: Option<Arc<Web>>,
    /// The servers of `published`, which end with the screen.
    serving: JoinSet<std::io::Result<()>>,
    /// A command uses the terminal, and prints there.
    is_beside: bool,
    shown: LastShown,
    /// Names call sites when they are shown.
    pub(super) namer: Namer,
}

impl Screen {
    /// If a command prints to the same terminal, numbers are shown only at its end.
    pub(super) fn new(
        options: &Options,
        has_command: bool,
        outputs: Outputs,
        is_beside: bool,
        now: Time,
    ) -> Screen {
        let painter = match has_command || options.is_node || outputs.report_is_stdout() {
            true => Painter::beside(),
            false if options.plain => Painter::lines(),
            false => Painter::live(),
        };
        Screen {
            painter,
            published: None,
            web: None,
            serving: JoinSet::new(),
            outputs,
            is_beside,
            shown: LastShown {
                last: now,
                has_any: false,
            },
            namer: Namer::default(),
        }
    }

    /// Prints a permanent line.
    pub(super) fn say(&mut self, line: &(impl Display + ?Sized)) {
        self.painter.say(&line.to_string());
    }

    /// Prints a line with the time of day (UTC, as in the journal).
    pub(super) fn say_when(&mut self, line: &(impl Display + ?Sized)) {
        let now = tuner::now().wall;
        // RFC 3339: the time is between T and the fraction.
        let time_of_day = now.split(['T', '.']).nth(1).unwrap_or(&now);
        self.say(&format_args!("{time_of_day}  {line}"));
    }

    pub(super) fn trace(&mut self) -> Option<&mut Trace> {
        self.outputs.trace.as_mut()
    }

    /// The interval at which snapshots are written to a file.
    pub(super) fn series_period(&self) -> Option<Duration> {
        self.outputs.every()
    }

    pub(super) fn add_to_series(&mut self, views: &Views<'_>) {
        self.outputs.add(&views.snapshot());
    }

    /// Serves /metrics and the page, prints the greeting, and takes over the terminal. Must be called inside the
    /// tokio runtime.
    pub(super) fn begin(&mut self, views: &Views<'_>, now: Time) -> Result<Option<Keys>, Failure> {
        let page = self.serve(views).map_err(Failure::failed)?;
        self.greet(views, now);
        page.iter().for_each(|line| self.say(line));
        Ok(self.begin_live(views))
    }

    /// Serves what is requested: the first scrape may come before the first tick. Returns the line that names
    /// the page.
    fn serve(&mut self, views: &Views<'_>) -> std::io::Result<Option<String>> {
        let (metrics, page) = (self.outputs.metrics.take(), self.outputs.web.take());
        if metrics.is_none() && page.is_none() {
            return Ok(None);
        }
        let (sender, newest) = watch::channel(published(views.snapshot(), false));
        self.published = Some(sender);
        if let Some(listener) = metrics {
            let listener = TcpListener::from_std(listener)?;
            self.serving.spawn(http::serve(
                listener,
                ServedPages::Metrics(newest.clone()),
                Vec::new(),
            ));
        }
        let Some(address) = page else { return Ok(None) };
        let (token, listener) = (Token::new()?, TcpListener::from_std(address.listener)?);
        let bound = listener.local_addr()?;
        let line = page_line(bound, &views.start.host, token.text());
        let web = Web::new(newest, token, bound.port());
        self.serving.spawn(http::serve(
            listener,
            ServedPages::Page(Arc::clone(&web)),
            address.names,
        ));
        self.web = Some(web);
        Ok(Some(line))
    }

    /// A rule found, changed or judged something, `at` after the probes were armed: for the trace and for browsers.
    pub(super) fn mark(&mut self, kind: &'static str, rule: &str, text: &str, at: Duration) {
        if let Some(trace) = self.trace() {
            trace.mark(kind, rule, text, monotonic_ns());
        }
        if let Some(web) = &self.web {
            web.mark(LiveMark {
                at_s: at.as_secs_f64(),
                kind,
                rule: rule.to_owned(),
                text: text.to_owned(),
            });
        }
    }

    /// Gives browsers the last values. What they show stays readable without us.
    pub(super) async fn end_page(&mut self, last: Snapshot) {
        if let (Some(sender), Some(web)) = (&self.published, &self.web)
            && web.is_followed()
        {
            sender.send_replace(published(last, true));
            web.end().await;
        }
    }

    /// Prints what is watched, what is not, and what may be written. The first numbers follow later.
    fn greet(&mut self, views: &Views<'_>, now: Time) {
        self.shown.last = now;
        let greeting = views.greeting(&views.snapshot());
        greeting.lines().iter().for_each(|line| self.say(line));
    }

    /// Takes over the terminal, if there is one, and starts reading its keys.
    fn begin_live(&mut self, views: &Views<'_>) -> Option<Keys> {
        if !self.painter.begin(views.snapshot()) {
            return None;
        }
        let keys = Keys::new().ok();
        if keys.is_none() {
            // A view that reads no keys could not be ended.
            self.painter.end();
        }
        keys
    }

    pub(super) fn end_live(&mut self) {
        self.painter.end();
    }

    pub(super) fn is_live(&self) -> bool {
        self.painter.is_live()
    }

    /// Shows the current state: always to scrapes, and to people when it is due.
    pub(super) fn show(&mut self, views: &Views<'_>, now: Time) {
        let is_due = self.shown.is_due(self.painter.is_live(), now);
        if !is_due && self.published.is_none() {
            return;
        }
        let mut snapshot = views.snapshot();
        if self.web.is_some() {
            views.add_series(&mut snapshot);
        }
        let is_followed = self.web.as_ref().is_some_and(|web| web.is_followed());
        if is_followed || is_due && self.painter.wants_call_sites() {
            views.name_call_sites(&mut self.namer, &mut snapshot.sequence);
        }
        if let Some(sender) = &self.published {
            sender.send_replace(published(snapshot.clone(), false));
        }
        if !is_due {
            return;
        }
        self.shown = LastShown {
            last: now,
            has_any: true,
        };
        self.paint(snapshot);
    }

    /// Shows the first numbers, if there are any yet. The next ones follow at their regular time, because
    /// they cover a full second.
    pub(super) fn show_first(&mut self, views: &Views<'_>) {
        let snapshot = views.snapshot();
        if says_something(&snapshot) {
            self.paint(snapshot);
        }
    }

    fn paint(&mut self, snapshot: Snapshot) {
        if self.painter.is_live() {
            self.painter.show(snapshot);
        } else if !self.is_beside {
            view::summary(&snapshot).iter().for_each(|line| self.say(line));
        }
    }

    /// The user's request, given input of the live view.
    pub(super) fn take(&mut self, input: Input) -> Option<UserRequest> {
        self.painter.take(input)
    }

    /// Shows the result of a request.
    pub(super) fn answer(&mut self, answer: String, views: &Views<'_>) {
        self.painter.show(views.snapshot());
        self.painter.answer(answer);
    }

    /// The outputs that are written at the end.
    pub(super) fn take_outputs(&mut self) -> Outputs {
        std::mem::take(&mut self.outputs)
    }
}

fn published(snapshot: Snapshot, is_last: bool) -> Published {
    Published {
        snapshot: Arc::new(snapshot),
        is_last,
    }
}

/// Where the page is, and who can read it.
fn page_line(address: SocketAddr, host: &str, token: &str) -> String {
    let port = address.port();
    match (address.ip().is_loopback(), address.ip().is_unspecified()) {
        (true, _) => format!("page: http://{address}/?t={token}"),
        (false, false) => {
            format!("page: http://{address}/?t={token} (for all who have this line and reach the address)")
        }
        (false, true) => format!(
            "page: http://{host}:{port}/?t={token} (for all who have this line and reach this machine)"
        ),
    }
}

/// The next input of the live view; `None` when nothing can be read any more. Waits for ever without a live
/// view.
pub(super) async fn next_input(keys: &mut Option<Keys>) -> Option<Input> {
    let input = match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    };
    if input.is_none() {
        *keys = None;
    }
    input
}

/// Whether the numbers of such a short time are meaningful: either some rank was in MPI, or there is no MPI,
/// and CPU use is independent of calls.
fn says_something(snapshot: &Snapshot) -> bool {
    let known = snapshot.running().filter(|process| !process.is_mpi_unknown);
    let mut rates = known.filter_map(|process| process.rates);
    rates.any(|rates| rates.mpi.is_none_or(|mpi| mpi > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{ProcessView, Rates};

    #[test]
    fn first_numbers_are_shown_where_a_rank_was_in_mpi_or_none_is_probed() {
        let of = |shares: &[Option<f64>]| {
            let process = |mpi: &Option<f64>| ProcessView {
                rates: Some(Rates {
                    mpi: *mpi,
                    ..Rates::default()
                }),
                ..ProcessView::default()
            };
            says_something(&Snapshot {
                processes: shares.iter().map(process).collect(),
                ..Snapshot::default()
            })
        };
        assert!(of(&[Some(0.0), Some(0.01)]));
        assert!(!of(&[Some(0.0), Some(0.0)]));
        assert!(of(&[None]));
        assert!(!of(&[]), "nothing was measured");
        let unknown = ProcessView {
            rates: Some(Rates::default()),
            is_mpi_unknown: true,
            ..ProcessView::default()
        };
        assert!(!says_something(&Snapshot {
            processes: vec![unknown],
            ..Snapshot::default()
        }));
    }

    #[test]
    fn people_see_the_first_second_then_every_ten_and_a_live_view_every_second() {
        let ms = |ms: u64| Time(1_000_000 * ms);
        for (is_live, has_any, after, is_due) in [
            (false, false, 700, false),
            // A tick that is slightly early counts.
            (false, false, 750, true),
            (false, false, 1000, true),
            (false, true, 1000, false),
            (false, true, 9700, false),
            (false, true, 9750, true),
            (true, false, 700, false),
            (true, true, 1000, true),
            (true, true, 500, false),
        ] {
            let last = ms(5_000);
            let shown = LastShown { last, has_any };
            let is_so = shown.is_due(is_live, ms(5_000 + after));
            assert_eq!(is_so, is_due, "live {is_live}, shown {has_any}, after {after} ms");
        }
    }
}
