//! `/keys`: the keys of minions.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use saline_data::Value;
use saline_messages::NetapiClient;

use crate::answers::Format;
use crate::api::Api;
use crate::clients::{finger, list_all_keys};
use crate::error::ApiError;
use crate::login::Login;

/// Lists the keys by their states.
pub(super) async fn all(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
) -> Result<Response, ApiError> {
    let client = api.master.acting(token, Some(NetapiClient::Wheel)).await?;
    let keys = list_all_keys(&client).await?;
    Ok(format.answer(Value::map([("return", keys)])))
}

/// Returns the fingerprints of the keys of one minion.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let client = api.master.acting(token, Some(NetapiClient::Wheel)).await?;
    let fingers = finger(&client, &id).await?;
    Ok(format.answer(Value::map([("return", fingers)])))
}
