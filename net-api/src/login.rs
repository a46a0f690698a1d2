//! How a request proves that its sender is logged in: by a token in a header, or in the cookie that a browser sends by itself.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::Response;
use hyper::header::{COOKIE, HOST, HeaderName, HeaderValue, ORIGIN, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use saline_messages::LoginToken;

use crate::api::Api;
use crate::error::ApiError;

/// The header with the token.
pub(crate) const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-auth-token");

/// The cookie with the token.
const COOKIE_NAME: &str = "session_id";

/// The token that a request came with, which the master says to be valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Login(pub(crate) LoginToken);

/// Settled before the body is read.
impl FromRequestParts<Arc<Api>> for Login {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let token = of_request(&parts.method, &parts.headers);
        let token = token.ok_or_else(ApiError::no_login)?;
        api.master.check(token).await?;
        Ok(Self(token))
    }
}

/// Returns the token of a request. A header goes before a cookie, also when what it holds is no token. By a cookie alone only
/// pages of our own may change something: a browser sends it whoever made the page.
fn of_request(method: &Method, headers: &HeaderMap) -> Option<LoginToken> {
    if let Some(given) = headers.get(TOKEN_HEADER) {
        return parse(given.to_str().ok()?);
    }
    let token = parse(cookie(headers)?)?;
    let reads = [Method::GET, Method::HEAD].contains(method);
    (reads || is_own_origin(headers)).then_some(token)
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

/// Whether a page of this API sends the request: its origin has the host that the request is for.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(origin), Some(host)) = (text(ORIGIN), text(HOST)) else {
        return false;
    };
    let authority = origin
        .strip_prefix("https://")
        .or_else(|| origin.strip_prefix("http://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Has the browser keep the token for so many seconds. Scripts cannot read it, and pages of others do not have it sent.
pub(crate) fn set_cookie(response: &mut Response, token: &str, seconds: u64, over_tls: bool) {
    let secure = if over_tls { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
    );
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Has the browser forget the token.
pub(crate) fn clear_cookie(response: &mut Response, over_tls: bool) {
    set_cookie(response, "", 0, over_tls);
}

#[cfg(test)]
mod tests {
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
        let get =
            |entries: &[(HeaderName, &str)]| of_request(&Method::GET, &headers(entries)).is_some();
        let post =
            |entries: &[(HeaderName, &str)]| of_request(&Method::POST, &headers(entries)).is_some();
        let host = (HOST, "api.example.org:8000");
        assert!(get(&[(COOKIE, &cookie)]));
        assert!(!post(&[(COOKIE, &cookie)]));
        assert!(!post(&[(COOKIE, &cookie), host.clone()]));
        for (origin, is_ours) in [
            ("https://api.example.org:8000", true),
            ("https://API.example.org:8000", true),
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
            let headers = headers(&[(COOKIE, &cookie), (ORIGIN, &origin), (HOST, "h")]);
            let _ = of_request(&Method::POST, &headers);
        }
    }
}
