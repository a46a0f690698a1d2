//! Reads jobs and returns back from a database of PostgreSQL, in the tables of either schema.

use saline_config::{PostgresReturner, PostgresSchema};
use saline_protocol::transport::Context;
use tokio::sync::OwnedSemaphorePermit;

use super::session::Session;
use super::{Failure, Postgres, own_tables, salt_tables};
use crate::cached_job::{CachedJob, CachedReturn};

/// A database from which jobs are read.
#[derive(Debug)]
pub(crate) struct PostgresJobs {
    session: Session,
    schema: PostgresSchema,
    /// Counts this reader among those that read at once.
    _turn: OwnedSemaphorePermit,
}

impl PostgresJobs {
    pub(crate) async fn open(
        settings: &PostgresReturner,
        context: &Context,
        turn: OwnedSemaphorePermit,
    ) -> Result<Self, String> {
        Ok(Self {
            session: Postgres::connect(settings, context).await?,
            schema: settings.schema,
            _turn: turn,
        })
    }

    pub(crate) async fn job(&mut self, jid: &str) -> Result<Option<CachedJob>, String> {
        let schema = self.schema;
        let read = self.session.run(async |client| match schema {
            PostgresSchema::Saline => own_tables::job(client, jid).await,
            PostgresSchema::Salt => salt_tables::job(client, jid).await,
        });
        read.await.map_err(told)
    }

    pub(crate) async fn jobs(
        &mut self,
        from: &str,
        before: &str,
    ) -> Result<Vec<CachedJob>, String> {
        let schema = self.schema;
        let read = self.session.run(async |client| match schema {
            PostgresSchema::Saline => own_tables::jobs(client, from, before).await,
            PostgresSchema::Salt => salt_tables::jobs(client, from, before).await,
        });
        read.await.map_err(told)
    }

    pub(crate) async fn returns(
        &mut self,
        jid: &str,
        after: &str,
    ) -> Result<Vec<CachedReturn>, String> {
        let schema = self.schema;
        let read = self.session.run(async |client| match schema {
            PostgresSchema::Saline => own_tables::returns(client, jid, after).await,
            PostgresSchema::Salt => salt_tables::returns(client, jid, after).await,
        });
        read.await.map_err(told)
    }
}

fn told(failure: Failure) -> String {
    failure.to_string()
}
