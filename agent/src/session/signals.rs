//! What ends a session from outside: Ctrl-C, SIGTERM and SIGHUP, all alike.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for any of them.
pub(super) struct Signals {
    /// Ctrl-C is for somebody else.
    beside: bool,
    signals: [(Signal, &'static str); 3],
}

impl Signals {
    /// Takes the signals over; a session beside the command that it watches leaves Ctrl-C to it. Must run
    /// inside the runtime.
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

    /// The name of the next one.
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
