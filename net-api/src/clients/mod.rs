//! Salt's clients: what a chunk of a request is carried out by.

mod keys;
mod local;
mod runner;
mod wheel;
mod wheel_docs;

use saline_data::Value;
use saline_messages::{LoginToken, NetapiClient};

use crate::api::Api;
use crate::error::ApiError;
use crate::lowstate::Chunk;

pub(crate) use keys::{finger, list_all as list_all_keys};
pub(crate) use runner::returned as runner_returned;

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
    let kind = chunk.client()?;
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
        NetapiClient::Runner => runner::run(api, client, chunk).await?,
        NetapiClient::RunnerAsync => runner::begin(client, chunk).await?,
        NetapiClient::Wheel => wheel::run(api, client, token, chunk).await?,
        NetapiClient::WheelAsync => wheel::begin(api, client, token, chunk).await?,
    };
    Ok(vec![one])
}
