//! `/minions`: the facts of minions, and jobs that are begun.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use hyper::{HeaderMap, StatusCode};
use saline_client::data::Value;
use saline_client::messages::LoginToken;

use super::path_part::PathPart;
use crate::api::Api;
use crate::clients;
use crate::deadline::each_in_time;
use crate::error::ApiError;
use crate::format::Format;
use crate::login::Login;
use crate::lowstate::{self, Chunk};
use crate::whole_body::WholeBody;

/// Returns the grains of every minion.
pub(super) async fn all(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
) -> Result<Response, ApiError> {
    grains(&api, format, token, "*", "glob").await
}

/// Returns the grains of one minion, or of those that a glob matches.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    PathPart(id): PathPart,
) -> Result<Response, ApiError> {
    grains(&api, format, token, &id, "glob").await
}

async fn grains(
    api: &Api,
    format: Format,
    token: LoginToken,
    target: &str,
    kind: &str,
) -> Result<Response, ApiError> {
    let entries = [
        ("client", "local"),
        ("tgt", target),
        ("tgt_type", kind),
        ("fun", "grains.items"),
    ];
    let entries = entries.map(|(name, value)| (name.to_owned(), Value::from(value)));
    let chunks = [Chunk::new(entries.to_vec())?];
    let returned = each_in_time(&chunks, |chunk| clients::carry_out(api, token, chunk)).await?;
    Ok(format.returned(returned))
}

/// Begins the jobs of the body, and says where their returns will be.
pub(super) async fn begin(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let chunks = lowstate::chunks(lowstate::parsed(&headers, &body)?)?;
    let chunks = chunks.into_iter().map(asynchronous);
    let chunks: Vec<Chunk> = chunks.collect::<Result<_, ApiError>>()?;
    lowstate::check_calls(&chunks)?;
    let begun = each_in_time(&chunks, |chunk| clients::carry_out(&api, token, chunk)).await?;
    let jids = begun.iter().filter_map(|job| job.get("jid")?.as_str());
    let links = jids.map(|jid| Value::map([("href", Value::from(format!("/jobs/{jid}")))]));
    let links = links.collect();
    let mut response = format.answer(Value::map([
        ("return", Value::List(begun)),
        ("_links", Value::map([("jobs", Value::List(links))])),
    ]));
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// Returns the chunk as one of `local_async`, which it may name and no other.
fn asynchronous(chunk: Chunk) -> Result<Chunk, ApiError> {
    let client = chunk.text("client")?.unwrap_or("local_async");
    if client != "local_async" {
        return Err(ApiError::BadRequest(
            "/minions begins jobs with the client local_async alone; others are asked at /"
                .to_owned(),
        ));
    }
    let entries = chunk.entries().iter().filter(|(name, _)| name != "client");
    let named = ("client".to_owned(), Value::from(client));
    Chunk::new(entries.cloned().chain([named]).collect())
}
