//! What the API answers, one file for each path.

mod app;
mod console;
mod events;
mod health;
mod hook;
mod jobs;
mod keys;
mod login;
mod logout;
mod metrics;
mod minions;
mod root;
mod run;
mod static_files;
mod stats;
mod targets;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::api::Api;
use crate::cors;
use crate::deadline;
use crate::error::ApiError;
use crate::request_log;

/// Returns the paths of the API with what answers them.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let mut router = Router::new()
        .route("/", get(root::welcome).post(root::run))
        .route("/login", get(login::ask).post(login::log_in))
        .route("/logout", post(logout::log_out))
        .route("/token", post(token::make))
        .route("/run", post(run::run))
        .route("/minions", get(minions::all).post(minions::begin))
        .route("/minions/{id}", get(minions::one))
        .route("/jobs", get(jobs::all))
        .route("/jobs/{jid}", get(jobs::one))
        .route("/keys", get(keys::all))
        .route("/keys/{id}", get(keys::one))
        .route("/events", get(events::stream))
        .route(&api.hook_path, post(hook::fire))
        .route(&format!("{}/", api.hook_path), post(hook::fire))
        .route(&format!("{}/{{*tag}}", api.hook_path), post(hook::fire))
        .route("/targets", get(targets::matching))
        .route("/stats", get(stats::stats))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(health::is_alive))
        .route("/readyz", get(health::is_ready));
    if let Some(path) = api.files.static_path() {
        router = router.route(&format!("{path}/{{*file}}"), get(static_files::file));
    }
    let routes = router
        .fallback(async || ApiError::NotFound("this API does not have the path".to_owned()))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed);
    layered(routes, api)
}

/// Puts round every route, and round what answers where there is none, what is done about every request.
pub(crate) fn layered(routes: Router<Arc<Api>>, api: Arc<Api>) -> Router {
    routes
        .layer(from_fn_with_state(Arc::clone(&api), app::serve_pages))
        .layer(from_fn(deadline::bound))
        .layer(from_fn_with_state(Arc::clone(&api), cors::allow))
        .layer(from_fn_with_state(Arc::clone(&api), request_log::log))
        .with_state(api)
}
