//! `/targets`: which minions a target includes, before something is run on them. Saline's own.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use saline_client::data::Value;
use saline_client::messages::NetapiClient;

use crate::api::Api;
use crate::error::ApiError;
use crate::format::Format;
use crate::login::Login;
use crate::lowstate;

/// Returns the ids of the minions that `tgt` and `tgt_type` of the query include, as far as the master knows.
pub(super) async fn matching(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let query = lowstate::form(query.unwrap_or_default().as_bytes())?;
    let target = lowstate::chunks(query)?
        .first()
        .ok_or_else(|| ApiError::BadRequest("tgt is missing: the minions, such as *".to_owned()))?
        .target()?;
    let client = api
        .master
        .acting(token, Some(NetapiClient::LocalAsync))
        .await?;
    let matches = client.match_target(target, false).await?;
    let minions = Value::texts(matches.minions.iter().map(|id| id.as_str()));
    Ok(format.returned(vec![minions]))
}
