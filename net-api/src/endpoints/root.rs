//! `/`: the clients, and what they are asked for.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use hyper::HeaderMap;
use saline_client::data::Value;
use saline_client::messages::NetapiClient;

use crate::api::Api;
use crate::clients;
use crate::deadline::each_in_time;
use crate::error::ApiError;
use crate::format::Format;
use crate::login::Login;
use crate::lowstate;
use crate::whole_body::WholeBody;

/// Names the clients.
pub(super) async fn welcome(format: Format) -> Response {
    let clients = NetapiClient::ALL.map(NetapiClient::name);
    format.answer(Value::map([
        ("return", Value::from("Welcome")),
        ("clients", Value::texts(clients)),
    ]))
}

/// Carries out the chunks of the body, one after the other.
pub(super) async fn run(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let chunks = lowstate::chunks(lowstate::parsed(&headers, &body)?)?;
    lowstate::check_calls(&chunks)?;
    let returned = each_in_time(&chunks, |chunk| clients::carry_out(&api, token, chunk)).await?;
    Ok(format.returned(returned))
}
