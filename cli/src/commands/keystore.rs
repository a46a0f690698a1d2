//! The key store: in the running master's hands, or on the disk when none runs.

use saline_client::{Client, ClientError};
use saline_config::MasterConfig;
use saline_protocol::message::{KeyReply, KeyRequest};
use saline_protocol::transport::{Context, Registry};

/// What works on the store when no master runs.
pub(crate) type Offline<'a> = dyn Fn(&MasterConfig, KeyRequest) -> Result<KeyReply, String> + 'a;

/// Who carries out what is asked of the key store.
pub(crate) enum KeyStore<'a> {
    /// The running master.
    Live(Client),
    /// This process.
    Offline {
        config: &'a MasterConfig,
        act: &'a Offline<'a>,
    },
}

impl<'a> KeyStore<'a> {
    /// Finds out whether a master runs.
    pub(crate) async fn open(
        config: &'a MasterConfig,
        registry: &Registry,
        act: &'a Offline<'a>,
    ) -> Result<Self, ClientError> {
        match Client::connect(config, registry).await {
            Ok(client) => Ok(Self::Live(client)),
            Err(error) if error.is_master_down() => {
                tracing::debug!(%error, "working on the key store itself");
                Ok(Self::Offline { config, act })
            }
            Err(error) => Err(error),
        }
    }

    /// Carries it out.
    pub(crate) async fn ask(&self, request: KeyRequest) -> Result<KeyReply, String> {
        match self {
            Self::Live(client) => client
                .keys(request)
                .await
                .map_err(|error| error.to_string()),
            Self::Offline { config, act } => act(config, request),
        }
    }

    /// What goes on while the operator thinks.
    pub(crate) fn context(&self) -> Option<&Context> {
        match self {
            Self::Live(client) => Some(client.context()),
            Self::Offline { .. } => None,
        }
    }

    pub(crate) async fn close(&self) {
        if let Self::Live(client) = self {
            client.shutdown().await;
        }
    }
}
