//! Read-only HTTP: /metrics and /healthz. Nothing can be changed through it.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};

use crate::{metrics, snapshot::Snapshot};

/// The text format that /metrics speaks, as Prometheus wants it named.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The newest snapshot, written by the session and read by scrapes.
pub type Shared = Arc<Mutex<Arc<Snapshot>>>;

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

async fn scrape(State(shared): State<Shared>) -> Result<impl IntoResponse, (StatusCode, String)> {
    let snapshot = Arc::clone(&shared.lock().unwrap_or_else(PoisonError::into_inner));
    let failed = |error: &dyn std::fmt::Display| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    // A page of thousands of ranks takes a while, and the session's loop is to go on meanwhile.
    let page = tokio::task::spawn_blocking(move || metrics::render(&snapshot));
    let text = page
        .await
        .map_err(|error| failed(&error))?
        .map_err(|error| failed(&error))?;
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text))
}
