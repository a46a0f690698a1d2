//! Salt's clients: what a chunk of a request is carried out by.

mod local;
mod runner;

use saline_client::data::Value;
use saline_client::messages::{LoginToken, NetapiClient, RunKind};

use crate::api::Api;
use crate::error::ApiError;
use crate::lowstate::Chunk;

pub(crate) use runner::returned as run_returned;

/// Carries out a chunk in the name of the user of a login. Returns what it adds to `return`: one value, or with a batch one for
/// each minion.
///
/// # Errors
/// `Unauthorized` when the master does not let the user do it; others as the chunk and the master have them.
///
/// # Cancel safety
/// A job or a run that was begun goes on.
pub(crate) async fn carry_out(
    api: &Api,
    token: LoginToken,
    chunk: &Chunk,
) -> Result<Vec<Value>, ApiError> {
    let kind = match chunk.client()? {
        // Whoever enables no batches means this one neither.
        NetapiClient::Local if chunk.batch()?.is_some() => NetapiClient::LocalBatch,
        kind => kind,
    };
    let client = api.master.acting(token, Some(kind)).await?;
    let client = &client;
    let parameters_of = api.parameters_of;
    let one = match kind {
        NetapiClient::Local => return local::run(client, chunk, parameters_of, false).await,
        NetapiClient::LocalSubset => return local::run(client, chunk, parameters_of, true).await,
        NetapiClient::LocalBatch => {
            return local::run_in_batches(client, chunk, parameters_of).await;
        }
        NetapiClient::LocalAsync => local::begin(client, chunk, parameters_of).await?,
        NetapiClient::Runner => runner::run(api, client, chunk, RunKind::Runner).await?,
        NetapiClient::RunnerAsync => runner::begin(client, chunk, RunKind::Runner).await?,
        NetapiClient::Wheel => runner::run(api, client, chunk, RunKind::Wheel).await?,
        NetapiClient::WheelAsync => runner::begin(client, chunk, RunKind::Wheel).await?,
    };
    Ok(vec![one])
}
