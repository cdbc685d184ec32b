//! /metrics of a contract that is watched, served by a thread of its own, which can only look.

use std::{io, net::SocketAddr, sync::Arc};

use profile::streams::WatchedWindow;
use tokio::{net::TcpListener, sync::watch};

use crate::{
    exit::Failure,
    http::{self, ServedPages},
    rights,
};

/// What is served: the last window.
pub(super) struct Metrics {
    newest: watch::Sender<Option<Arc<WatchedWindow>>>,
}

impl Metrics {
    /// Serves until the process ends.
    pub(super) fn serve(address: SocketAddr) -> Result<Metrics, Failure> {
        let listener = http::bind(("/metrics", "--metrics"), address).map_err(Failure::not_there)?;
        let (newest, windows) = watch::channel(None);
        let serving = move || {
            let served = rights::only_look_in_this_thread()
                .map_err(io::Error::other)
                .and_then(|()| {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()?;
                    let listener = {
                        let _entered = runtime.enter();
                        TcpListener::from_std(listener)?
                    };
                    runtime.block_on(http::serve(listener, ServedPages::Contract(windows), Vec::new()))
                });
            if let Err(error) = served {
                warn!("/metrics is not served: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        thread.spawn(serving).map_err(Failure::no)?;
        Ok(Metrics { newest })
    }

    pub(super) fn publish(&self, window: WatchedWindow) {
        self.newest.send_replace(Some(Arc::new(window)));
    }
}
