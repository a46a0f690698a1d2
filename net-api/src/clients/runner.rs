//! Functions of the master: `runner` and `runner_async`, `wheel` and `wheel_async`.

use std::sync::Arc;

use saline_client::data::Value;
use saline_client::messages::{Arguments, EventTag, Jid, RunEvent, RunKind, RunnerEnd};
use saline_client::transport::{Clock, Context};
use saline_client::{Client, ClientError, RunnerRun, RunnerSpec};
use tokio::runtime::Handle;

use crate::api::Api;
use crate::error::ApiError;
use crate::limits::KEEP_TIMEOUT;
use crate::lowstate::{Chunk, call_arguments};

/// Runs a function of the master and waits for its end. Returns what a runner returned; what a wheel returned, and with
/// `full_return` a runner, in the form of the event that tells of it.
///
/// # Cancel safety
/// The run goes on, and the master stores its return.
pub(super) async fn run(
    api: &Api,
    client: &Client,
    chunk: &Chunk,
    kind: RunKind,
) -> Result<Value, ApiError> {
    let function = chunk.function()?;
    let arguments = call_arguments(chunk, true)?;
    let full_return = kind == RunKind::Wheel || chunk.flag("full_return")?;
    // Before the run: what was done is not told as refused.
    let user = match full_return {
        true => client.own_name().await?,
        false => String::new(),
    };
    let spec = RunnerSpec::new(function)
        .of_kind(kind)
        .with_arguments(arguments.clone())
        .with_timeout(chunk.seconds("timeout")?);
    let (jid, success, value) = ended(api, client, spec).await?;
    if !full_return {
        return Ok(value);
    }
    let tag = jid.as_ref().map(|jid| match kind {
        RunKind::Runner => EventTag::Run(kind, jid.clone(), RunEvent::Returned).to_string(),
        RunKind::Wheel => EventTag::below_run(kind, jid),
    });
    let jid = jid.as_ref().map_or("", Jid::as_str);
    let data = Value::map([
        ("fun", Value::from(kind.shown(function))),
        ("jid", Value::from(jid)),
        ("fun_args", arguments.to_salt()),
        ("user", Value::from(user)),
        ("return", value),
        ("success", Value::Bool(success)),
    ]);
    let tag = Value::from(tag.unwrap_or_default());
    Ok(Value::map([("tag", tag), ("data", data)]))
}

/// Runs a function of the master and waits for its end. Returns its jid, whether it succeeded, and what it returned.
async fn ended(
    api: &Api,
    client: &Client,
    spec: RunnerSpec,
) -> Result<(Option<Jid>, bool, Value), ApiError> {
    let kind = spec.kind;
    let run = Arc::new(client.runner(spec)?);
    let waiting = WaitingForRun {
        context: api.context.clone(),
        kind,
        run: Some(Arc::clone(&run)),
    };
    let ended = run.end_with_jid().await;
    waiting.end();
    match ended {
        Ok((jid, end)) => Ok((Some(jid), end.success && end.error.is_none(), value(&end)?)),
        // As in Salt, that is what the call returns. The tag of a wheel leads to its events, and there are none.
        Err(ClientError::RunnerRefused(why)) if kind == RunKind::Runner => {
            Ok((None, false, Value::from(why)))
        }
        Err(error) => Err(error.into()),
    }
}

/// A run that a client waits for. When this is dropped before the end of the run, the master stores its return: a run that nobody asks
/// the store for is kept for a minute alone.
struct WaitingForRun {
    context: Context,
    kind: RunKind,
    run: Option<Arc<RunnerRun>>,
}

impl WaitingForRun {
    fn end(mut self) {
        self.run = None;
    }
}

impl Drop for WaitingForRun {
    fn drop(&mut self) {
        // A runtime that is not there any more carries out nothing.
        if let Some(run) = self.run.take()
            && Handle::try_current().is_ok()
        {
            let kind = self.kind;
            self.context.spawn(async move {
                let kept = Clock.deadline(Clock.after(KEEP_TIMEOUT), run.keep()).await;
                match kept {
                    Ok(Ok(Some(jid))) => {
                        tracing::info!("{kind} {jid}: nobody waits for it any more, and the master stores its return");
                    }
                    // It was not begun.
                    Ok(Ok(None)) => {}
                    Ok(Err(error)) => {
                        tracing::warn!("the return of a run that nobody waits for is not stored: {error}");
                    }
                    Err(_) => tracing::warn!(
                        "the return of a run that nobody waits for is not stored: the master does not answer"
                    ),
                }
            });
        }
    }
}

/// Begins a function of the master. Returns its jid and the tag that those of its events begin with.
pub(super) async fn begin(
    client: &Client,
    chunk: &Chunk,
    kind: RunKind,
) -> Result<Value, ApiError> {
    let spec = RunnerSpec::new(chunk.function()?)
        .of_kind(kind)
        .with_arguments(call_arguments(chunk, true)?);
    let jid = client.runner(spec)?.begin_async().await?;
    Ok(Value::map([
        ("tag", Value::from(EventTag::below_run(kind, &jid))),
        ("jid", Value::from(jid.as_str())),
    ]))
}

/// Runs a function of the master for an endpoint of its own. Returns what it returned.
///
/// # Errors
/// `NotFound` when it fails.
pub(crate) async fn returned(
    client: &Client,
    kind: RunKind,
    function: &str,
    named: Vec<(String, Value)>,
) -> Result<Value, ApiError> {
    let arguments = Arguments {
        named,
        ..Default::default()
    };
    let spec = RunnerSpec::new(function)
        .of_kind(kind)
        .with_arguments(arguments);
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
