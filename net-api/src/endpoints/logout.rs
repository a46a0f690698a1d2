//! `/logout`: ends a login.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use saline_client::data::Value;

use crate::api::Api;
use crate::error::ApiError;
use crate::format::Format;
use crate::forwarded::OwnOrigin;
use crate::login::{Login, clear_cookie};

/// Ends the login of the request.
pub(super) async fn log_out(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    own: OwnOrigin,
) -> Result<Response, ApiError> {
    api.master.client().await?.log_out(token).await?;
    let said = Value::from("Your token has been cleared");
    let mut response = format.answer(Value::map([("return", said)]));
    clear_cookie(&mut response, &own);
    Ok(response)
}
