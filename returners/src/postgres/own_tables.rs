//! The tables `saline_jobs`, `saline_returns` and `saline_events`. Their version is the only row of `saline_schema`.

use tokio_postgres::{Client, Row, Transaction};

use super::Failure;
use super::batch::{Events, Jobs, Returns};
use super::page::page;
use crate::cached_job::{CachedJob, CachedReturn, read_ids, read_json, read_value};

/// The migrations, in their order: the version is the number of those that were made.
const MIGRATIONS: [&str; 2] = [
    "
    CREATE TABLE saline_jobs (
        jid       text        PRIMARY KEY,
        published timestamptz NOT NULL,
        fun       text        NOT NULL,
        arg       jsonb,
        tgt       text        NOT NULL,
        tgt_type  text        NOT NULL,
        username  text        NOT NULL,
        operator  text        NOT NULL,
        minions   jsonb
    );
    CREATE INDEX saline_jobs_published ON saline_jobs (published);
    CREATE TABLE saline_returns (
        jid      text        NOT NULL,
        minion   text        NOT NULL,
        received timestamptz NOT NULL,
        fun      text        NOT NULL,
        fun_args jsonb,
        return   jsonb,
        retcode  bigint      NOT NULL,
        success  boolean     NOT NULL,
        PRIMARY KEY (jid, minion)
    );
    CREATE INDEX saline_returns_minion ON saline_returns (minion, received);
    CREATE INDEX saline_returns_received ON saline_returns (received);
    CREATE TABLE saline_events (
        number bigint      PRIMARY KEY,
        fired  timestamptz NOT NULL,
        tag    text        NOT NULL,
        origin jsonb       NOT NULL,
        data   jsonb       NOT NULL
    );
    CREATE INDEX saline_events_fired ON saline_events (fired);
    ",
    // A kept event and a publication or return come from two stores, which may give them one number.
    "
    ALTER TABLE saline_events DROP CONSTRAINT saline_events_pkey, ADD PRIMARY KEY (number, tag);
    ",
];

/// The number of the lock under which the tables are migrated, so that two masters do not do it at once.
const MIGRATION_LOCK: i64 = i64::from_be_bytes(*b"saline\0\0");

/// Brings the tables to the present version.
pub(super) async fn prepare(client: &mut Client) -> Result<(), Failure> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
        .await?;
    let found = transaction.query_one("SELECT to_regclass('saline_schema') IS NOT NULL", &[]);
    if !found.await?.get::<_, bool>(0) {
        let create = "CREATE TABLE saline_schema (version integer NOT NULL);
                      INSERT INTO saline_schema VALUES (0);";
        transaction.batch_execute(create).await?;
    }
    let version = transaction.query_one("SELECT version FROM saline_schema", &[]);
    let version: i32 = version.await?.get(0);
    let made = usize::try_from(version).unwrap_or(usize::MAX);
    let missing = MIGRATIONS.get(made..).ok_or_else(|| {
        Failure::Other(format!(
            "the tables have version {version}, and this master knows {}: a later one made them",
            MIGRATIONS.len()
        ))
    })?;
    for migration in missing {
        transaction.batch_execute(migration).await?;
    }
    if !missing.is_empty() {
        let version = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
        transaction
            .execute("UPDATE saline_schema SET version = $1", &[&version])
            .await?;
    }
    Ok(transaction.commit().await?)
}

/// Inserts jobs; a row that is there stays as it is.
pub(super) async fn insert_jobs(transaction: &Transaction<'_>, jobs: &Jobs) -> Result<(), Failure> {
    transaction
        .execute(
            "INSERT INTO saline_jobs
                 (jid, published, fun, arg, tgt, tgt_type, username, operator, minions)
             SELECT jid, timestamptz 'epoch' + number * interval '1 microsecond', fun, arg::jsonb,
                    tgt, tgt_type, username, operator, minions::jsonb
             FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                         $7::text[], $8::text[], $9::text[])
                 AS new (jid, number, fun, arg, tgt, tgt_type, username, operator, minions)
             ON CONFLICT (jid) DO NOTHING",
            &[
                &jobs.jid,
                &jobs.number,
                &jobs.fun,
                &jobs.arg,
                &jobs.tgt,
                &jobs.tgt_type,
                &jobs.user,
                &jobs.operator,
                &jobs.minions,
            ],
        )
        .await?;
    Ok(())
}

