//! Read-only HTTP: /metrics and /healthz. Nothing can be changed through it.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{Router, extract::State, http::StatusCode, routing::get};

use crate::{metrics, snapshot::Snapshot};

/// The newest snapshot, written by the session and read by scrapes.
pub type Shared = Arc<Mutex<Snapshot>>;

/// Serves until the session ends.
pub async fn serve(listener: tokio::net::TcpListener, shared: Shared) -> std::io::Result<()> {
    axum::serve(listener, router(shared)).await
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
