//! `/healthz` and `/readyz`: for whoever watches the API.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use saline_client::data::Value;

use crate::api::Api;
use crate::error::ApiError;
use crate::format::Format;

/// Says that the API runs.
pub(super) async fn is_alive(format: Format) -> Response {
    answer(format)
}

/// Says that the API can carry out requests: its master answers.
pub(super) async fn is_ready(
    State(api): State<Arc<Api>>,
    format: Format,
) -> Result<Response, ApiError> {
    api.master.ping().await?;
    Ok(answer(format))
}

fn answer(format: Format) -> Response {
    format.answer(Value::map([("status", Value::from("ok"))]))
}