/// Inserts returns. A row that is there stays as it is, unless the return was stored later: the store has one return of a
/// minion for a job, and replaces that of a copy of the minion which took the run for interrupted.
pub(super) async fn insert_returns(
    transaction: &Transaction<'_>,
    returns: &Returns,
) -> Result<(), Failure> {
    transaction
        .execute(
            "INSERT INTO saline_returns
                 (jid, minion, received, fun, fun_args, return, retcode, success)
             SELECT DISTINCT ON (jid, minion)
                    jid, minion, timestamptz 'epoch' + number * interval '1 microsecond', fun,
                    fun_args::jsonb, value::jsonb, retcode, success
             FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[],
                         $7::bigint[], $8::boolean[])
                 AS new (jid, minion, number, fun, fun_args, value, retcode, success)
             ORDER BY jid, minion, number DESC
             ON CONFLICT (jid, minion) DO UPDATE
             SET (received, return, retcode, success) =
                 (excluded.received, excluded.return, excluded.retcode, excluded.success)
             WHERE excluded.received > saline_returns.received",
            &[
                &returns.jid,
                &returns.minion,
                &returns.number,
                &returns.fun,
                &returns.fun_args,
                &returns.value,
                &returns.retcode,
                &returns.success,
            ],
        )
        .await?;
    Ok(())
}

/// Inserts events; a row that is there stays as it is.
pub(super) async fn insert_events(
    transaction: &Transaction<'_>,
    events: &Events,
) -> Result<(), Failure> {
    transaction
        .execute(
            "INSERT INTO saline_events (number, fired, tag, origin, data)
             SELECT number, timestamptz 'epoch' + number * interval '1 microsecond', tag,
                    origin::jsonb, data::jsonb
             FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
                 AS new (number, tag, origin, data)
             ON CONFLICT (number, tag) DO NOTHING",
            &[&events.number, &events.tag, &events.origin, &events.data],
        )
        .await?;
    Ok(())
}

/// The columns of a job, in the order in which [`cached_job`] reads them.
const JOB: &str =
    "jid, fun, arg::text AS arg, tgt, tgt_type, username, operator, minions::text AS minions";

/// Returns a job.
pub(super) async fn job(client: &Client, jid: &str) -> Result<Option<CachedJob>, Failure> {
    let sql = format!("SELECT {JOB} FROM saline_jobs WHERE jid = $1");
    let found = client.query_opt(&sql, &[&jid]).await?;
    found.as_ref().map(cached_job).transpose()
}

/// Returns a page of the jobs between two jids, the newest first.
pub(super) async fn jobs(
    client: &Client,
    from: &str,
    before: &str,
) -> Result<Vec<CachedJob>, Failure> {
    let rows = format!(
        "SELECT {JOB}, coalesce(octet_length(arg::text), 0) + coalesce(octet_length(minions::text), 0) AS size
         FROM saline_jobs WHERE jid >= $1 AND jid < $2 ORDER BY jid DESC"
    );
    let found = page(client, &rows, "jid DESC", [from, before]).await?;
    found.iter().map(cached_job).collect()
}

/// Returns a page of the returns of a job.
pub(super) async fn returns(
    client: &Client,
    jid: &str,
    after: &str,
) -> Result<Vec<CachedReturn>, Failure> {
    let rows = "SELECT minion, return::text AS return, retcode, success, coalesce(octet_length(return::text), 0) AS size
                FROM saline_returns WHERE jid = $1 AND minion > $2 ORDER BY minion";
    let found = page(client, rows, "minion", [jid, after]).await?;
    let returns = found.iter().map(|row| {
        Ok(CachedReturn {
            minion: row.try_get(0)?,
            value: read_value(row.try_get(1)?),
            retcode: row.try_get(2)?,
            success: row.try_get(3)?,
        })
    });
    returns.collect()
}

fn cached_job(row: &Row) -> Result<CachedJob, Failure> {
    let (arg, minions): (Option<&str>, Option<&str>) = (row.try_get(2)?, row.try_get(7)?);
    Ok(CachedJob {
        jid: row.try_get(0)?,
        fun: row.try_get(1)?,
        arg: arg.and_then(read_json).unwrap_or_default(),
        target: row.try_get(3)?,
        target_kind: row.try_get(4)?,
        user: row.try_get(5)?,
        operator: row.try_get(6)?,
        minions: read_ids(minions.and_then(read_json).as_ref()),
    })
}
