//! The minion's own event bus: `minion_event_<hash>_pull.ipc` and `_pub.ipc` in `sock_dir`, with the frames and the access rules of
//! the master's. The minion acts on some events before it passes them on.

mod actions;
mod requests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::digest::{SHA256, digest};
use saline_config::MinionConfig;
use saline_data::Value;
use saline_event_bus::{encode, local_endpoint, publish};
use saline_messages::MinionId;
use saline_modules::Host;
use saline_modules::local_events::LocalEvent;
use saline_protocol::transport::{
    Context, Publisher, Registry, Result, ServeAt, Server, Topic, Transport,
};

use crate::jobs::job_runner::JobRunner;

/// The digits of the hash of the id in the names of the sockets, which is Salt's: ids may be longer than paths of sockets.
const HASH_DIGITS: usize = 10;

/// The minion's own event bus.
#[derive(Debug)]
pub struct LocalBus {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) at: ServeAt,
    pub(super) context: Context,
    pub(super) host: Arc<Host>,
    pub(super) jobs: Arc<JobRunner>,
    pub(super) counts: Arc<Counts>,
}

/// The counters of the bus.
#[derive(Debug, Default)]
pub struct Counts {
    /// Events that were passed on.
    pub fired: AtomicU64,
    /// Events that were refused.
    pub refused: AtomicU64,
}

impl LocalBus {
    /// Prepares the bus of the minion `id`. Nothing is served yet.
    ///
    /// # Errors
    /// When the registry has no transport with local endpoints, or not that of `ipc_transport`.
    pub fn new(
        config: &MinionConfig,
        id: &MinionId,
        registry: &Registry,
        host: Arc<Host>,
        jobs: Arc<JobRunner>,
        context: Context,
    ) -> Result<Self> {
        let path = |role| socket(&config.paths.sock_dir, id, role);
        let ipc = config.ipc_transport.as_deref();
        let (transport, at) = local_endpoint(registry, ipc, path("pull"), path("pub"))?;
        Ok(Self {
            transport,
            at,
            context,
            host,
            jobs,
            counts: Arc::default(),
        })
    }

    /// Returns what the bus counts.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Serves the bus for as long as the minion runs. A minion does its work without it, so the log says when it cannot be served.
    pub async fn run(self) {
        let served = self
            .transport
            .serve(self.at.clone(), self.context.clone())
            .await;
        match served {
            Ok(Server {
                requests,
                publisher,
                control,
                bound,
                ..
            }) => {
                tracing::info!("the minion's event bus is at {}", bound.requests);
                let taking = requests::take(requests, &self.host.local_events, &self.counts);
                tokio::join!(taking, self.pass_on(Some(publisher)));
                drop(control);
            }
            Err(error) => {
                tracing::warn!("the minion's event bus is not served: {error}");
                self.pass_on(None).await;
            }
        }
    }

    /// Acts on events, and publishes them.
    async fn pass_on(&self, publisher: Option<Arc<dyn Publisher>>) {
        loop {
            let taken = self.host.local_events.next().await;
            let LocalEvent { tag, origin, data } = &taken.item;
            // What is queued was checked: it is a mapping.
            let Ok(Value::Map(data)) = data.unpack() else {
                continue;
            };
            actions::act(&self.context, &self.host, &self.jobs, tag, &data).await;
            self.counts.fired.fetch_add(1, Ordering::Relaxed);
            let Some(publisher) = &publisher else {
                continue;
            };
            let is_heard = |topic: &Topic| publisher.subscriptions(topic) > 0;
            let time = self.context.clock.wall().into();
            if let Ok(event) = encode(tag, origin.clone(), data, time)
                && is_heard(&event.topic)
            {
                publish(&**publisher, event).await;
            }
        }
    }
}

/// Returns the path of a socket of the bus.
fn socket(folder: &Path, id: &MinionId, role: &str) -> PathBuf {
    let hash = digest(&SHA256, id.as_str().as_bytes());
    let digits: String = hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    folder.join(format!(
        "minion_event_{}_{role}.ipc",
        &digits[..HASH_DIGITS]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_sockets_are_salts() {
        // As `hashlib.sha256(b"web1").hexdigest()[:10]` says.
        let path = socket(Path::new("/run"), &MinionId::parse("web1").unwrap(), "pull");
        assert_eq!(path, Path::new("/run/minion_event_659a7fb2af_pull.ipc"));
    }
}
