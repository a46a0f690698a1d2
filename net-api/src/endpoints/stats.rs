//! `/stats`: what the API counted since it started.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use saline_client::data::Value;

use crate::api::Api;
use crate::error::ApiError;
use crate::format::Format;
use crate::login::Login;

/// Returns the numbers of answers and of event streams.
pub(super) async fn stats(
    State(api): State<Arc<Api>>,
    format: Format,
    _: Login,
) -> Result<Response, ApiError> {
    let statuses = api.counted.statuses();
    let statuses = statuses.map(|(class, count)| (class, Value::from(count)));
    let numbers = Value::map([
        ("answers", Value::map(statuses)),
        (
            "event_streams",
            Value::from(api.event_streams.count() as u64),
        ),
    ]);
    Ok(format.answer(Value::map([("saline-api", numbers)])))
}
