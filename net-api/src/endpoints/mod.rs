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
mod path_part;
mod root;
mod run;
mod static_files;
mod stats;
mod targets;
mod token;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::sensitive_headers::SetSensitiveHeadersLayer;

use crate::api::Api;
use crate::cors;
use crate::credential_headers::SENSITIVE_HEADERS;
use crate::deadline;
use crate::error::ApiError;
use crate::request_log;

/// Returns the paths of the API with what answers them.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let hook = post(hook::fire);
    let mut router = Router::new()
        .route("/", get(root::welcome).post(root::run))
        .route(&format!("{}/{{*tag}}", api.hook_path), hook.clone());
    for (path, answering) in [
        ("/login", get(login::ask).post(login::log_in)),
        ("/logout", post(logout::log_out)),
        ("/token", post(token::make)),
        ("/run", post(run::run)),
        ("/minions", get(minions::all).post(minions::begin)),
        ("/minions/{id}", get(minions::one)),
        ("/jobs", get(jobs::all)),
        ("/jobs/{jid}", get(jobs::one)),
        ("/keys", get(keys::all)),
        ("/keys/{id}", get(keys::one)),
        ("/events", get(events::stream)),
        (&api.hook_path, hook),
        ("/targets", get(targets::matching)),
        ("/stats", get(stats::stats)),
        ("/metrics", get(metrics::metrics)),
        ("/healthz", get(health::is_alive)),
        ("/readyz", get(health::is_ready)),
    ] {
        // As Salt's, with a slash behind it too. A layer of tower-http would also cut that of a hook's tag.
        router = router
            .route(&format!("{path}/"), answering.clone())
            .route(path, answering);
    }
    if let Some(path) = api.files.static_path() {
        router = router.route(&format!("{path}/{{*file}}"), get(static_files::file));
    }
    let routes = router
        .fallback(async || ApiError::NotFound("this API does not have the path".to_owned()))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed);
    layered(routes, api)
}

/// Puts round every route, and round what answers where there is none, what is done about every request.
///
/// Ids, the log, the deadline, and the bound of bodies are our own. tower-http takes an id from anybody where ours takes it from trusted
/// proxies alone, logs no request whose client went, has one time limit for every path, and answers in a form of its own.
pub(crate) fn layered(routes: Router<Arc<Api>>, api: Arc<Api>) -> Router {
    let routes = routes
        .layer(from_fn_with_state(Arc::clone(&api), app::serve_pages))
        .layer(from_fn(deadline::bound))
        .layer(CatchPanicLayer::custom(panicked));
    let routes = match cors::layer(&api.cors_origin) {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes
        .layer(from_fn_with_state(Arc::clone(&api), request_log::log))
        .layer(SetSensitiveHeadersLayer::new(SENSITIVE_HEADERS))
        .with_state(api)
}

/// Answers a request whose endpoint panicked. The panic itself is told where every panic is.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    let error = "the API failed at this request; the log of saline-api says more";
    ApiError::Failed(error.to_owned()).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use saline_config::RestCherrypyConfig;
    use tower_service::Service as _;

    use super::*;

    async fn fails() -> &'static str {
        panic!("as is meant here")
    }

    #[tokio::test]
    async fn a_panic_ends_one_request_with_an_answer() {
        let api = Api::without_master(&RestCherrypyConfig::on_port(0));
        let routes = Router::new().route("/logout", get(fails));
        let mut router = layered(routes, api);
        let request = Request::get("/logout").body(Body::empty());
        let answer = router.call(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), 500);
        assert!(answer.headers().contains_key(request_log::REQUEST_ID));
    }
}
