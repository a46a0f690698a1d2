//! A session with a server of PostgreSQL.
//!
//! The connection has no task of its own: it is driven while something is asked of it, and by nothing in between.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};
use saline_config::{PostgresReturner, PostgresTls};
use saline_protocol::transport::Context;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Failure, explained};
use crate::tls;

/// How long the server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// What the client says of a server that does not speak TLS.
const NO_TLS: &str = "server does not support TLS";

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
                "cannot connect to the database {shown}: {}{}",
                explained(&error),
                remedy(&error)
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

/// Returns what to do where TLS is why there is no connection.
fn remedy(error: &Error) -> &'static str {
    let Some(cause) = std::error::Error::source(error) else {
        return "";
    };
    if cause.to_string() == NO_TLS {
        return "; set ssl in its postgresql.conf (over a Unix socket it never does), or take returner.postgres.sslmode: disable, \
                with which everything goes unencrypted";
    }
    let cause = cause
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match cause.and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "; set returner.postgres.host to a name in that certificate",
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => {
            "; name the file with the authority of that server's certificate in returner.postgres.sslrootcert"
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "; that server needs a new certificate (or this machine's clock is wrong)",
        Some(rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)) => {
            "; the server has to speak TLS 1.3 (ssl_max_protocol_version in its postgresql.conf)"
        }
        _ => "",
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
