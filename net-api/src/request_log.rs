//! A line in the log for each request, with an id that the client gets too.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use saline_client::data::printable::escape_line;
use saline_client::messages::random;
use saline_client::transport::{Clock, Instant};

use crate::api::Api;
use crate::forwarded::{client_address, is_by_proxy};

/// The header with the id of a request. A trusted proxy in front of the API may set it.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Has the request answered, counts it and logs it. A request whose client goes before it is answered has a line too.
pub(crate) async fn log(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let mut line = RequestLine::of(&api, &request);
    let mut response = next.run(request).await;
    let (status, taken) = (response.status(), Clock.now() - line.began);
    api.counted.add(status.as_u16());
    api.counted.durations.add(taken);
    line.write(status.as_str());
    if let Ok(id) = HeaderValue::from_str(&line.id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The line of a request in the log, which is written when it is dropped at the latest.
struct RequestLine {
    from: String,
    method: Method,
    path: String,
    id: String,
    began: Instant,
    is_written: bool,
}

impl RequestLine {
    fn of(api: &Api, request: &Request) -> Self {
        let (extensions, headers) = (request.extensions(), request.headers());
        let from = client_address(&api.trusted_proxies, extensions, headers);
        Self {
            from: from.map_or_else(String::new, |from| from.to_string()),
            method: request.method().clone(),
            path: redacted(request.uri().path(), request.uri().query().is_some()),
            id: request_id(headers, is_by_proxy(&api.trusted_proxies, extensions)),
            began: Clock.now(),
            is_written: false,
        }
    }

    fn write(&mut self, end: &str) {
        self.is_written = true;
        let Self {
            from,
            method,
            path,
            id,
            ..
        } = self;
        let taken = (Clock.now() - self.began).as_millis();
        tracing::info!("{from} {method} {path}: {end} in {taken} ms, request {id}");
    }
}

impl Drop for RequestLine {
    fn drop(&mut self) {
        if !self.is_written {
            self.write("unanswered, since the client went or the API stopped,");
        }
    }
}

/// Returns the id that a trusted proxy gave a request, if it is one, or a new one.
fn request_id(headers: &HeaderMap, by_proxy: bool) -> String {
    let given = headers.get(REQUEST_ID).filter(|_| by_proxy);
    let given = given.and_then(|id| id.to_str().ok());
    let is_id = |id: &&str| {
        (1..=64).contains(&id.len())
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    match given.filter(is_id) {
        Some(given) => given.to_owned(),
        None => {
            let bytes = random::bytes::<8>().unwrap_or_default();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

/// Returns a path as it may stand in a log: what could be a token is hidden, and a query is left out as a whole.
fn redacted(path: &str, has_query: bool) -> String {
    let segments = path.split('/').map(|segment| {
        let digits = segment.bytes().filter(u8::is_ascii_hexdigit).count();
        if digits >= 32 { "…" } else { segment }
    });
    let path = segments.collect::<Vec<&str>>().join("/");
    let path: String = path.chars().take(256).collect();
    let query = if has_query { "?…" } else { "" };
    format!("{}{query}", escape_line(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_proxies_alone_give_requests_their_ids() {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_static("of-the-proxy"));
        assert_eq!(request_id(&headers, true), "of-the-proxy");
        assert_ne!(request_id(&headers, false), "of-the-proxy");
        headers.insert(REQUEST_ID, HeaderValue::from_static("no id\tat all"));
        assert_eq!(request_id(&headers, true).len(), 16);
    }

    #[test]
    fn no_token_stands_in_the_log() {
        let token = "ab".repeat(32);
        let shown = redacted(&format!("/hook/{token}/x"), true);
        assert_eq!(shown, "/hook/…/x?…");
        assert_eq!(
            redacted("/jobs/20261121091409931549", false),
            "/jobs/20261121091409931549"
        );
        assert!(!redacted("/a\u{1b}[31m", false).contains('\u{1b}'));
    }
}
