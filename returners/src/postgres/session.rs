//! A session with a server of PostgreSQL.
//!
//! The connection has no task of its own: it is driven while something is asked of it, and by nothing in between.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use saline_config::{PostgresReturner, PostgresTls};
use saline_protocol::transport::Context;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Failure, explained};
use crate::tls;

/// How long the server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

type Connection = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A session. Dropping it closes the connection.
pub(super) struct Session {
    client: Client,
    connection: Connection,
}

impl Session {
    /// Connects to the server that the settings name.
    ///
    /// # Errors
    /// One line that says why not.
    pub(super) async fn connect(
        settings: &PostgresReturner,
        context: &Context,
    ) -> Result<Self, String> {
        let mut config = Config::new();
        config
            .host(&settings.host)
            .port(settings.port)
            .user(&settings.user)
            .dbname(&settings.db)
            .application_name("saline-master")
            .connect_timeout(CONNECT);
        if let Some(password) = &settings.passwd {
            config.password(password.expose());
        }
        let shown = format!("{} at {}:{}", settings.db, settings.host, settings.port);
        let failed = |error: Error| {
            format!(
                "cannot connect to the database {shown}: {}",
                explained(&error)
            )
        };
        match settings.tls() {
            PostgresTls::Disable => {
                config.ssl_mode(SslMode::Disable);
                let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
                let connection: Connection = Box::pin(connection);
                Ok(Self { client, connection })
            }
            PostgresTls::VerifyFull => {
                config.ssl_mode(SslMode::Require);
                let client = tls::client(settings.authorities.as_deref(), context).await?;
                let tls = MakeRustlsConnect::new((*client).clone());
                let (client, connection) = config.connect(tls).await.map_err(failed)?;
                let connection: Connection = Box::pin(connection);
                Ok(Self { client, connection })
            }
        }
    }

    /// Runs `work` while the connection is driven.
    ///
    /// # Errors
    /// Those of `work`, and when the connection ends first.
    pub(super) async fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { client, connection } = self;
        tokio::select! {
            biased;
            done = work(client) => done,
            ended = connection => {
                ended?;
                Err(Failure::Other("the server closed the connection".to_owned()))
            }
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
