//! Connections of clients of a session: at most a number at a time, and none of them outlives the service.

use std::{
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{sync::Semaphore, task::JoinSet};

/// Wait after a failed accept, mostly because too many files are open. The client has to wait, too.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Accepts connections, and handles at most `most` at a time. Dropping the future closes all of them.
pub(crate) async fn serve_each<S, C>(
    most: usize,
    accept: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>>,
    converse: impl Fn(S) -> C,
) where
    C: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        match poll_fn(&accept).await {
            Ok(stream) => {
                let conversation = converse(stream);
                connections.spawn(async move {
                    conversation.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted, retrying");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}
