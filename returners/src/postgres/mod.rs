//! The destination `postgres`: a database of PostgreSQL.
//!
//! A batch is one transaction. The tables are ours (`own_tables.rs`), which are made and migrated here, or those of Salt's
//! returner of the same name (`salt_tables.rs`). In both a record that comes again changes nothing.

mod batch;
mod job_cache;
mod own_tables;
mod page;
mod salt_tables;
mod session;

use async_trait::async_trait;
use saline_config::{PostgresReturner, PostgresSchema};
use saline_protocol::transport::Context;
use tokio_postgres::{Client, Error};

use crate::{DeliveryError, Destination, Record};
use batch::Batch;
pub(crate) use job_cache::PostgresJobs;
use session::Session;

/// A database of PostgreSQL.
#[derive(Debug)]
pub(crate) struct Postgres {
    settings: PostgresReturner,
    context: Context,
    /// None before the first delivery, and after one that failed.
    session: Option<Session>,
}

/// The reason why a transaction failed.
#[derive(Debug)]
enum Failure {
    Database(Error),
    Other(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl Postgres {
    pub(crate) fn new(settings: PostgresReturner, context: Context) -> Self {
        Self {
            settings,
            context,
            session: None,
        }
    }

    async fn connect(settings: &PostgresReturner, context: &Context) -> Result<Session, String> {
        let mut session = Session::connect(settings, context).await?;
        let schema = settings.schema;
        let prepared = session.run(async |client| match schema {
            PostgresSchema::Saline => own_tables::prepare(client).await,
            PostgresSchema::Salt => salt_tables::prepare(client).await,
        });
        prepared.await.map_err(|failure| failure.to_string())?;
        Ok(session)
    }
}

#[async_trait]
impl Destination for Postgres {
    async fn deliver(&mut self, records: &[Record]) -> Result<(), DeliveryError> {
        // Taken out, so that a session whose transaction was given up half-way is not used again.
        let mut session = match self.session.take() {
            Some(session) => session,
            None => Self::connect(&self.settings, &self.context)
                .await
                .map_err(DeliveryError::Away)?,
        };
        let (batch, schema) = (Batch::of(records), self.settings.schema);
        let stored = session.run(async |client| store(client, &batch, schema).await);
        match stored.await {
            Ok(()) => {
                self.session = Some(session);
                Ok(())
            }
            Err(failure) if failure.is_of_the_data() => {
                Err(DeliveryError::Refused(failure.to_string()))
            }
            Err(failure) => Err(DeliveryError::Away(failure.to_string())),
        }
    }
}

/// Inserts a batch; what is there stays as it is.
async fn store(client: &mut Client, batch: &Batch, schema: PostgresSchema) -> Result<(), Failure> {
    let transaction = client.transaction().await?;
    let Batch {
        jobs,
        returns,
        events,
    } = batch;
    if !jobs.jid.is_empty() {
        match schema {
            PostgresSchema::Saline => own_tables::insert_jobs(&transaction, jobs).await?,
            PostgresSchema::Salt => salt_tables::insert_jobs(&transaction, jobs).await?,
        }
    }
    if !returns.jid.is_empty() {
        match schema {
            PostgresSchema::Saline => own_tables::insert_returns(&transaction, returns).await?,
            PostgresSchema::Salt => salt_tables::insert_returns(&transaction, returns).await?,
        }
    }
    if !events.number.is_empty() {
        match schema {
            PostgresSchema::Saline => own_tables::insert_events(&transaction, events).await?,
            PostgresSchema::Salt => salt_tables::insert_events(&transaction, events).await?,
        }
    }
    Ok(transaction.commit().await?)
}

impl Failure {
    /// Whether the database refuses the values themselves (class 22 of SQLSTATE).
    fn is_of_the_data(&self) -> bool {
        match self {
            Self::Database(error) => error
                .code()
                .is_some_and(|code| code.code().starts_with("22")),
            Self::Other(_) => false,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(error) => f.write_str(&explained(error)),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// Returns what an error of the client says, in one line.
fn explained(error: &Error) -> String {
    if let Some(database) = error.as_db_error() {
        return format!("{}: {}", database.severity(), database.message());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
