//! The time within which every request is answered, whatever the master does.

use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use saline_protocol::transport::Clock;

use crate::error::ApiError;
use crate::limits::{ANSWER_TIMEOUT, REQUEST_TIMEOUT};

/// Has the request answered in time. A stream of events has its deadline for its beginning alone.
pub(crate) async fn bound(request: Request, next: Next) -> Response {
    let limit = limit(request.uri().path());
    let answered = next.run(request);
    match Clock.deadline(Clock.after(limit), answered).await {
        Ok(response) => response,
        Err(_) => ApiError::TimedOut(format!(
            "the answer takes longer than {} s; a job or run that was begun goes on, and its jid is in /jobs; chunks after it were not \
             begun",
            limit.as_secs()
        ))
        .into_response(),
    }
}

/// Returns how long the answer to a request for this path may take: longer where it waits for the returns of minions.
fn limit(path: &str) -> Duration {
    let waits = matches!(path, "/" | "/run" | "/minions") || path.starts_with("/minions/");
    match waits {
        true => ANSWER_TIMEOUT,
        false => REQUEST_TIMEOUT,
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use saline_config::RestCherrypyConfig;
    use tower_service::Service as _;

    use super::*;
    use crate::api::Api;
    use crate::endpoints::layered;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_takes_too_long_is_answered_all_the_same() {
        let api = Api::without_master(&RestCherrypyConfig::on_port(0));
        let routes = Router::new()
            .route("/", get(std::future::pending::<()>))
            .route("/run", get(std::future::pending::<()>))
            .route("/logout", get(std::future::pending::<()>))
            .fallback(std::future::pending::<()>)
            .method_not_allowed_fallback(std::future::pending::<()>);
        let mut router = layered(routes, api);
        for (method, path, limit) in [
            ("GET", "/", ANSWER_TIMEOUT),
            ("GET", "/run", ANSWER_TIMEOUT),
            ("GET", "/logout", REQUEST_TIMEOUT),
            ("GET", "/nothing", REQUEST_TIMEOUT),
            ("DELETE", "/logout", REQUEST_TIMEOUT),
        ] {
            let request = Request::builder().method(method).uri(path);
            let began = Clock.now();
            let answer = router.call(request.body(Body::empty()).unwrap());
            let answer = Clock
                .deadline(Clock.after(2 * ANSWER_TIMEOUT), answer)
                .await;
            assert_eq!(answer.unwrap().unwrap().status(), 504, "{method} {path}");
            assert_eq!((Clock.now() - began).as_secs(), limit.as_secs(), "{path}");
        }
    }
}
