//! Functions of the master: `runner` and `runner_async`.

use saline_client::{Client, ClientError, RunnerSpec};
use saline_data::Value;
use saline_messages::{Jid, RunnerEnd};

use crate::error::ApiError;
use crate::lowstate::{Chunk, call_arguments};

/// Runs a function of the master and waits for its end. Returns what it returned; with `full_return` in the form of the event
/// that tells of it.
pub(super) async fn run(client: &Client, chunk: &Chunk) -> Result<Value, ApiError> {
    let function = chunk.function()?;
    let arguments = call_arguments(chunk, true)?;
    let full_return = chunk.flag("full_return")?;
    // Before the run: what was done is not told as refused.
    let user = match full_return {
        true => client.own_name().await?,
        false => String::new(),
    };
    let spec = RunnerSpec::new(function)
        .with_arguments(arguments.clone())
        .with_timeout(chunk.seconds("timeout")?);
    let ended = client.runner(spec)?.end_with_jid().await;
    let (jid, success, value) = match ended {
        Ok((jid, end)) => (Some(jid), end.success && end.error.is_none(), value(&end)?),
        // As in Salt, that is what the call returns.
        Err(ClientError::RunnerRefused(why)) => (None, false, Value::from(why)),
        Err(error) => return Err(error.into()),
    };
    if !full_return {
        return Ok(value);
    }
    let jid = jid.as_ref().map_or("", Jid::as_str);
    let data = Value::map([
        ("fun", Value::from(format!("runner.{function}"))),
        ("jid", Value::from(jid)),
        ("fun_args", arguments.to_salt()),
        ("user", Value::from(user)),
        ("return", value),
        ("success", Value::Bool(success)),
    ]);
    let tag = Value::from(format!("salt/run/{jid}/ret"));
    Ok(Value::map([("tag", tag), ("data", data)]))
}

/// Begins a function of the master. Returns its jid and the tag of its events.
pub(super) async fn begin(client: &Client, chunk: &Chunk) -> Result<Value, ApiError> {
    let spec = RunnerSpec::new(chunk.function()?).with_arguments(call_arguments(chunk, true)?);
    let jid = client.runner(spec)?.begin_async().await?;
    Ok(Value::map([
        ("tag", Value::from(format!("salt/run/{jid}"))),
        ("jid", Value::from(jid.as_str())),
    ]))
}

/// Runs a function of the master for an endpoint of its own. Returns what it returned.
///
/// # Errors
/// `NotFound` when it fails.
pub(crate) async fn returned(
    client: &Client,
    function: &str,
    named: Vec<(String, Value)>,
) -> Result<Value, ApiError> {
    let arguments = saline_messages::Arguments {
        named,
        ..Default::default()
    };
    let spec = RunnerSpec::new(function).with_arguments(arguments);
    let end = client.runner(spec)?.end().await?;
    match &end.error {
        Some(error) => Err(ApiError::NotFound(error.clone())),
        None => value(&end),
    }
}

/// Returns what a run returned; the reason why it failed, where it did.
fn value(end: &RunnerEnd) -> Result<Value, ApiError> {
    match &end.error {
        Some(error) => Ok(Value::from(error.as_str())),
        None => end
            .value()
            .map_err(|error| ApiError::Failed(format!("the return cannot be read: {error}"))),
    }
}
