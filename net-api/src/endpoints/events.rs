//! `/events`: the events of the master, as they are fired.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Uri};

use crate::accept::check_takes_events;
use crate::api::Api;
use crate::error::ApiError;
use crate::events::{EventStream, parse_id};
use crate::login::Login;

/// The header with the id of the event that a client had last.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Begins a stream of events.
pub(super) async fn stream(
    State(api): State<Arc<Api>>,
    Login(token): Login,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    check_takes_events(&headers)?;
    // A token in a URL ends in the logs of proxies and the history of browsers.
    if uri.query().is_some() {
        return Err(ApiError::BadRequest(
            "/events takes no parameters: send the token as X-Auth-Token or as a cookie".to_owned(),
        ));
    }
    let after = match headers.get(LAST_EVENT) {
        None => None,
        Some(id) => {
            let id = id.to_str().ok().and_then(parse_id);
            let refused =
                || ApiError::BadRequest("Last-Event-ID is not the id of an event".to_owned());
            Some(id.ok_or_else(refused)?)
        }
    };
    let client = api.master.acting(token, None).await?;
    let place = api.event_streams.take(client.own_name().await?)?;
    let stream = EventStream::begin(client, after, api.events_context.clock, place).await?;
    let (body, task) = stream.into_body();
    api.events_context.spawn(task);
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would hold events back.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    Ok(response)
}
