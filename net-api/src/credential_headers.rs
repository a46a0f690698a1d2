//! The headers that prove who sent a request.

use hyper::header::{AUTHORIZATION, COOKIE, HeaderName, SET_COOKIE};

/// The header with the token.
pub(crate) const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-auth-token");

/// The headers that prove who sent a request or who may send one. They are marked as sensitive in each request and answer, and so are
/// in no event and in no text for the log.
pub(crate) const SENSITIVE_HEADERS: [HeaderName; 4] =
    [TOKEN_HEADER, COOKIE, AUTHORIZATION, SET_COOKIE];
