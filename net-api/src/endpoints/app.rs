//! The application: one page, for every GET by which a browser wants one. The page names its files as they are called below the root, so
//! a browser that asks for a path below another one is sent to the path of the page.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header::LOCATION;
use hyper::{Method, StatusCode};

use super::console;
use super::static_files::{absent, served};
use crate::accept::prefers_page;
use crate::api::Api;
use crate::error::ApiError;

/// Serves the application where a page is wanted, and has everything else answered.
pub(super) async fn serve_pages(
    State(api): State<Arc<Api>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    // hyper leaves the body of an answer to HEAD out.
    let gets = [Method::GET, Method::HEAD].contains(request.method());
    if gets && let Some(file) = api.files.built_in(path).and_then(console::file) {
        return file;
    }
    let is_page = gets
        && !api.files.is_static(path)
        && (api.files.is_app(path) || prefers_page(request.headers()));
    if !is_page {
        return next.run(request).await;
    }
    match api.files.page_redirect(path) {
        Some(location) => (StatusCode::FOUND, [(LOCATION, location)]).into_response(),
        None => page(&api).await.into_response(),
    }
}

/// Returns the page of the application; the built-in one where no other is named.
///
/// # Errors
/// `NotFound` when it cannot be read.
async fn page(api: &Api) -> Result<Response, ApiError> {
    let Some(app) = api.files.app.clone() else {
        return Ok(console::page());
    };
    let read = api.context.spawn_blocking(move || std::fs::read(app)).await;
    match read {
        Ok(Ok(page)) => Ok(served("index.html", page)),
        Ok(Err(error)) => {
            tracing::warn!("the file of the option app cannot be read: {error}");
            Err(absent())
        }
        Err(_) => Err(absent()),
    }
}
