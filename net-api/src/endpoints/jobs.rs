//! `/jobs`: the jobs that the master keeps.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use saline_data::Value;
use saline_messages::{Jid, NetapiClient};

use crate::answers::Format;
use crate::api::Api;
use crate::clients::runner_returned;
use crate::error::ApiError;
use crate::login::Login;

/// Lists the jobs.
pub(super) async fn all(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
) -> Result<Response, ApiError> {
    let client = api.master.acting(token, Some(NetapiClient::Runner)).await?;
    let jobs = runner_returned(&client, "jobs.list_jobs", Vec::new()).await?;
    Ok(format.answer(&Value::map([("return", Value::List(vec![jobs]))])))
}

/// Returns one job with its returns.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    Path(jid): Path<String>,
) -> Result<Response, ApiError> {
    let jid: Jid = jid
        .parse()
        .map_err(|_| ApiError::BadRequest("a jid has twenty digits".to_owned()))?;
    let client = api.master.acting(token, Some(NetapiClient::Runner)).await?;
    // It is refused as such, where the runner says in a text alone why it failed.
    client.job_returns(&jid, u64::MAX).await?;
    let named = vec![("jid".to_owned(), Value::from(jid.as_str()))];
    let job = runner_returned(&client, "jobs.list_job", named).await?;
    let returns = match job.get("Result") {
        Some(Value::Map(returns)) => returns.as_slice(),
        _ => &[],
    };
    let returns = returns.iter().map(|(minion, returned)| {
        let value = returned.get("return").cloned().unwrap_or_default();
        (minion.clone(), value)
    });
    let returns = Value::Map(returns.collect());
    Ok(format.answer(&Value::map([
        ("info", Value::List(vec![job])),
        ("return", Value::List(vec![returns])),
    ])))
}
