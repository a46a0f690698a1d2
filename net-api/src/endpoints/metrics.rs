//! `/metrics`: what the API counts, for Prometheus.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use saline_daemon::Metrics;
use saline_protocol::transport::Counters;

use crate::api::Api;
use crate::error::ApiError;
use crate::login::Login;

/// Returns the metrics. Prometheus logs in as every other client, and sends its token in a header.
pub(super) async fn metrics(State(api): State<Arc<Api>>, _: Login) -> Result<Response, ApiError> {
    let mut metrics = Metrics::of_this_process("saline-api", &Counters::new());
    metrics.counters(
        "saline_api_answers",
        "Answers of the API, by the class of their status.",
        "status",
        api.counted.statuses(),
    );
    metrics.durations(
        "saline_api_answer_seconds",
        "How long answers took; a stream of events counts until it begins.",
        api.counted.durations.measured(),
    );
    metrics.gauge(
        "saline_api_event_streams",
        "Clients that listen to events.",
        api.streams(),
    );
    let mut response = Response::new(Body::from(metrics.into_text()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
