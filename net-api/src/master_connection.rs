//! The connection to the master, which is made when somebody needs it first.

use std::fmt;
use std::time::Duration;

use saline_client::messages::{LoginToken, NetapiClient};
use saline_client::transport::{Clock, Context, Registry};
use saline_client::{Client, ClientError};
use tokio::sync::OnceCell;

use crate::configuration::Configuration;
use crate::error::ApiError;

/// How long a connection may take to be made, and a ping to be answered.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The time between the pings by which a master is watched while it carries out something that takes long.
const WATCH: Duration = Duration::from_secs(2);

/// How long it takes until a connection that could not be made is tried again, though nobody asks for it: a key that waits on the
/// master is shown there, and is let in soon after it was accepted.
const AGAIN: Duration = Duration::from_secs(10);

/// The connection to the master. Once it was made, the client reconnects by itself.
pub(crate) struct MasterConnection {
    configuration: Configuration,
    registry: Registry,
    client: OnceCell<Client>,
}

impl MasterConnection {
    /// Prepares the connection to the master that the configuration names.
    pub(crate) fn new(configuration: Configuration, registry: Registry) -> Self {
        Self {
            configuration,
            registry,
            client: OnceCell::new(),
        }
    }

    /// Returns the client with the rights of the API itself.
    ///
    /// # Errors
    /// `Unavailable` when no master answers.
    pub(crate) async fn client(&self) -> Result<&Client, ApiError> {
        let connect = || self.configuration.connect(&self.registry);
        let connected = self.client.get_or_try_init(connect);
        match Clock.deadline(Clock.after(TIMEOUT), connected).await {
            Ok(client) => Ok(client?),
            Err(_) => Err(ApiError::Unavailable(
                "the master does not answer".to_owned(),
            )),
        }
    }

    /// Connects without being asked, until that succeeds or the context ends. The log says why it does not.
    pub(crate) async fn keep_connecting(&self, context: &Context) {
        while self.client().await.is_err() {
            tokio::select! {
                () = context.cancel.cancelled() => return,
                () = Clock.pause(AGAIN) => {}
            }
        }
    }

    /// Returns a client that asks in the name of the user of a login.
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub(crate) async fn acting(
        &self,
        token: LoginToken,
        client: Option<NetapiClient>,
    ) -> Result<Client, ApiError> {
        Ok(self.client().await?.acting(token, client))
    }

    /// Has the master say whether a token is valid.
    ///
    /// # Errors
    /// `Unauthorized` when it is not, `Unavailable` when no master answers.
    pub(crate) async fn check(&self, token: LoginToken) -> Result<(), ApiError> {
        let client = self.acting(token, None).await?;
        answered(client.ping()).await
    }

    /// Waits for a reply of the master.
    ///
    /// # Errors
    /// `Unavailable` when none comes.
    pub(crate) async fn ping(&self) -> Result<(), ApiError> {
        let client = self.client().await?;
        answered(client.ping()).await
    }

    /// Waits until the master answers no ping any more. Returns why.
    ///
    /// # Cancel safety
    /// A ping changes nothing.
    pub(crate) async fn away(&self) -> ApiError {
        loop {
            Clock.pause(WATCH).await;
            if let Err(error) = self.ping().await {
                return error;
            }
        }
    }

    /// Ends the connection.
    pub(crate) async fn shutdown(&self) {
        if let Some(client) = self.client.get() {
            client.shutdown().await;
        }
    }
}

async fn answered(ping: impl Future<Output = Result<(), ClientError>>) -> Result<(), ApiError> {
    match Clock.deadline(Clock.after(TIMEOUT), ping).await {
        Ok(pong) => Ok(pong?),
        Err(_) => Err(ApiError::Unavailable(
            "the master does not answer".to_owned(),
        )),
    }
}

impl fmt::Debug for MasterConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected = self.client.initialized();
        f.debug_struct("MasterConnection")
            .field("connected", &connected)
            .finish_non_exhaustive()
    }
}
