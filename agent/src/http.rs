//! Read-only HTTP: /metrics and /healthz. Nothing can be changed through it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Router, extract::State, http::StatusCode, routing::get};

use crate::{metrics, snapshot::Snapshot};

/// The newest snapshot, written by the session and read by scrapes.
pub type Shared = Arc<Mutex<Snapshot>>;

/// Serves until the session ends.
pub async fn serve(listener: tokio::net::TcpListener, shared: Shared) -> std::io::Result<()> {
    axum::serve(listener, router(shared)).await
}

/// Opens the port. Done before the right to write is dropped and before anything is attached, so that a port in use is
/// told at once.
pub fn bind(address: SocketAddr) -> std::io::Result<tokio::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(shared)
}

async fn scrape(State(shared): State<Shared>) -> Result<String, (StatusCode, String)> {
    let snapshot = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
    metrics::render(&snapshot).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
