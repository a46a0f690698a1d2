//! Stores the asynchronous runs of runners and wheels, so that their returns can be looked up.

use rusqlite::{Connection, params};
use saline_data::Packed;
use saline_messages::{Jid, PackedArguments, RunKind};

use super::{JobStore, StoreError, jid};
use crate::disk::columns;
use crate::disk::writer::StoreFile;

/// The bytes of a run beside its arguments, about.
const OVERHEAD: usize = 256;

/// A run of a function of the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRun {
    /// The jid of the run.
    pub jid: Jid,
    /// The kind of the function.
    pub kind: RunKind,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arg: PackedArguments,
    /// The user who asked, as the operator's program said.
    pub user: String,
    /// The operator by the name of its key.
    pub operator: String,
    /// How the run ended; none while it has not, and for ever if its master stopped before.
    pub end: Option<StoredRunEnd>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRunEnd {
    /// Whether it succeeded.
    pub success: bool,
    /// The value that the run returned.
    pub payload: Packed,
}

impl JobStore {
    /// Stores a run that begins, or one that has ended already.
    ///
    /// # Errors
    /// When SQLite fails; nothing was stored.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the run or not.
    pub async fn store_run(&self, run: StoredRun) -> Result<(), StoreError> {
        let number = number(&run.jid)?;
        let payload = run
            .end
            .as_ref()
            .map_or(0, |end| end.payload.as_bytes().len());
        let bytes = OVERHEAD + run.arg.as_packed().as_bytes().len() + payload;
        let act = move |connection: &Connection| {
            connection
                .prepare_cached(
                    "INSERT INTO runs (jid, kind, fun, arg, user, operator, success, payload)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (jid) DO NOTHING",
                )?
                .execute(params![
                    number,
                    run.kind.name(),
                    run.fun,
                    run.arg.as_packed().as_bytes(),
                    run.user,
                    run.operator,
                    run.end.as_ref().map(|end| end.success),
                    run.end.as_ref().map(|end| end.payload.as_bytes()),
                ])?;
            Ok(())
        };
        let place = StoreFile::NewJob(number);
        self.writer.call(place, bytes, act, |_| {}).await
    }

    /// Stores how a run ended.
    ///
    /// # Errors
    /// `Removed` when the run was pruned meanwhile; otherwise when SQLite fails.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the end or not.
    pub async fn end_run(&self, jid: &Jid, end: StoredRunEnd) -> Result<(), StoreError> {
        let number = number(jid)?;
        let start = self.partitions.holding(number).ok_or(StoreError::Removed)?;
        let bytes = OVERHEAD + end.payload.as_bytes().len();
        let act = move |connection: &Connection| {
            connection
                .prepare_cached("UPDATE runs SET success = ?2, payload = ?3 WHERE jid = ?1")?
                .execute(params![number, end.success, end.payload.as_bytes()])?;
            Ok(())
        };
        let place = StoreFile::Partition(start);
        self.writer.call(place, bytes, act, |_| {}).await
    }

    /// Returns a run; none if there is no such run.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn run(&self, jid: &Jid) -> Result<Option<StoredRun>, StoreError> {
        let Some(number) = jid::to_micros(jid) else {
            return Ok(None);
        };
        self.read(number, move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT fun, arg, user, operator, success, payload, kind FROM runs WHERE jid = ?1",
            )?;
            let mut found = statement.query([number])?;
            let Some(row) = found.next()? else {
                return Ok(None);
            };
            let text = |column| columns::text(row, column).map(str::to_owned);
            let bytes = |column| columns::blob(row, column).map(<[u8]>::to_vec);
            let end = match row.get::<_, Option<bool>>(4)? {
                Some(success) => Some(StoredRunEnd {
                    success,
                    payload: Packed::from_bytes(bytes(5)?),
                }),
                None => None,
            };
            let kind = columns::text(row, 6)?;
            let kind = RunKind::parse(kind)
                .ok_or_else(|| StoreError::corrupt("the kind of a run", kind))?;
            Ok(Some(StoredRun {
                jid: jid::from_micros(number),
                kind,
                fun: text(0)?,
                arg: PackedArguments::from_packed(Packed::from_bytes(bytes(1)?)),
                user: text(2)?,
                operator: text(3)?,
                end,
            }))
        })
        .await
    }

    /// Returns the metadata of a job, if it has some.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn metadata(&self, jid: &Jid) -> Result<Option<Packed>, StoreError> {
        let Some(number) = jid::to_micros(jid) else {
            return Ok(None);
        };
        self.read(number, move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT metadata FROM metadata WHERE jid = ?1")?;
            let mut found = statement.query([number])?;
            let row = found.next()?;
            row.map(|row| Ok(Packed::from_bytes(columns::blob(row, 0)?.to_vec())))
                .transpose()
        })
        .await
    }
}

fn number(jid: &Jid) -> Result<i64, StoreError> {
    jid::to_micros(jid).ok_or_else(|| StoreError::corrupt("a jid that is a time", jid.as_str()))
}
