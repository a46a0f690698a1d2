//! What every endpoint works with.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use saline_client::ParametersOf;
use saline_client::transport::Context;
use saline_config::{CorsOrigins, RestCherrypyConfig};
use saline_daemon::DurationHistogram;

use crate::client_places::ClientPlaces;
use crate::event_streams::EventStreams;
use crate::limits::MAX_LOGINS;
use crate::master_connection::MasterConnection;
use crate::static_files::StaticFiles;
use crate::throttled_logins::ThrottledLogins;

/// The parts of a running API.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) master: MasterConnection,
    /// Tells which arguments of jobs are secret.
    pub(crate) parameters_of: ParametersOf,
    pub(crate) files: StaticFiles,
    /// Whether connections to the API are encrypted.
    pub(crate) over_tls: bool,
    pub(crate) cors_origin: CorsOrigins,
    /// The proxies whose `X-Forwarded-…` and `X-Request-Id` are believed.
    pub(crate) trusted_proxies: Vec<IpAddr>,
    pub(crate) max_body: usize,
    /// The path of hooks, with one slash before it.
    pub(crate) hook_path: String,
    /// Whether hooks are taken without a login.
    pub(crate) open_hooks: bool,
    /// Owns the tasks that outlive a request.
    pub(crate) context: Context,
    /// Owns the tasks of event streams, which have nothing to end when the API stops.
    pub(crate) events_context: Context,
    pub(crate) event_streams: Arc<EventStreams>,
    /// The places of the logins that are under way.
    pub(crate) logins: Arc<ClientPlaces>,
    pub(crate) throttled_logins: Arc<ThrottledLogins>,
    pub(crate) counted: Counted,
}

impl Api {
    /// Puts the parts together as the configuration says.
    ///
    /// # Errors
    /// When the folder of static files cannot be opened.
    pub(crate) fn new(
        master: MasterConnection,
        parameters_of: ParametersOf,
        config: &RestCherrypyConfig,
        context: Context,
    ) -> io::Result<Self> {
        Ok(Self {
            master,
            parameters_of,
            files: StaticFiles::open(config)?,
            over_tls: config.ssl.is_some(),
            cors_origin: config.cors_origin.clone(),
            trusted_proxies: config
                .trusted_proxies
                .iter()
                .map(IpAddr::to_canonical)
                .collect(),
            max_body: config.max_request_body_size,
            hook_path: format!("/{}", config.webhook_url.trim_matches('/')),
            open_hooks: config.webhook_disable_auth,
            events_context: context.child(),
            context,
            logins: ClientPlaces::new(MAX_LOGINS),
            throttled_logins: Arc::default(),
            event_streams: Arc::new(EventStreams::default()),
            counted: Counted::default(),
        })
    }

    /// Returns an API whose master does not run.
    #[cfg(test)]
    pub(crate) fn without_master(config: &RestCherrypyConfig) -> Arc<Self> {
        use saline_client::transport::{Limits, Registry};
        use saline_config::MasterConfig;

        use crate::configuration::Configuration;

        let folder = tempfile::tempdir().unwrap();
        let loaded = MasterConfig::load(folder.path(), &[]).unwrap();
        let configuration = Configuration::OfMaster(Box::new(loaded));
        let master = MasterConnection::new(configuration, Registry::new());
        Arc::new(Self::new(master, |_| &[], config, Context::new(Limits::default())).unwrap())
    }
}

/// What happened since the API started.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// The requests by the hundreds of their status, from 100 on.
    statuses: [AtomicU64; 5],
    pub(crate) durations: DurationHistogram,
}

impl Counted {
    /// Counts an answer.
    pub(crate) fn add(&self, status: u16) {
        let class = usize::from(status / 100).saturating_sub(1);
        if let Some(counter) = self.statuses.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of answers for each hundred of statuses.
    pub(crate) fn statuses(&self) -> [(&'static str, u64); 5] {
        let names = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        let counts = self.statuses.each_ref();
        let counts = counts.map(|counter| counter.load(Ordering::Relaxed));
        std::array::from_fn(|class| (names[class], counts[class]))
    }
}
