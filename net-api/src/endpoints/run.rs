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

/// What a chunk may have in the place of a token.
const CREDENTIALS: [&str; 4] = ["username", "password", "sharedkey", "eauth"];

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
        one(&api, source, connection.as_deref(), &chunks, chunk)
    })
    .await?;
    Ok(format.returned(returned))
}

/// Carries out one of the `chunks`. What they all call is checked after the credentials of the first one, and so before anything runs.
async fn one(
    api: &Arc<Api>,
    source: ClientSource,
    connection: Option<&Arc<ClientPlace>>,
    chunks: &[Chunk],
    chunk: &Chunk,
) -> Result<Vec<Value>, ApiError> {
    if let Some(token) = chunk.get("token") {
        let token = token.as_str().and_then(parse);
        let token = token.ok_or_else(ApiError::no_login)?;
        api.master.check(token).await?;
        keep(connection);
        lowstate::check_calls(chunks)?;
        return clients::carry_out(api, token, chunk).await;
    }
    if !CREDENTIALS.iter().any(|name| chunk.get(name).is_some()) {
        return Err(ApiError::Unauthorized(
            "each chunk of /run needs credentials of its own: token, or username, password and eauth; X-Auth-Token is for other paths"
                .to_owned(),
        ));
    }
    let login = with(api, source, chunk).await?;
    keep(connection);
    let done = match lowstate::check_calls(chunks) {
        Ok(()) => clients::carry_out(api, login.token, chunk).await,
        Err(error) => Err(error),
    };
    login.end().await;
    done
}

/// Has a connection on which somebody has shown a login stay.
fn keep(connection: Option<&Arc<ClientPlace>>) {
    if let Some(connection) = connection {
        connection.keep();
    }
}
