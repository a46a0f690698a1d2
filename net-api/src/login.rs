//! How a request proves that its sender is logged in: by a token in a header, or in the cookie that a browser sends by itself.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::Response;
use hyper::header::{COOKIE, HeaderValue, ORIGIN, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use saline_client::messages::LoginToken;
use saline_config::CorsOrigins;

use crate::api::Api;
use crate::client_places::ClientPlace;
use crate::cors;
use crate::credential_headers::TOKEN_HEADER;
use crate::error::ApiError;
use crate::forwarded::OwnOrigin;

/// The cookie with the token.
const COOKIE_NAME: &str = "session_id";

/// The token that a request came with, which the master says to be valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Login(pub(crate) LoginToken);

/// Settled before the body is read.
impl FromRequestParts<Arc<Api>> for Login {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let Ok(own) = OwnOrigin::from_request_parts(parts, api).await;
        let token = of_request(&parts.method, &parts.headers, &own);
        let token = token.ok_or_else(ApiError::no_login)?;
        api.master.check(token).await?;
        if let Some(connection) = parts.extensions.get::<Arc<ClientPlace>>() {
            connection.keep();
        }
        Ok(Self(token))
    }
}

/// Returns the token of a request. A header goes before a cookie, also when what it holds is no token. By a cookie alone only
/// pages of our own may change something: a browser sends it whoever made the page.
fn of_request(method: &Method, headers: &HeaderMap, own: &OwnOrigin) -> Option<LoginToken> {
    if let Some(given) = headers.get(TOKEN_HEADER) {
        return parse(given.to_str().ok()?);
    }
    let token = parse(cookie(headers)?)?;
    let reads = [Method::GET, Method::HEAD].contains(method);
    let is_own = || headers.get(ORIGIN).is_some_and(|origin| own.is(origin));
    (reads || is_own()).then_some(token)
}

/// Reads a token: 64 hexadecimal digits, and nothing else.
pub(crate) fn parse(text: &str) -> Option<LoginToken> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut token = [0; 32];
    for (byte, pair) in token.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(LoginToken(token))
}

/// Writes a token as [`parse`] reads it.
pub(crate) fn write(token: LoginToken) -> String {
    let pairs = token.0.iter().map(|byte| format!("{byte:02x}"));
    pairs.collect()
}

/// Returns what the cookie holds.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).into_iter();
    let cookies = lines.filter_map(|line| line.to_str().ok());
    let mut cookies = cookies.flat_map(|line| line.split(';'));
    cookies.find_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

/// Who may log in by a request, as far as a browser says whose page sends it: programs, pages of our own, and those of the origins
/// that may use the API. Otherwise any page could log a browser in with an account of its own, and read what is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoginOrigin {
    /// Whether the token comes back in a cookie too, which pages of our own alone can use.
    pub(crate) takes_cookie: bool,
}

impl LoginOrigin {
    fn of_request(
        headers: &HeaderMap,
        own: &OwnOrigin,
        allowed: &CorsOrigins,
    ) -> Result<Self, ApiError> {
        let takes_cookie = match headers.get(ORIGIN) {
            None => true,
            Some(origin) if own.is(origin) => true,
            Some(origin) if cors::is_allowed(allowed, origin) => false,
            Some(_) => {
                return Err(ApiError::Unauthorized(
                    "the page that logs in is not of the API's origin, and cors_origin does not name it; a proxy before the API \
                     has to be in trusted_proxies, and to send X-Forwarded-Proto and X-Forwarded-Host, with the port"
                        .to_owned(),
                ));
            }
        };
        Ok(Self { takes_cookie })
    }
}

impl FromRequestParts<Arc<Api>> for LoginOrigin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let Ok(own) = OwnOrigin::from_request_parts(parts, api).await;
        Self::of_request(&parts.headers, &own, &api.cors_origin)
    }
}

