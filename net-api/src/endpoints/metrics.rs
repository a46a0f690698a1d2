//! `/metrics`: what the API counts, for Prometheus.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use saline_daemon::MetricsSource as _;

use crate::api::Api;
use crate::error::ApiError;
use crate::login::Login;

/// Returns the metrics. Prometheus logs in as every other client, and sends its token in a header.
pub(super) async fn metrics(State(api): State<Arc<Api>>, _: Login) -> Result<Response, ApiError> {
    let mut response = Response::new(Body::from(api.metrics().await.into_text()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
