//! The key store, through the running master or, if none runs, directly.

use saline_client::{Client, ClientError};
use saline_config::MasterConfig;
use saline_messages::{
    KeyReply, KeyRequest, LastSeen, MAX_LAST_SEEN, MinionId, TokenReply, TokenRequest,
};
use saline_protocol::transport::{Context, Registry};

use super::login::{Connection, Login};
use super::master_away::until_answered;
use crate::screen::Screen;

/// A function that works on the key store without a master.
pub(crate) type Offline<'a> = dyn Fn(&MasterConfig, KeyRequest) -> Result<KeyReply, String> + 'a;

/// The way to the key store.
pub(crate) enum KeyStore<'a> {
    /// Through the running master.
    Live(Connection),
    /// In this process.
    Offline {
        config: &'a MasterConfig,
        act: &'a Offline<'a>,
    },
}

impl<'a> KeyStore<'a> {
    /// Connects to the master, or finds that none runs.
    pub(crate) async fn open(
        config: &'a MasterConfig,
        registry: &Registry,
        act: &'a Offline<'a>,
    ) -> Result<Self, ClientError> {
        match Client::connect(config, registry).await {
            Ok(client) => Ok(Self::Live(Connection::new(client))),
            Err(error) if error.is_master_down() => {
                tracing::debug!(%error, "no master answers; using the key store directly");
                Ok(Self::Offline { config, act })
            }
            Err(error) => Err(error),
        }
    }

    /// Goes on in the name of the user of a login, if there is one.
    ///
    /// # Errors
    /// The reason why the login failed, in one line.
    pub(super) async fn log_in(self, login: Option<Login>) -> Result<Self, String> {
        match self {
            Self::Live(connection) => connection.log_in(login).await.map(Self::Live),
            Self::Offline { .. } if login.is_some() => Err(
                "no master runs, and only the master logs users in: start saline-master".to_owned(),
            ),
            offline => Ok(offline),
        }
    }

    /// Carries out a request.
    pub(crate) async fn ask(
        &self,
        screen: &mut Screen<'_>,
        request: KeyRequest,
    ) -> Result<KeyReply, String> {
        let reply = match self {
            Self::Live(connection) => until_answered(
                screen,
                connection.client(),
                connection.client().keys(request),
            )
            .await
            .map_err(|error| error.to_string())?,
            Self::Offline { config, act } => act(config, request)?,
        };
        screen.warn(&reply.warnings);
        Ok(reply)
    }

    /// Has the master make a new group key.
    pub(crate) async fn rotate_group_key(&self, screen: &mut Screen<'_>) -> Result<(), String> {
        match self {
            Self::Live(connection) => {
                let client = connection.client();
                let rotated = until_answered(screen, client, client.rotate_group_key()).await;
                screen.warn(&rotated.map_err(|error| error.to_string())?);
                Ok(())
            }
            Self::Offline { .. } => {
                Err("no master runs: it makes a new group key at each start by itself".to_owned())
            }
        }
    }

    /// Makes, lists or revokes tokens.
    pub(crate) async fn tokens(
        &self,
        screen: &mut Screen<'_>,
        request: TokenRequest,
    ) -> Result<TokenReply, String> {
        match self {
            Self::Live(connection) => {
                let client = connection.client();
                let reply = until_answered(screen, client, client.tokens(request)).await;
                let reply = reply.map_err(|error| error.to_string())?;
                screen.warn(&reply.warnings);
                Ok(reply)
            }
            Self::Offline { .. } => Err(
                "no master runs, and tokens are kept by the master: start saline-master".to_owned(),
            ),
        }
    }

    /// Returns where and when the minions behind keys were seen last; none when no master tells.
    pub(crate) async fn last_seen(
        &self,
        screen: &mut Screen<'_>,
        minions: &[MinionId],
    ) -> Option<Vec<LastSeen>> {
        let Self::Live(connection) = self else {
            return None;
        };
        let client = connection.client();
        let mut last_seen = Vec::new();
        for some in minions.chunks(MAX_LAST_SEEN) {
            let asking = client.last_seen(some.to_vec());
            match until_answered(screen, client, asking).await {
                Ok(page) => last_seen.extend(page),
                // It is shown beside the keys, which are listed without it too.
                Err(error) => {
                    tracing::debug!(%error, "the master does not tell where minions are");
                    return None;
                }
            }
        }
        Some(last_seen)
    }

    /// Returns the context whose tasks go on while the operator answers a question.
    pub(crate) fn context(&self) -> Option<&Context> {
        match self {
            Self::Live(connection) => Some(connection.client().context()),
            Self::Offline { .. } => None,
        }
    }

    pub(crate) async fn close(self) {
        if let Self::Live(connection) = self {
            connection.end().await;
        }
    }
}
