//! The HTTP API on one machine: a master, `saline-api` beside it, and a minion. Explained in `docs/performance.md`.
//!
//! | file | holds |
//! |---|---|
//! | `arguments.rs` | the command line |
//! | `http_client.rs` | one connection to the API, for requests or for a stream of events |
//! | `setting.rs` | the system that is measured, with its users |
//! | `logins.rs` | logins a second, by password and by token |
//! | `job_starts.rs` | starts of jobs a second, beside those of `saline-client` |
//! | `event_streams.rs` | events a second to listeners of `/events` |

mod arguments;
mod event_streams;
mod http_client;
mod job_starts;
mod logins;
mod setting;

use std::sync::Arc;
use std::time::Duration;

use saline_daemon::raise_descriptors;
use saline_protocol::transport::{Clock, Registry};

use crate::row::Rows;
use crate::{Result, runtime};

pub(crate) use arguments::HttpArguments;
use setting::Setting;

/// How long all of the measurements may take together: far more than they need.
const TIMEOUT: Duration = Duration::from_secs(900);

/// Measures what is `wanted`, and prints it.
pub(crate) fn run(wanted: &HttpArguments, registry: &Registry) -> Result<()> {
    wanted.check(registry)?;
    raise_descriptors()?;
    let mut rows = Rows::begin(wanted.json.as_deref())?;
    let runtime = runtime(1)?;
    let measured = runtime.block_on(async {
        let measuring = measure(wanted, registry, &mut rows);
        match Clock.deadline(Clock.after(TIMEOUT), measuring).await {
            Ok(measured) => measured,
            Err(_) => Err(format!("not done after {} s", TIMEOUT.as_secs()).into()),
        }
    });
    runtime.shutdown_background();
    measured
}

async fn measure(wanted: &HttpArguments, registry: &Registry, rows: &mut Rows) -> Result<()> {
    let (mut setting, client) = Setting::start(wanted, registry).await?;
    let client = Arc::new(client);
    logins::measure(&mut setting, wanted, rows).await?;
    job_starts::measure(&setting, wanted, &client, rows).await?;
    for &listeners in &wanted.listeners {
        event_streams::measure(&setting, wanted, listeners, &client, rows).await?;
    }
    client.shutdown().await;
    Ok(())
}
