//! /metrics of a contract that is watched, served by a thread of its own, which can only look.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use profile::streams::WatchedWindow;
use tokio::sync::watch;

use crate::{
    exit::Failure,
    http::{self, ServedPages},
    rights,
};

/// An address that is taken, and does not answer yet.
pub(super) struct MetricsAddress(TcpListener);

/// What is served: the last window.
pub(super) struct Metrics {
    newest: watch::Sender<Option<Arc<WatchedWindow>>>,
}

impl MetricsAddress {
    pub(super) fn bind(address: SocketAddr) -> Result<MetricsAddress, Failure> {
        let listener = http::bind("/metrics", "--metrics", address).map_err(Failure::invalid)?;
        Ok(MetricsAddress(listener))
    }

    /// Serves until the process ends. A process that can only look gave its rights up before, in all threads at once:
    /// that fails if one of them has fewer than the others.
    pub(super) fn serve(self, can_only_look: bool) -> Result<Metrics, Failure> {
        let (newest, windows) = watch::channel(None);
        let serving = move || {
            let given_up = match can_only_look {
                true => Ok(()),
                false => rights::only_look_in_this_thread(),
            };
            let served = given_up.map_err(io::Error::other).and_then(|()| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                let listener = {
                    let _entered = runtime.enter();
                    tokio::net::TcpListener::from_std(self.0)?
                };
                runtime.block_on(http::serve(listener, ServedPages::Contract(windows), Vec::new()))
            });
            if let Err(error) = served {
                warn!("/metrics is not served: {error}");
            }
        };
        // Not joined: it serves until the process ends, and has nothing to finish.
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        thread.spawn(serving).map_err(Failure::failed)?;
        Ok(Metrics { newest })
    }
}

impl Metrics {
    pub(super) fn publish(&self, window: WatchedWindow) {
        self.newest.send_replace(Some(Arc::new(window)));
    }
}
