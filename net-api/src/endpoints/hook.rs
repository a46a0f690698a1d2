//! `/hook`: events that other systems fire.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::response::Response;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use saline_client::RunnerSpec;
use saline_client::data::Value;
use saline_client::messages::{Arguments, Event, EventTag, MAX_HOOK_ARGUMENTS};

use super::path_part::PathPart;
use crate::api::Api;
use crate::error::ApiError;
use crate::format::Format;
use crate::login::Login;
use crate::lowstate;
use crate::whole_body::WholeBody;

/// The tag of a hook without an end of its own. Those of others are below it.
const TAG: &str = "salt/netapi/hook";

/// The login that a hook needs; none where hooks are taken without one. Settled before the body is read.
pub(super) struct HookLogin(Option<Login>);

impl FromRequestParts<Arc<Api>> for HookLogin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        if api.open_hooks {
            return Ok(Self(None));
        }
        let login = Login::from_request_parts(parts, api).await?;
        Ok(Self(Some(login)))
    }
}

/// Fires an event with what was posted, in the name of the user who is logged in, or of the API where nobody has to be. Its tag ends as the path does; a path with no end of its own is
/// taken too, as by Salt.
pub(super) async fn fire(
    State(api): State<Arc<Api>>,
    format: Format,
    HookLogin(login): HookLogin,
    below: Option<PathPart>,
    headers: HeaderMap,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let tag = match below {
        None => TAG.to_owned(),
        Some(PathPart(below)) => format!("{TAG}/{below}"),
    };
    check_tag(&tag)?;
    // What is in no form that is known is there as text all the same.
    let post = lowstate::parsed(&headers, &body).unwrap_or_default();
    let post = match post {
        Value::Null => Value::Map(Vec::new()),
        post => post,
    };
    let data = Value::map([
        (
            "body",
            Value::from(String::from_utf8_lossy(&body).into_owned()),
        ),
        ("post", post),
        ("headers", shown(&headers)),
    ]);
    let arguments = Arguments {
        positional: vec![Value::from(tag), data],
        named: Vec::new(),
    };
    check_size(&arguments)?;
    let spec = RunnerSpec::new("event.send").with_arguments(arguments);
    let run = match login {
        // No client of netapi_enable_clients: whoever has a login may fire the events of hooks.
        Some(Login(token)) => api.master.acting(token, None).await?.runner(spec)?,
        None => api.master.client().await?.runner(spec)?,
    };
    let end = run.end().await?;
    match end.error {
        Some(error) => Err(ApiError::BadRequest(error)),
        None => Ok(format.answer(Value::map([("success", Value::Bool(true))]))),
    }
}

/// Checks that an event with this tag, which the path makes, is that of a hook.
fn check_tag(tag: &str) -> Result<(), ApiError> {
    let why = match Event::topic(tag) {
        Ok(_) if EventTag::is_hook(tag) => return Ok(()),
        Ok(_) => "no part of it may be . or ..".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ApiError::BadRequest(format!(
        "no event can have the tag that this path makes: {why}"
    )))
}

/// Checks that the master takes the event of a hook by its size.
fn check_size(arguments: &Arguments) -> Result<(), ApiError> {
    let packed = arguments.pack();
    if packed.as_packed().as_bytes().len() <= MAX_HOOK_ARGUMENTS && packed.unpack().is_ok() {
        return Ok(());
    }
    Err(ApiError::TooLarge(format!(
        "the event of a hook has what was posted twice, as text and as values, in at most {MAX_HOOK_ARGUMENTS} bytes together, and may not \
         nest too deeply"
    )))
}

/// Returns the headers of a request without the sensitive ones, which prove who sent it: events are read by others.
fn shown(headers: &HeaderMap) -> Value {
    let is_shown =
        |name: &&HeaderName| !headers.get_all(*name).iter().any(HeaderValue::is_sensitive);
    let entries = headers.keys().filter(is_shown).map(|name| {
        let values = headers.get_all(name).into_iter();
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let values: Vec<String> = values.collect();
        (written(name.as_str()), Value::from(values.join(", ")))
    });
    Value::Map(entries.collect())
}

/// Writes the name of a header as Salt shows it: `Content-Type`.
fn written(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let mut characters = word.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    });
    words.collect::<Vec<String>>().join("-")
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use hyper::header::CONTENT_TYPE;
    use saline_client::data::json;
    use saline_config::RestCherrypyConfig;
    use tower_service::Service as _;

    use super::*;
    use crate::credential_headers::SENSITIVE_HEADERS;
    use crate::endpoints::layered;

    #[tokio::test]
    async fn an_event_does_not_hold_the_token_of_the_request() {
        let show = async |headers: HeaderMap| json::line(&shown(&headers));
        let routes = Router::new().route("/", get(show));
        let api = Api::without_master(&RestCherrypyConfig::on_port(0));
        let mut request = Request::get("/").header(CONTENT_TYPE, "text/plain");
        for name in SENSITIVE_HEADERS {
            request = request.header(name, "secret");
        }
        let answer = layered(routes, api).call(request.body(Body::empty()).unwrap());
        let body = answer.await.unwrap().into_body().collect().await;
        let shown = body.unwrap().to_bytes();
        assert_eq!(shown, &b"{\"Content-Type\": \"text/plain\"}"[..]);
    }
}
