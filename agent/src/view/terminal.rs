//! Shows a session: as the live view on a terminal that can be taken over, else as lines that follow one another.

use std::io::{self, Write};

use super::live::{Live, Wish, can_be_taken};
use crate::snapshot::Snapshot;

/// Where a session is shown.
pub struct Painter {
    can_be_live: bool,
    /// On standard error: standard output is somebody else's.
    is_beside: bool,
    live: Option<Live>,
}

impl Painter {
    /// Lines, if `plain` was asked for or there is no terminal.
    pub fn new(plain: bool) -> Painter {
        Painter {
            can_be_live: !plain && can_be_taken(),
            is_beside: false,
            live: None,
        }
    }

    /// Lines on standard error, beside a command that has the terminal.
    pub fn beside() -> Painter {
        Painter {
            can_be_live: false,
            is_beside: true,
            live: None,
        }
    }

    /// Takes the terminal over, if there is one; false means lines.
    pub fn begin(&mut self, snapshot: Snapshot) -> bool {
        if self.can_be_live {
            self.live = Live::begin(snapshot)
                .inspect_err(
                    |error| tracing::warn!(%error, "the terminal cannot be taken over: lines instead"),
                )
                .ok();
        }
        self.live.is_some()
    }

    /// Gives the terminal back; what was said meanwhile is printed.
    pub fn end(&mut self) {
        self.live = None;
    }

    /// Whether the live view is up.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// A line that stays.
    pub fn say(&mut self, line: &str) {
        match &mut self.live {
            Some(live) => live.say(line.to_owned()),
            None if self.is_beside => write(&mut io::stderr().lock(), line),
            None => write(&mut io::stdout().lock(), line),
        }
    }

    /// Shows a new state on the live view; nothing elsewhere.
    pub fn show(&mut self, snapshot: Snapshot) {
        if self.live.as_ref().is_some_and(Live::is_over) {
            self.end();
        }
        if let Some(live) = &mut self.live {
            live.show(snapshot);
        }
    }

    /// What the keys ask that were pressed.
    pub fn take_keys(&mut self) -> Vec<Wish> {
        self.live.as_mut().map(Live::take_keys).unwrap_or_default()
    }

    /// What came of the last wish.
    pub fn answer(&mut self, answer: String) {
        if let Some(live) = &mut self.live {
            live.answer(answer);
        }
    }
}

/// A reader that went away (`| head`) is no reason to stop watching.
fn write(out: &mut impl Write, line: &str) {
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
