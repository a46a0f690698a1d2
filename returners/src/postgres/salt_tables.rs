//! The tables of Salt's returner `postgres`: `jids`, `salt_returns` and `salt_events`, so that what reads them goes on working.
//!
//! Those that are missing are made. Salt's have no key by which a return or an event that comes again is recognised, so that is
//! looked for: a return by its jid and minion, an event by its tag, its time and the name of its master.

use saline_data::Value;
use tokio_postgres::{Client, Row, Transaction};

use super::Failure;
use super::batch::{Events, Jobs, Returns};
use super::page::page;
use crate::cached_job::{CachedJob, CachedReturn, NoValue, read_ids, read_json, read_value};
use crate::columns::{flag, number, text};

/// Each table, and the statements that make it with the columns and the indexes that it has in Salt. `saline_event_times` is
/// ours: an event is looked for by its time.
const TABLES: [(&str, &str); 3] = [
    (
        "jids",
        "CREATE TABLE jids (jid varchar(20) PRIMARY KEY, load text NOT NULL)",
    ),
    (
        "salt_returns",
        "CREATE TABLE salt_returns (
             fun        varchar(50)  NOT NULL,
             jid        varchar(255) NOT NULL,
             return     text         NOT NULL,
             full_ret   text,
             id         varchar(255) NOT NULL,
             success    varchar(10)  NOT NULL,
             alter_time timestamptz  DEFAULT now()
         );
         CREATE INDEX idx_salt_returns_id ON salt_returns (id);
         CREATE INDEX idx_salt_returns_jid ON salt_returns (jid);
         CREATE INDEX idx_salt_returns_fun ON salt_returns (fun);
         CREATE INDEX idx_salt_returns_updated ON salt_returns (alter_time);",
    ),
    (
        "salt_events",
        "CREATE SEQUENCE seq_salt_events_id;
         CREATE TABLE salt_events (
             id         bigint       NOT NULL UNIQUE DEFAULT nextval('seq_salt_events_id'),
             tag        varchar(255) NOT NULL,
             data       text         NOT NULL,
             alter_time timestamptz  DEFAULT now(),
             master_id  varchar(255) NOT NULL
         );
         CREATE INDEX idx_salt_events_tag ON salt_events (tag);
         CREATE INDEX saline_event_times ON salt_events (alter_time);",
    ),
];

/// Makes the tables that are missing. Who has them made needs no right to make any.
pub(super) async fn prepare(client: &mut Client) -> Result<(), Failure> {
    let transaction = client.transaction().await?;
    for (table, create) in TABLES {
        let known = "SELECT to_regclass($1::text) IS NOT NULL";
        let found = transaction.query_one(known, &[&table]).await?;
        if !found.get::<_, bool>(0) {
            transaction.batch_execute(create).await?;
        }
    }
    Ok(transaction.commit().await?)
}

/// Inserts jobs; a row that is there stays as it is.
pub(super) async fn insert_jobs(transaction: &Transaction<'_>, jobs: &Jobs) -> Result<(), Failure> {
    transaction
        .execute(
            "INSERT INTO jids (jid, load)
             SELECT jid, load FROM unnest($1::text[], $2::text[]) AS new (jid, load)
             ON CONFLICT (jid) DO NOTHING",
            &[&jobs.jid, &jobs.data],
        )
        .await?;
    Ok(())
}

/// Inserts returns, but for those whose jid and minion a row has that was stored no earlier. An earlier one goes, as in
/// our own tables.
pub(super) async fn insert_returns(
    transaction: &Transaction<'_>,
    returns: &Returns,
) -> Result<(), Failure> {
    transaction
        .execute(
            "DELETE FROM salt_returns AS known
             USING unnest($1::text[], $2::text[], $3::bigint[]) AS new (jid, minion, number)
             WHERE known.jid = new.jid AND known.id = new.minion
               AND known.alter_time
                   < timestamptz 'epoch' + new.number * interval '1 microsecond'",
            &[&returns.jid, &returns.minion, &returns.number],
        )
        .await?;
    transaction
        .execute(
            "INSERT INTO salt_returns (fun, jid, return, full_ret, id, success, alter_time)
             SELECT DISTINCT ON (jid, minion)
                    left(fun, 50), jid, coalesce(value, 'null'), full_ret, minion,
                    CASE WHEN success THEN 'true' ELSE 'false' END,
                    timestamptz 'epoch' + number * interval '1 microsecond'
             FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[],
                         $7::boolean[])
                 AS new (jid, minion, number, fun, value, full_ret, success)
             WHERE NOT EXISTS (SELECT 1 FROM salt_returns AS known
                               WHERE known.jid = new.jid AND known.id = new.minion)
             ORDER BY jid, minion, number DESC",
            &[
                &returns.jid,
                &returns.minion,
                &returns.number,
                &returns.fun,
                &returns.value,
                &returns.data,
                &returns.success,
            ],
        )
        .await?;
    Ok(())
}

