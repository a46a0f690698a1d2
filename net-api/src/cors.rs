//! Which pages of other origins may use the API: none, unless `cors_origin` names them.

use std::time::Duration;

use hyper::Method;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue, ORIGIN};
use saline_config::CorsOrigins;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::credential_headers::TOKEN_HEADER;
use crate::request_log::REQUEST_ID;

/// How long a browser may remember that a page may send a request.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Returns what answers a browser that asks whether a page may send a request, and says so in every answer; none where no page of
/// another origin may. Cookies are never for pages of others: such a page sends its token itself.
pub(crate) fn layer(origins: &CorsOrigins) -> Option<CorsLayer> {
    let allowed = match origins {
        CorsOrigins::All => AllowOrigin::any(),
        CorsOrigins::Listed(listed) if listed.is_empty() => return None,
        CorsOrigins::Listed(_) => {
            let origins = origins.clone();
            AllowOrigin::predicate(move |origin, _| is_allowed(&origins, origin))
        }
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([ACCEPT, CONTENT_TYPE, TOKEN_HEADER])
        .expose_headers([TOKEN_HEADER, REQUEST_ID])
        .max_age(MAX_AGE)
        .vary([ORIGIN]);
    Some(layer)
}

/// Whether pages of this origin may use the API.
pub(crate) fn is_allowed(origins: &CorsOrigins, origin: &HeaderValue) -> bool {
    match origins {
        CorsOrigins::All => true,
        CorsOrigins::Listed(listed) => listed
            .iter()
            .any(|listed| listed.as_bytes() == origin.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use hyper::header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, VARY,
    };
    use hyper::{HeaderMap, Request};
    use tower_service::Service as _;

    use super::*;

    #[test]
    fn pages_of_the_listed_origins_are_let_in() {
        let origin = HeaderValue::from_static("https://ops.example");
        let other = HeaderValue::from_static("https://ops.example.evil");
        let listed = CorsOrigins::Listed(vec!["https://ops.example".to_owned()]);
        assert!(is_allowed(&listed, &origin));
        assert!(!is_allowed(&listed, &other));
        assert!(!is_allowed(&CorsOrigins::Listed(Vec::new()), &origin));
        assert!(is_allowed(&CorsOrigins::All, &other));
        assert!(layer(&CorsOrigins::Listed(Vec::new())).is_none());
    }

    /// Returns the head of an answer to a page of this origin.
    async fn headers(origins: &CorsOrigins, origin: &str) -> Result<HeaderMap, Infallible> {
        let routes: Router = Router::new().route("/", get(async || "answer"));
        let request = Request::get("/").header(ORIGIN, origin);
        let answer = routes
            .layer(layer(origins).unwrap())
            .call(request.body(Body::empty()).unwrap());
        Ok(answer.await?.headers().clone())
    }

    #[tokio::test]
    async fn an_answer_says_which_page_may_read_it() {
        let listed = CorsOrigins::Listed(vec!["https://ops.example".to_owned()]);
        let told = headers(&listed, "https://ops.example").await.unwrap();
        assert_eq!(told[ACCESS_CONTROL_ALLOW_ORIGIN], "https://ops.example");
        assert_eq!(
            told[ACCESS_CONTROL_EXPOSE_HEADERS],
            "x-auth-token,x-request-id"
        );
        assert_eq!(told[VARY], "origin");
        let told = headers(&listed, "https://evil.example").await.unwrap();
        assert_eq!(told.get(ACCESS_CONTROL_ALLOW_ORIGIN), None);
        let told = headers(&CorsOrigins::All, "https://evil.example")
            .await
            .unwrap();
        assert_eq!(told[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert_eq!(told.get(ACCESS_CONTROL_ALLOW_CREDENTIALS), None);
    }
}
