//! Signals that end a session: Ctrl-C, SIGTERM and SIGHUP, all with the same effect.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for any of the signals.
pub(super) struct Signals {
    /// Ignore Ctrl-C, which is for the command.
    beside: bool,
    signals: [(Signal, &'static str); 3],
}

impl Signals {
    /// Takes over the signals. A session that watches a command leaves Ctrl-C to it. Must be called inside
    /// the tokio runtime.
    pub(super) fn new(beside: bool) -> std::io::Result<Signals> {
        Ok(Signals {
            beside,
            signals: [
                (signal(SignalKind::interrupt())?, "Ctrl-C"),
                (signal(SignalKind::terminate())?, "SIGTERM"),
                (signal(SignalKind::hangup())?, "SIGHUP"),
            ],
        })
    }

    /// The name of the next signal.
    pub(super) async fn next(&mut self) -> &'static str {
        let [(interrupt, first), (terminate, second), (hangup, third)] = &mut self.signals;
        loop {
            tokio::select! {
                _ = interrupt.recv() => if !self.beside { return first },
                _ = terminate.recv() => return second,
                _ = hangup.recv() => return third,
            }
        }
    }
}
