//! `/token`: a token for a program, without a cookie.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use hyper::HeaderMap;
use saline_client::data::Value;

use super::login::of_body;
use crate::api::Api;
use crate::error::ApiError;
use crate::format::Format;
use crate::forwarded::ClientSource;
use crate::whole_body::WholeBody;

/// Logs a user in. Returns the login in a bare list, as Salt does here.
pub(super) async fn make(
    State(api): State<Arc<Api>>,
    format: Format,
    source: ClientSource,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let login = of_body(&api, source, &headers, &body).await?;
    let response = format.answer(Value::List(vec![login.to_value()]));
    login.keep();
    Ok(response)
}
