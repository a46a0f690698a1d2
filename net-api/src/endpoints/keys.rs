//! `/keys`: the keys of minions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use saline_client::data::Value;
use saline_client::messages::{NetapiClient, RunKind};

use super::path_part::PathPart;
use crate::api::Api;
use crate::clients::run_returned;
use crate::error::ApiError;
use crate::format::Format;
use crate::login::Login;

/// Lists the keys by their states.
pub(super) async fn all(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
) -> Result<Response, ApiError> {
    let client = api.master.acting(token, Some(NetapiClient::Wheel)).await?;
    let keys = run_returned(&client, RunKind::Wheel, "key.list_all", Vec::new()).await?;
    Ok(format.answer(Value::map([("return", keys)])))
}

/// Returns the fingerprints of the keys of one minion, or of those that a glob matches.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    PathPart(id): PathPart,
) -> Result<Response, ApiError> {
    let client = api.master.acting(token, Some(NetapiClient::Wheel)).await?;
    let named = vec![("match".to_owned(), Value::from(id))];
    let fingers = run_returned(&client, RunKind::Wheel, "key.finger", named).await?;
    Ok(format.answer(Value::map([("return", fingers)])))
}
