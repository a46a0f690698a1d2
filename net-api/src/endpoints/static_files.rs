//! `/static`: the files of the application.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use saline_jailed_files::InnerPath;

use super::path_part::PathPart;
use crate::api::Api;
use crate::error::ApiError;

/// The largest file that is served, in bytes.
const MAX_FILE: usize = 16 * 1024 * 1024;

/// The kinds of files that applications are made of, by the ends of their names.
const KINDS: [(&str, &str); 14] = [
    ("css", "text/css; charset=utf-8"),
    ("gif", "image/gif"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("md", "text/plain; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
];

/// Serves a file.
pub(super) async fn file(
    State(api): State<Arc<Api>>,
    PathPart(file): PathPart,
) -> Result<Response, ApiError> {
    let root = api.files.root.clone().ok_or_else(absent)?;
    let inner = InnerPath::parse(&file).map_err(|_| absent())?;
    let read = move || root.read(&inner, MAX_FILE);
    match api.context.spawn_blocking(read).await {
        Ok(Ok(bytes)) => Ok(served(&file, bytes)),
        Ok(Err(error)) => {
            tracing::debug!("a static file is not served: {error}");
            Err(absent())
        }
        Err(_) => Err(absent()),
    }
}

pub(super) fn served(name: &str, bytes: Vec<u8>) -> Response {
    let extension = FilePath::new(name).extension();
    let extension = extension.and_then(|extension| extension.to_str());
    let kind = KINDS.iter().find(|(known, _)| Some(*known) == extension);
    let kind = kind.map_or("application/octet-stream", |(_, kind)| kind);
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(super) fn absent() -> ApiError {
    ApiError::NotFound("there is no such file".to_owned())
}