/// Inserts events, but for those whose time and tag a row of this master has.
pub(super) async fn insert_events(
    transaction: &Transaction<'_>,
    events: &Events,
) -> Result<(), Failure> {
    let master = master_id();
    transaction
        .execute(
            "INSERT INTO salt_events (tag, data, alter_time, master_id)
             SELECT left(tag, 255), data, fired, $4::text
             FROM (SELECT tag, data, timestamptz 'epoch' + number * interval '1 microsecond' AS fired
                   FROM unnest($1::bigint[], $2::text[], $3::text[]) AS given (number, tag, data))
                 AS new
             WHERE NOT EXISTS (SELECT 1 FROM salt_events AS known
                               WHERE known.alter_time = new.fired AND known.tag = left(new.tag, 255)
                                 AND known.master_id = $4::text)",
            &[&events.number, &events.tag, &events.data, &master],
        )
        .await?;
    Ok(())
}

/// Returns the name of this master, as Salt makes it by default.
fn master_id() -> String {
    let system = rustix::system::uname();
    format!("{}_master", system.nodename().to_string_lossy())
}

/// Returns a job.
pub(super) async fn job(client: &Client, jid: &str) -> Result<Option<CachedJob>, Failure> {
    let sql = "SELECT jid, load FROM jids WHERE jid = $1";
    let found = client.query_opt(sql, &[&jid]).await?;
    found.as_ref().map(cached_job).transpose()
}

/// Returns a page of the jobs between two jids, the newest first.
pub(super) async fn jobs(
    client: &Client,
    from: &str,
    before: &str,
) -> Result<Vec<CachedJob>, Failure> {
    let rows = "SELECT jid, load, octet_length(load) AS size FROM jids
                WHERE jid >= $1 AND jid < $2 ORDER BY jid DESC";
    let found = page(client, rows, "jid DESC", [from, before]).await?;
    found.iter().map(cached_job).collect()
}

/// Returns a page of the returns of a job. Of several of one minion, which Salt may have written, the first counts.
pub(super) async fn returns(
    client: &Client,
    jid: &str,
    after: &str,
) -> Result<Vec<CachedReturn>, Failure> {
    let rows =
        "SELECT DISTINCT ON (id) id, full_ret, success, CASE WHEN full_ret IS NULL THEN return END AS value,
                       octet_length(coalesce(full_ret, return)) AS size
                FROM salt_returns WHERE jid = $1 AND id > $2 ORDER BY id, alter_time";
    let found = page(client, rows, "id", [jid, after]).await?;
    let returns = found.iter().map(|row| {
        let (full, success): (Option<&str>, &str) = (row.try_get(1)?, row.try_get(2)?);
        let full = full.map(|full| read_value(Some(full))).transpose();
        let value = match &full {
            // This master writes both columns, Salt's row without the first has the value in the other.
            Ok(None) => read_value(row.try_get(3)?),
            Ok(Some(full @ Value::Map(_))) => full.get("return").cloned().ok_or(NoValue::TooLarge),
            Ok(Some(_)) => Err(NoValue::Unreadable),
            Err(why) => Err(*why),
        };
        let full = full.ok().flatten().unwrap_or_default();
        Ok(CachedReturn {
            minion: row.try_get(0)?,
            value,
            retcode: number(&full, "retcode"),
            // Salt writes the word as Python has it.
            success: match full.get("success") {
                Some(Value::Bool(_)) => flag(&full, "success"),
                _ => success.eq_ignore_ascii_case("true"),
            },
        })
    });
    returns.collect()
}

fn cached_job(row: &Row) -> Result<CachedJob, Failure> {
    let load: &str = row.try_get(1)?;
    let load = read_json(load).unwrap_or_default();
    Ok(CachedJob {
        jid: row.try_get(0)?,
        fun: text(&load, "fun"),
        arg: load.get("arg").cloned().unwrap_or_default(),
        target: text(&load, "tgt"),
        target_kind: text(&load, "tgt_type"),
        user: text(&load, "user"),
        operator: text(&load, "operator"),
        minions: read_ids(load.get("minions").or_else(|| load.get("Minions"))),
    })
}
