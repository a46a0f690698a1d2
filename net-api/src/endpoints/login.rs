//! `/login`: a user's name and password for a token.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use saline_data::Value;
use saline_messages::{
    LoggedIn, LoginReply, LoginRequest, LoginToken, MAX_LOGIN_TEXT, Password, random,
};
use saline_protocol::transport::Clock;

use crate::answers::Format;
use crate::api::Api;
use crate::error::ApiError;
use crate::limits::{LOGIN_TIMEOUT, WholeBody};
use crate::login::{TOKEN_HEADER, set_cookie, write};
use crate::lowstate::{self, Chunk};

/// A login that succeeded.
pub(super) struct UserLogin {
    pub(super) token: LoginToken,
    user: String,
    eauth: String,
    logged_in: LoggedIn,
}

/// Tells that one logs in with POST.
pub(super) async fn ask(format: Format) -> Response {
    format.answer(&Value::map([
        ("status", Value::Null),
        ("return", Value::from("Please log in")),
    ]))
}

/// Logs a user in. The token comes back in the body, in a header, and in a cookie.
pub(super) async fn log_in(
    State(api): State<Arc<Api>>,
    format: Format,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let login = of_body(&api, &headers, &body).await?;
    let token = write(login.token);
    let seconds = login.logged_in.expire.saturating_sub(login.logged_in.start) / 1_000;
    let mut response = format.answer(&Value::map([(
        "return",
        Value::List(vec![login.to_value()]),
    )]));
    if let Ok(token) = HeaderValue::from_str(&token) {
        response.headers_mut().insert(TOKEN_HEADER, token);
    }
    set_cookie(&mut response, &token, seconds, api.over_tls);
    Ok(response)
}

impl UserLogin {
    /// Returns the login as Salt shows it.
    pub(super) fn to_value(&self) -> Value {
        let seconds = |milliseconds: u64| Value::Float(milliseconds as f64 / 1_000.0);
        Value::map([
            ("token", Value::from(write(self.token))),
            ("start", seconds(self.logged_in.start)),
            ("expire", seconds(self.logged_in.expire)),
            ("user", Value::from(self.user.as_str())),
            ("eauth", Value::from(self.eauth.as_str())),
            ("perms", self.logged_in.permissions.unpack_or_show()),
        ])
    }
}

/// Logs in with the credentials of a body.
pub(super) async fn of_body(
    api: &Api,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<UserLogin, ApiError> {
    let Value::Map(entries) = lowstate::map(lowstate::parsed(headers, body)?)? else {
        return Err(refused());
    };
    with(api, &Chunk::new(entries)?).await
}

/// Logs in with the credentials of a chunk.
pub(super) async fn with(api: &Api, chunk: &Chunk) -> Result<UserLogin, ApiError> {
    let text = |name| {
        let text = chunk
            .text(name)?
            .filter(|text| text.len() <= MAX_LOGIN_TEXT);
        Ok::<_, ApiError>(text.map(str::to_owned))
    };
    let password = match text("password")? {
        None => text("sharedkey")?,
        password => password,
    };
    let (Some(user), Some(eauth), Some(password)) = (text("username")?, text("eauth")?, password)
    else {
        return Err(refused());
    };
    let token = random::bytes().map(LoginToken);
    let token = token.map_err(|_| ApiError::Failed("the system has no randomness".to_owned()))?;
    let request = LoginRequest {
        user: user.clone(),
        password: Password::new(password),
        eauth: eauth.clone(),
        token,
    };
    let _place = api.logins.try_acquire().map_err(|_| {
        ApiError::Unavailable("too many logins are under way: try again".to_owned())
    })?;
    let client = api.master.client().await?;
    let asked = Clock.deadline(Clock.after(LOGIN_TIMEOUT), client.log_in(request));
    // The master has whoever tries too much wait.
    let reply = asked.await.map_err(|_| {
        ApiError::Unavailable("logins have to wait now: try again later".to_owned())
    })?;
    match reply? {
        LoginReply::LoggedIn(logged_in) => Ok(UserLogin {
            token,
            user,
            eauth,
            logged_in,
        }),
        LoginReply::Refused => Err(refused()),
    }
}

fn refused() -> ApiError {
    ApiError::Unauthorized("the login failed: username, password or eauth is wrong".to_owned())
}
