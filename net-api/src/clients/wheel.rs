//! Keys and the configuration of the master: `wheel` and `wheel_async`.

use saline_client::Client;
use saline_data::Value;
use saline_messages::{Arguments, LoginToken, NetapiClient};
use saline_protocol::transport::Clock;
use time::OffsetDateTime;
use time::macros::format_description;

use super::{keys, runner};
use crate::api::Api;
use crate::error::ApiError;
use crate::lowstate::{Chunk, call_arguments};

/// Carries out a function about keys or the configuration. Returns it in the form of the event that Salt tells of it with.
pub(super) async fn run(
    api: &Api,
    client: &Client,
    token: LoginToken,
    chunk: &Chunk,
) -> Result<Value, ApiError> {
    let function = chunk.function()?;
    let arguments = call_arguments(chunk, true)?;
    // Before anything is changed: what was done is not told as refused.
    let user = client.own_name().await?;
    let returned = returned(api, client, token, function, &arguments).await?;
    let jid = jid();
    let data = Value::map([
        ("fun", Value::from(format!("wheel.{function}"))),
        ("jid", Value::from(jid.as_str())),
        ("fun_args", arguments.to_salt()),
        ("user", Value::from(user)),
        ("return", returned),
        ("success", Value::Bool(true)),
    ]);
    let tag = Value::from(format!("salt/wheel/{jid}"));
    Ok(Value::map([("tag", tag), ("data", data)]))
}

/// Carries out the same, which takes a moment, and returns the tag and jid alone.
pub(super) async fn begin(
    api: &Api,
    client: &Client,
    token: LoginToken,
    chunk: &Chunk,
) -> Result<Value, ApiError> {
    let arguments = call_arguments(chunk, true)?;
    returned(api, client, token, chunk.function()?, &arguments).await?;
    let jid = jid();
    Ok(Value::map([
        ("tag", Value::from(format!("salt/wheel/{jid}"))),
        ("jid", Value::from(jid)),
    ]))
}

async fn returned(
    api: &Api,
    client: &Client,
    token: LoginToken,
    function: &str,
    arguments: &Arguments,
) -> Result<Value, ApiError> {
    if let Some(function) = function.strip_prefix("key.") {
        return keys::call(client, function, arguments).await;
    }
    // The master carries these out as runners, and judges them as such.
    let (runner, named) = match function {
        "minions.connected" => ("manage.up", Vec::new()),
        "config.values" => ("config.values", Vec::new()),
        _ => {
            return Err(ApiError::BadRequest(format!(
                "there is no wheel function {function:?}; there are {}, config.values and minions.connected",
                keys::FUNCTIONS
            )));
        }
    };
    let client = api.master.acting(token, Some(NetapiClient::Runner)).await?;
    runner::returned(&client, runner, named).await
}

/// Returns a jid of now. No job has it: what is about keys is not stored.
fn jid() -> String {
    let format =
        format_description!("[year][month][day][hour][minute][second][subsecond digits:6]");
    let now = OffsetDateTime::from(Clock.wall()).format(format);
    now.unwrap_or_default()
}