/// Has the browser keep the token for so many seconds. Scripts cannot read it, and pages of others do not have it sent.
pub(crate) fn set_cookie(response: &mut Response, token: &str, seconds: u64, own: &OwnOrigin) {
    let secure = if own.is_https() { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
    );
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Has the browser forget the token.
pub(crate) fn clear_cookie(response: &mut Response, own: &OwnOrigin) {
    set_cookie(response, "", 0, own);
}

#[cfg(test)]
mod tests {
    use hyper::header::{HOST, HeaderName};
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

    fn headers(entries: &[(HeaderName, &str)]) -> HeaderMap {
        let entries = entries.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).unwrap();
            (name.clone(), value)
        });
        entries.collect()
    }

    /// Returns the origin of an API that serves TLS and has no proxy.
    fn own(entries: &[(HeaderName, &str)]) -> OwnOrigin {
        OwnOrigin::new(true, false, &headers(entries))
    }

    #[test]
    fn a_page_of_another_origin_does_not_log_a_browser_in() {
        let listed = CorsOrigins::Listed(vec!["https://ops.example".to_owned()]);
        let takes_cookie = |allowed: &CorsOrigins, origin: &str| {
            let entries = [(HOST, "api.example"), (ORIGIN, origin)];
            let origin = LoginOrigin::of_request(&headers(&entries), &own(&entries), allowed);
            origin.ok().map(|origin| origin.takes_cookie)
        };
        assert_eq!(takes_cookie(&listed, "https://api.example"), Some(true));
        assert_eq!(takes_cookie(&listed, "https://ops.example"), Some(false));
        for origin in ["https://evil.example", "http://api.example", "null", ""] {
            assert_eq!(takes_cookie(&listed, origin), None, "{origin}");
        }
        assert_eq!(
            takes_cookie(&CorsOrigins::All, "https://evil.example"),
            Some(false)
        );
        let program = [(HOST, "api.example")];
        let program = LoginOrigin::of_request(&headers(&program), &own(&program), &listed);
        assert!(program.unwrap().takes_cookie);
    }

    #[test]
    fn a_token_is_64_hexadecimal_digits() {
        let token = parse(TOKEN).unwrap();
        assert_eq!(write(token), TOKEN.to_ascii_lowercase());
        for text in [
            "",
            "00",
            &TOKEN[1..],
            &format!("{TOKEN}0"),
            &TOKEN.replace("00", "0x"),
            &TOKEN.replace("00", "+0"),
            "../../../../../../../../etc/passwd",
            &format!("../{}", &TOKEN[3..]),
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_cookie_changes_something_for_pages_of_our_own_alone() {
        let cookie = format!("other=1; session_id={TOKEN}");
        let get = |entries: &[(HeaderName, &str)]| {
            of_request(&Method::GET, &headers(entries), &own(entries)).is_some()
        };
        let post = |entries: &[(HeaderName, &str)]| {
            of_request(&Method::POST, &headers(entries), &own(entries)).is_some()
        };
        let host = (HOST, "api.example.org:8000");
        assert!(get(&[(COOKIE, &cookie)]));
        assert!(!post(&[(COOKIE, &cookie)]));
        assert!(!post(&[(COOKIE, &cookie), host.clone()]));
        for (origin, is_ours) in [
            ("https://api.example.org:8000", true),
            ("https://API.example.org:8000", true),
            ("http://api.example.org:8000", false),
            ("https://api.example.org", false),
            ("https://evil.example.org", false),
            ("https://evil.example.org/api.example.org:8000", false),
            ("null", false),
        ] {
            let sent = post(&[(COOKIE, &cookie), host.clone(), (ORIGIN, origin)]);
            assert_eq!(sent, is_ours, "{origin}");
        }
        // Who can set the header knows the token.
        assert!(post(&[(TOKEN_HEADER, TOKEN)]));
        assert!(!get(&[(TOKEN_HEADER, "bogus"), (COOKIE, &cookie)]));
    }

    proptest! {
        #[test]
        fn every_header_is_read_or_refused(cookie in "[ -~]{0,200}", origin in "[ -~]{0,80}") {
            let entries = [(COOKIE, &*cookie), (ORIGIN, &origin), (HOST, "h")];
            let (headers, own) = (headers(&entries), own(&entries));
            let _ = of_request(&Method::POST, &headers, &own);
            let _ = LoginOrigin::of_request(&headers, &own, &CorsOrigins::Listed(Vec::new()));
        }
    }
}
