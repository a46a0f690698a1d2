//! The tables of a partition of the job store.

use crate::disk::file::Contents;

/// The contents of the job store.
pub(crate) const JOBS: Contents = Contents {
    name: "the job store",
    tables: PARTITION,
};

/// The tables of a partition.
///
/// A jid is stored as the microseconds that it writes out, so it is the row's number. A return's number of receipt is its
/// row's number: rows are only ever appended, and no return has an index of its own beside `returns_of`. The states of a
/// job's minions at its publication are one value; `state_changes` has those that have changed since, unless a return tells,
/// and `running_minions` finds the minions that run a job. `heartbeats` is how many heartbeats of a minion the master had
/// heard of when it offered the job. `batch` is how a job is carried out in batches, and NULL for a job that is no batch. A
/// job has a receipt number too, since jids are not stored in their order. `parts` is the number of the first part of a
/// payload that came in parts; until all are here, a row of `transfers` has that number. Few jobs have metadata, and a search
/// for metadata reads all of them. `job_returners` has the names, with spaces between them, of the destinations that an order
/// named for the returns of its job. `job_secrets` has rows of jobs under way alone, sealed under a key that is elsewhere. In
/// `runs`, `success` and `payload` are NULL until the run has ended.
const PARTITION: &str = "
    CREATE TABLE jobs (
        jid        INTEGER NOT NULL PRIMARY KEY,
        created    INTEGER NOT NULL,
        expires    INTEGER NOT NULL,
        request_id BLOB    NOT NULL,
        signature  BLOB    NOT NULL,
        fun        TEXT    NOT NULL,
        user       TEXT    NOT NULL,
        operator   TEXT    NOT NULL,
        tgt_type   TEXT    NOT NULL,
        tgt        TEXT    NOT NULL,
        arg        BLOB    NOT NULL,
        unknown    BLOB    NOT NULL,
        claims     BLOB    NOT NULL,
        cancelled  INTEGER NOT NULL,
        states     BLOB    NOT NULL,
        heartbeats BLOB,
        batch      BLOB,
        receipt    INTEGER NOT NULL
    );
    CREATE INDEX jobs_receipt ON jobs (receipt);
    CREATE INDEX jobs_expires ON jobs (expires);
    CREATE TABLE state_changes (
        jid        INTEGER NOT NULL,
        minion     TEXT    NOT NULL,
        state      INTEGER NOT NULL,
        heartbeats INTEGER NOT NULL,
        PRIMARY KEY (jid, minion)
    ) WITHOUT ROWID;
    CREATE INDEX running_minions ON state_changes (jid) WHERE state = 3;
    CREATE TABLE returns (
        receipt INTEGER NOT NULL PRIMARY KEY,
        jid     INTEGER NOT NULL,
        minion  TEXT    NOT NULL,
        retcode INTEGER NOT NULL,
        success INTEGER NOT NULL,
        payload BLOB    NOT NULL,
        parts   INTEGER
    );
    CREATE UNIQUE INDEX returns_of ON returns (jid, minion);
    CREATE INDEX returns_parts ON returns (parts) WHERE parts IS NOT NULL;
    CREATE TABLE return_parts (
        number INTEGER NOT NULL PRIMARY KEY,
        bytes  BLOB    NOT NULL
    );
    CREATE TABLE transfers (
        first  INTEGER NOT NULL PRIMARY KEY,
        jid    INTEGER NOT NULL,
        minion TEXT    NOT NULL,
        id     BLOB    NOT NULL,
        total  INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX transfers_of ON transfers (jid, minion);
    CREATE TABLE request_log (
        request_id BLOB    NOT NULL PRIMARY KEY,
        reply      BLOB    NOT NULL,
        created    INTEGER NOT NULL
    );
    CREATE TABLE metadata (
        jid      INTEGER NOT NULL PRIMARY KEY,
        metadata BLOB    NOT NULL
    );
    CREATE TABLE job_returners (
        jid   INTEGER NOT NULL PRIMARY KEY,
        names TEXT    NOT NULL
    );
    CREATE TABLE job_secrets (
        jid    INTEGER NOT NULL PRIMARY KEY,
        sealed BLOB    NOT NULL
    );
    CREATE TABLE runs (
        jid      INTEGER NOT NULL PRIMARY KEY,
        kind     TEXT    NOT NULL,
        fun      TEXT    NOT NULL,
        arg      BLOB    NOT NULL,
        user     TEXT    NOT NULL,
        operator TEXT    NOT NULL,
        success  INTEGER,
        payload  BLOB
    );
";
