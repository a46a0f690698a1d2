//! The errors that a client of the API gets, each with its status.

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use saline_client::ClientError;
use saline_client::data::Value;

use crate::format::Format;

/// The reason why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// 401: without a valid token, or without the permission.
    #[error("{0}")]
    Unauthorized(String),
    /// 400: the request is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 404
    #[error("{0}")]
    NotFound(String),
    /// 405
    #[error("this path does not know the method")]
    MethodNotAllowed,
    /// 406
    #[error("the answer can be {0}, which Accept does not admit")]
    NotAcceptable(&'static str),
    /// 408: the body did not arrive in time.
    #[error("the body did not arrive in time")]
    RequestTimeout,
    /// 413
    #[error("the request is too large: {0}")]
    TooLarge(String),
    /// 500: the master could not carry out the request.
    #[error("{0}")]
    Failed(String),
    /// 503: no master answers, or the API has too much to do.
    #[error("{0}")]
    Unavailable(String),
    /// 504: the answer takes longer than a request may.
    #[error("{0}")]
    TimedOut(String),
}

impl ApiError {
    /// Returns that a request needs a login.
    pub(crate) fn no_login() -> Self {
        Self::Unauthorized(
            "no valid token: log in at /login, and send the token as X-Auth-Token".to_owned(),
        )
    }

    /// Returns the status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable(_) => StatusCode::NOT_ACCEPTABLE,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> Self {
        let line = error.to_string();
        match error {
            ClientError::NotLoggedIn => Self::no_login(),
            ClientError::NotAllowed(_) => Self::Unauthorized(line),
            ClientError::BadTarget(_)
            | ClientError::BadTag(_)
            | ClientError::Invalid(_)
            | ClientError::RunnerRefused(_) => Self::BadRequest(line),
            ClientError::NoSuchJob(_) => Self::NotFound(line),
            ClientError::TooLarge(_) => Self::TooLarge(line),
            ClientError::Failed(_) => Self::Failed(line),
            // The rest is between the API and its master: its operator reads the log, the client learns no paths.
            _ => {
                tracing::warn!("a request could not be sent to the master: {line}");
                Self::Unavailable("no master answers; the log of saline-api says more".to_owned())
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status();
        let said = Value::map([
            ("status", Value::from(u64::from(status.as_u16()))),
            ("return", Value::from(self.to_string())),
        ]);
        let mut response = Format::Json.answer(said);
        *response.status_mut() = status;
        if status == StatusCode::UNAUTHORIZED {
            let session = HeaderValue::from_static("Session");
            response.headers_mut().insert(WWW_AUTHENTICATE, session);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_master_refuses_has_the_status_that_clients_of_salt_expect() {
        let status = |error: ClientError| ApiError::from(error).status().as_u16();
        assert_eq!(status(ClientError::NotLoggedIn), 401);
        assert_eq!(status(ClientError::NotAllowed("no rule".to_owned())), 401);
        assert_eq!(status(ClientError::BadTarget("(".to_owned())), 400);
        assert_eq!(status(ClientError::Failed("disk".to_owned())), 500);
        assert_eq!(status(ClientError::Closed), 503);
        let gone = ClientError::MasterGone {
            endpoint: "ipc:/run/saline".to_owned(),
            gone: std::time::Duration::from_secs(9),
        };
        let error = ApiError::from(gone);
        assert_eq!(error.status().as_u16(), 503);
        assert!(!error.to_string().contains("/run/"), "{error}");
    }
}
