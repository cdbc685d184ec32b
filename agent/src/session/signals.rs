//! What ends a session from outside: Ctrl-C, SIGTERM and SIGHUP, all alike.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for any of them.
pub struct Signals {
    signals: [(Signal, &'static str); 3],
}

impl Signals {
    /// Takes the signals over. Must run inside the runtime.
    pub fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            signals: [
                (signal(SignalKind::interrupt())?, "Ctrl-C"),
                (signal(SignalKind::terminate())?, "SIGTERM"),
                (signal(SignalKind::hangup())?, "SIGHUP"),
            ],
        })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        let [(interrupt, first), (terminate, second), (hangup, third)] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => first,
            _ = terminate.recv() => second,
            _ = hangup.recv() => third,
        }
    }
}
