//! `/run`: as `/`, with the credentials of each chunk in it.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::response::Response;
use hyper::HeaderMap;
use saline_client::data::Value;

use super::login::with;
use crate::api::Api;
use crate::client_places::ClientPlace;
use crate::clients;
use crate::deadline::each_in_time;
use crate::error::ApiError;
use crate::format::Format;
use crate::forwarded::ClientSource;
use crate::login::parse;
use crate::lowstate::{self, Chunk};
use crate::whole_body::WholeBody;

/// Carries out the chunks of the body. Each has a token, or the name, password and way of a login that lasts for it alone.
pub(super) async fn run(
    State(api): State<Arc<Api>>,
    format: Format,
    source: ClientSource,
    connection: Option<Extension<Arc<ClientPlace>>>,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let chunks = lowstate::chunks(lowstate::parsed(&headers, &body)?)?;
    let returned = each_in_time(&chunks, |chunk| {
        one(&api, source, connection.as_deref(), chunk)
    })
    .await?;
    Ok(format.returned(returned))
}

async fn one(
    api: &Arc<Api>,
    source: ClientSource,
    connection: Option<&Arc<ClientPlace>>,
    chunk: &Chunk,
) -> Result<Vec<Value>, ApiError> {
    if let Some(token) = chunk.get("token") {
        let token = token.as_str().and_then(parse);
        let token = token.ok_or_else(ApiError::no_login)?;
        api.master.check(token).await?;
        keep(connection);
        return clients::carry_out(api, token, chunk).await;
    }
    let login = with(api, source, chunk).await?;
    keep(connection);
    let done = clients::carry_out(api, login.token, chunk).await;
    login.end().await;
    done
}

/// Has a connection on which somebody has shown a login stay.
fn keep(connection: Option<&Arc<ClientPlace>>) {
    if let Some(connection) = connection {
        connection.keep();
    }
}
