//! `/jobs`: the jobs that the master keeps.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use saline_client::ClientError;
use saline_client::data::Value;
use saline_client::messages::{Jid, NetapiClient, RunKind};

use super::path_part::PathPart;
use crate::api::Api;
use crate::clients::run_returned;
use crate::content::Content;
use crate::error::ApiError;
use crate::format::Format;
use crate::login::Login;

/// Lists the jobs.
pub(super) async fn all(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
) -> Result<Response, ApiError> {
    let client = api.master.acting(token, Some(NetapiClient::Runner)).await?;
    let jobs = run_returned(&client, RunKind::Runner, "jobs.list_jobs", Vec::new()).await?;
    Ok(format.returned(vec![jobs]))
}

/// Returns one job with its returns.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    format: Format,
    Login(token): Login,
    PathPart(jid): PathPart,
) -> Result<Response, ApiError> {
    let jid: Jid = jid.parse().map_err(|_| {
        ApiError::BadRequest(format!("{jid:?} is not a jid: a jid has twenty digits"))
    })?;
    let client = api.master.acting(token, Some(NetapiClient::Runner)).await?;
    // It is refused as such, where the runner says in a text alone why it failed.
    match client.job_returns(&jid, u64::MAX).await {
        // A run, or a job that the job cache alone has.
        Ok(_) | Err(ClientError::NoSuchJob(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let named = vec![("jid".to_owned(), Value::from(jid.as_str()))];
    let job = run_returned(&client, RunKind::Runner, "jobs.list_job", named).await?;
    let (job, returns) = with_shared_returns(job);
    Ok(format.answer(Content::map([
        ("info", Content::List(vec![job])),
        ("return", Content::List(vec![returns])),
    ])))
}

/// Returns a job, and the returns in it by minion. Both have the same values, of which there is one copy.
fn with_shared_returns(job: Value) -> (Content, Content) {
    let Value::Map(entries) = job else {
        return (job.into(), Content::Map(Vec::new()));
    };
    let mut returns = Vec::new();
    let mut shared = |(name, value)| match (name, value) {
        (name, Value::Map(result)) if name == "Result" => {
            let result = result.into_iter().map(|(minion, returned)| {
                let (returned, value) = with_shared_return(returned);
                returns.push((minion.clone(), value));
                (minion, returned)
            });
            (name, Content::Map(result.collect()))
        }
        (name, value) => (name, value.into()),
    };
    let job = entries.into_iter().map(&mut shared).collect();
    (Content::Map(job), Content::Map(returns))
}

/// Returns a return with its retcode, and its value alone.
fn with_shared_return(returned: Value) -> (Content, Content) {
    let Value::Map(entries) = returned else {
        return (returned.into(), Value::Null.into());
    };
    let mut shared = Content::Value(Value::Null);
    let entries = entries.into_iter().map(|(name, value)| {
        if name != "return" {
            return (name, value.into());
        }
        shared = Content::Shared(Arc::new(value));
        (name, shared.clone())
    });
    (Content::Map(entries.collect()), shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_return_is_kept_once() {
        let returned = Value::map([("return", Value::from("up")), ("retcode", Value::Int(0))]);
        let result = Value::map([("web1", returned)]);
        let job = Value::map([("Function", Value::from("a")), ("Result", result)]);
        let (_, returns) = with_shared_returns(job);
        let Content::Map(returns) = returns else {
            panic!("{returns:?}");
        };
        assert!(
            matches!(
                &returns[..],
                [(id, Content::Shared(value))] if id == "web1" && Arc::strong_count(value) == 1
            ),
            "{returns:?}"
        );
    }
}
