//! Which pages of other origins may use the API: none, unless `cors_origin` names them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, StatusCode};
use saline_config::CorsOrigins;

use crate::api::Api;

/// Answers the question of a browser whether a page may send a request, and says so in every answer. Cookies are never for
/// pages of others: such a page sends its token itself.
pub(crate) async fn allow(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN);
    let Some(origin) = origin.and_then(|origin| allowed(&api.cors_origin, origin)) else {
        return next.run(request).await;
    };
    let is_question = request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match is_question {
        true => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    if is_question {
        let methods = HeaderValue::from_static("GET, POST");
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        let names = HeaderValue::from_static("Accept, Content-Type, X-Auth-Token");
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    let exposed = HeaderValue::from_static("X-Auth-Token, X-Request-Id");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}

/// Returns the value of the header that lets pages of this origin in; none when they are not let in.
pub(crate) fn allowed(origins: &CorsOrigins, origin: &HeaderValue) -> Option<HeaderValue> {
    match origins {
        CorsOrigins::All => Some(HeaderValue::from_static("*")),
        CorsOrigins::Listed(listed) => {
            let is_listed = listed
                .iter()
                .any(|listed| listed.as_bytes() == origin.as_bytes());
            is_listed.then(|| origin.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_listed_origins_are_let_in() {
        let origin = HeaderValue::from_static("https://ops.example");
        let other = HeaderValue::from_static("https://ops.example.evil");
        let listed = CorsOrigins::Listed(vec!["https://ops.example".to_owned()]);
        assert_eq!(allowed(&listed, &origin), Some(origin.clone()));
        assert_eq!(allowed(&listed, &other), None);
        assert_eq!(allowed(&CorsOrigins::Listed(Vec::new()), &origin), None);
        assert_eq!(allowed(&CorsOrigins::All, &other).unwrap(), "*");
    }
}
