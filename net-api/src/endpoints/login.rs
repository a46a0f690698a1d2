//! `/login`: a user's name and password for a token.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use saline_client::data::Value;
use saline_client::messages::{
    LoggedIn, LoginReply, LoginRequest, LoginToken, MAX_LOGIN_TEXT, Password, random,
};
use saline_client::transport::Clock;
use tokio::sync::oneshot;

use crate::api::Api;
use crate::credential_headers::TOKEN_HEADER;
use crate::error::ApiError;
use crate::format::Format;
use crate::forwarded::{ClientSource, OwnOrigin};
use crate::limits::LOGIN_TIMEOUT;
use crate::login::{LoginOrigin, set_cookie, write};
use crate::lowstate::{self, Chunk};
use crate::temporary_login::TemporaryLogin;
use crate::throttled_logins::SourceAndUser;
use crate::whole_body::WholeBody;

/// A login that succeeded. It ends when this is dropped, unless it is kept.
pub(super) struct UserLogin {
    login: TemporaryLogin,
    pub(super) token: LoginToken,
    user: String,
    eauth: String,
    logged_in: LoggedIn,
}

/// Tells that one logs in with POST.
pub(super) async fn ask(format: Format) -> Response {
    format.answer(Value::map([
        ("status", Value::Null),
        ("return", Value::from("Please log in")),
    ]))
}

/// Logs a user in. The token comes back in the body, in a header, and, for pages of our own and programs, in a cookie.
pub(super) async fn log_in(
    State(api): State<Arc<Api>>,
    format: Format,
    origin: LoginOrigin,
    own: OwnOrigin,
    source: ClientSource,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let login = of_body(&api, source, &headers, &body).await?;
    let token = write(login.token);
    let seconds = login.logged_in.expire.saturating_sub(login.logged_in.start) / 1_000;
    let mut response = format.answer(Value::map([(
        "return",
        Value::List(vec![login.to_value()]),
    )]));
    if let Ok(token) = HeaderValue::from_str(&token) {
        response.headers_mut().insert(TOKEN_HEADER, token);
    }
    if origin.takes_cookie {
        set_cookie(&mut response, &token, seconds, &own);
    }
    login.keep();
    Ok(response)
}

impl UserLogin {
    /// Has the login stay, since its client gets the token.
    pub(super) fn keep(self) {
        self.login.keep();
    }

    /// Ends the login, and waits for that.
    pub(super) async fn end(self) {
        self.login.end().await;
    }

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
    api: &Arc<Api>,
    source: ClientSource,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<UserLogin, ApiError> {
    let Value::Map(entries) = lowstate::map(lowstate::parsed(headers, body)?)? else {
        return Err(refused());
    };
    with(api, source, &Chunk::new(entries)?).await
}

/// Logs in with the credentials of a chunk.
pub(super) async fn with(
    api: &Arc<Api>,
    ClientSource(source): ClientSource,
    chunk: &Chunk,
) -> Result<UserLogin, ApiError> {
    // The request says so itself: that tells nothing about users and passwords.
    if chunk.text("eauth")?.is_none() {
        return Err(ApiError::Unauthorized(
            "the login failed: eauth is missing, the name of a way to log in, such as pam"
                .to_owned(),
        ));
    }
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
    let of = (source, format!("{eauth} {user}"));
    if api.throttled_logins.waits(&of) {
        return Err(has_to_wait());
    }
    let place = api.logins.take(source).ok_or_else(too_many)?;
    let (mut answer, answered) = oneshot::channel();
    let asking = Arc::clone(api);
    // A task of its own: when the client goes, the master makes the login all the same, and it has to be ended after that.
    api.context.spawn(async move {
        let asked = async {
            tokio::select! {
                replied = ask_master(&asking, &of, request, &mut answer) => replied,
                () = place.given_up() => Err(too_many()),
            }
        };
        if let Ok(replied) = Clock.deadline(Clock.after(2 * LOGIN_TIMEOUT), asked).await {
            // A login that nobody takes is dropped, and ends.
            let _ = answer.send(replied);
        }
    });
    let waited = Clock.deadline(Clock.after(LOGIN_TIMEOUT), answered).await;
    // The master has whoever tries too much wait.
    let replied = waited.ok().and_then(Result::ok).ok_or_else(has_to_wait)?;
    let (logged_in, login) = replied?;
    Ok(UserLogin {
        login,
        token,
        user,
        eauth,
        logged_in,
    })
}

fn too_many() -> ApiError {
    ApiError::Unavailable("too many logins are under way: try again".to_owned())
}

fn has_to_wait() -> ApiError {
    ApiError::Unavailable("logins have to wait now: try again later".to_owned())
}

/// The reply to a client that logs in: the login, or why there is none.
type LoginResult = Result<(LoggedIn, TemporaryLogin), ApiError>;

/// Has the master log a user in, and tries again while logins have to wait and somebody waits for the `answer`, unless another one `of` the
/// same source and user does so. When this is dropped or
/// fails in the midst, the login is ended: the master makes none with its token after that, however long a check by PAM takes.
async fn ask_master(
    api: &Arc<Api>,
    of: &SourceAndUser,
    request: LoginRequest,
    answer: &mut oneshot::Sender<LoginResult>,
) -> LoginResult {
    // A request waits half a minute for a master that is away, so that a restart is not noticed; nobody waits so long for a login. The
    // check of a password may take longer than a ping, so that pings go on beside it.
    api.master.ping().await?;
    let client = api.master.client().await?;
    let mut waiting = None;
    loop {
        let login = TemporaryLogin::new(Arc::clone(api), request.token);
        let replied = tokio::select! {
            replied = client.try_log_in(request.clone()) => replied?,
            away = api.master.away() => return Err(away),
        };
        let after_ms = match replied {
            LoginReply::LoggedIn(logged_in) => return Ok((logged_in, login)),
            LoginReply::Refused => {
                login.keep();
                return Err(refused());
            }
            LoginReply::Later { after_ms } => {
                login.keep();
                after_ms
            }
        };
        if waiting.is_none() {
            let first = api.throttled_logins.wait(of);
            waiting = Some(first.ok_or_else(has_to_wait)?);
        }
        // The master has carried nothing out: a client that went does not keep the place.
        tokio::select! {
            () = answer.closed() => return Err(has_to_wait()),
            () = Clock.pause(Duration::from_millis(after_ms.into())) => {}
        }
    }
}

fn refused() -> ApiError {
    ApiError::Unauthorized("the login failed: username, password or eauth is wrong".to_owned())
}
