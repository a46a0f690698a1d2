//! The tokens that let minions in, in a file of SQLite: their names, their digests, whom they let in until when, and which
//! minions used them. A use is on the disk before the key is accepted, so that no crash lets a token be used twice.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use saline_channel::PresentedToken;
use saline_messages::{
    MAX_TOKEN_TIME, MAX_TOKEN_USES, MasterTime, MinionId, NewToken, TokenEntry, TokenName,
    TokenRefusal,
};
use saline_targeting::Glob;

use crate::disk::{StoreError, columns, file};

/// The cache of the connection, in bytes.
const CACHE: usize = 128 * 1024;

/// The largest number of tokens that are valid at once.
const MAX_TOKENS: i64 = 1_000;

/// For how long a token that has expired is remembered, in milliseconds, so that its minion is told that it has expired.
const REMEMBERED: u64 = 86_400 * 1_000;

/// How far the master's time may be behind the time at which a token was made, in milliseconds: the clock of the machine was
/// set a little back while no master ran. A token that is further ahead was made before the time was set back.
const AHEAD: u64 = 60_000;

/// `name` is the number that the name of a token writes out. Times are milliseconds of the master's time.
const TABLES: &str = "
    CREATE TABLE tokens (
        name    INTEGER NOT NULL PRIMARY KEY,
        digest  BLOB    NOT NULL,
        minions TEXT    NOT NULL,
        made    INTEGER NOT NULL,
        until   INTEGER NOT NULL,
        uses    INTEGER NOT NULL,
        used    INTEGER NOT NULL,
        last    TEXT
    );
    CREATE TABLE uses (
        token  INTEGER NOT NULL,
        minion TEXT    NOT NULL,
        PRIMARY KEY (token, minion)
    ) WITHOUT ROWID;
";

/// The reason why a token was not kept.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The operator's request cannot be carried out as it is.
    #[error("{0}")]
    Invalid(String),
    /// The disk failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for TokenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The tokens of a master. Every call blocks on the disk.
#[derive(Debug)]
pub struct TokenStore {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// A row of `tokens`, as far as a use depends on it.
struct Row {
    digest: Vec<u8>,
    minions: String,
    made: MasterTime,
    until: MasterTime,
    uses: u32,
    used: u32,
}

impl TokenStore {
    /// Opens the file, which is created (0600) as needed.
    ///
    /// # Errors
    /// When it cannot be opened, or is not such a file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            saline_private_files::create_folder(folder)
                .map_err(|error| StoreError::io(folder, error))?;
        }
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(file::open_alone(path, CACHE, TABLES)?),
        })
    }

    /// Keeps a new token, unless it is kept already. Returns it.
    ///
    /// # Errors
    /// When a bound is exceeded, the glob is malformed, or the disk fails.
    pub fn make(&self, new: &NewToken, now: MasterTime) -> Result<TokenEntry, TokenError> {
        let invalid = |why: String| Err(TokenError::Invalid(why));
        if let Err(error) = Glob::compile(&new.minions) {
            return invalid(format!("{:?} is {error}", new.minions));
        }
        if new.minions.len() > 255 || new.minions.is_empty() {
            return invalid("a glob over ids has 1 to 255 characters".to_owned());
        }
        if !(1..=MAX_TOKEN_TIME).contains(&new.valid_ms) {
            return invalid("a token is valid for at most 90 days".to_owned());
        }
        if !(1..=MAX_TOKEN_USES).contains(&new.uses) {
            return invalid(format!("a token lets in 1 to {MAX_TOKEN_USES} minions"));
        }
        let name = number(new.name);
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        forget_expired(&transaction, now)?;
        let known: Option<Vec<u8>> = transaction
            .query_row("SELECT digest FROM tokens WHERE name = ?1", [name], |row| {
                row.get(0)
            })
            .optional()?;
        match known {
            Some(digest) if digest == new.digest => {}
            Some(_) => return invalid(format!("there is a token {} already", new.name)),
            None => {
                let valid: i64 = transaction.query_row(
                    "SELECT count(*) FROM tokens WHERE until > ?1",
                    [columns::from_time(now)],
                    |row| row.get(0),
                )?;
                if valid >= MAX_TOKENS {
                    return invalid(format!(
                        "there are {MAX_TOKENS} tokens already: revoke some with saline-key --revoke-token NAME, or make \
                         one for several minions (--uses)"
                    ));
                }
                transaction.execute(
                    "INSERT INTO tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, NULL)",
                    params![
                        name,
                        new.digest,
                        new.minions,
                        columns::from_time(now),
                        columns::from_time(now.saturating_add(new.valid_ms)),
                        new.uses
                    ],
                )?;
            }
        }
        let made = entry(&transaction, name)?;
        transaction.commit()?;
        made.ok_or_else(|| TokenError::Invalid("the token has gone again".to_owned()))
    }

    /// Returns the tokens that have not expired, in the order in which they expire.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn list(&self, now: MasterTime) -> Result<Vec<TokenEntry>, TokenError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT name, minions, until, uses, used, last FROM tokens WHERE until > ?1 AND made <= ?2 ORDER BY until, \
             name",
        )?;
        let latest = columns::from_time(now.saturating_add(AHEAD));
        let entries = statement.query_map([columns::from_time(now), latest], read_entry)?;
        Ok(entries.collect::<Result<_, _>>()?)
    }

    /// Forgets a token. Returns it; none if there was none.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn revoke(&self, name: TokenName) -> Result<Option<TokenEntry>, TokenError> {
        let name = number(name);
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let revoked = entry(&transaction, name)?;
        forget(&transaction, name)?;
        transaction.commit()?;
        Ok(revoked)
    }

    /// Takes a use of a token for a minion. When it returns, the use is on the disk.
    ///
    /// # Errors
    /// The reason why the token does not let this minion in.
    pub fn take_use(
        &self,
        token: &PresentedToken,
        minion: &MinionId,
        now: MasterTime,
    ) -> Result<(), TokenRefusal> {
        self.try_take_use(token, minion, now)
            .unwrap_or_else(|error| {
                tracing::error!(
                    "the tokens in {} cannot be used: {error}",
                    self.path.display()
                );
                Err(TokenRefusal::Unavailable)
            })
    }

    fn try_take_use(
        &self,
        token: &PresentedToken,
        minion: &MinionId,
        now: MasterTime,
    ) -> Result<Result<(), TokenRefusal>, rusqlite::Error> {
        let name = number(token.name);
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let row = transaction
            .prepare_cached(
                "SELECT digest, minions, made, until, uses, used FROM tokens WHERE name = ?1",
            )?
            .query_row([name], |row| {
                Ok(Row {
                    digest: row.get(0)?,
                    minions: row.get(1)?,
                    made: to_time(row.get(2)?),
                    until: to_time(row.get(3)?),
                    uses: row.get(4)?,
                    used: row.get(5)?,
                })
            })
            .optional()?;
        let Some(row) = row.filter(|row| token.has_digest(&row.digest)) else {
            return Ok(Err(TokenRefusal::Unknown));
        };
        if now.saturating_add(AHEAD) < row.made || now >= row.until {
            return Ok(Err(TokenRefusal::Expired));
        }
        let is_meant = Glob::compile(&row.minions).is_ok_and(|glob| glob.matches(minion.as_str()));
        if !is_meant {
            return Ok(Err(TokenRefusal::OtherId));
        }
        if row.used >= row.uses {
            return Ok(Err(TokenRefusal::Used));
        }
        let is_first = transaction.execute(
            "INSERT OR IGNORE INTO uses VALUES (?1, ?2)",
            params![name, minion.as_str()],
        )? > 0;
        // Once for each id, so that a minion whose key was deleted does not come back by itself.
        if !is_first {
            return Ok(Err(TokenRefusal::Used));
        }
        transaction.execute(
            "UPDATE tokens SET used = used + 1, last = ?2 WHERE name = ?1",
            params![name, minion.as_str()],
        )?;
        transaction.commit()?;
        Ok(Ok(()))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number that a name writes out.
fn number(name: TokenName) -> i64 {
    u32::from_be_bytes(name.0).into()
}

/// Returns the time in a column. One before 1970 is read as 1970: both are long past.
fn to_time(column: i64) -> MasterTime {
    MasterTime::try_from(column).unwrap_or(0)
}

fn entry(connection: &Connection, name: i64) -> Result<Option<TokenEntry>, rusqlite::Error> {
    connection
        .query_row(
            "SELECT name, minions, until, uses, used, last FROM tokens WHERE name = ?1",
            [name],
            read_entry,
        )
        .optional()
}

fn read_entry(row: &rusqlite::Row<'_>) -> Result<TokenEntry, rusqlite::Error> {
    let last: Option<String> = row.get(5)?;
    Ok(TokenEntry {
        name: TokenName(row.get::<_, u32>(0)?.to_be_bytes()),
        minions: row.get(1)?,
        until: to_time(row.get(2)?),
        uses: row.get(3)?,
        used: row.get(4)?,
        last: last.and_then(|id| MinionId::parse(&id).ok()),
    })
}

fn forget(connection: &Connection, name: i64) -> Result<(), rusqlite::Error> {
    connection.execute("DELETE FROM uses WHERE token = ?1", [name])?;
    connection.execute("DELETE FROM tokens WHERE name = ?1", [name])?;
    Ok(())
}

/// Forgets the tokens that expired a while ago, and those that were made before the master's time was set back.
fn forget_expired(connection: &Connection, now: MasterTime) -> Result<(), rusqlite::Error> {
    let mut statement =
        connection.prepare_cached("SELECT name FROM tokens WHERE until < ?1 OR made > ?2")?;
    let long_ago = columns::from_time(now.saturating_sub(REMEMBERED));
    let latest = columns::from_time(now.saturating_add(AHEAD));
    let names = statement.query_map([long_ago, latest], |row| row.get(0))?;
    for name in names.collect::<Result<Vec<i64>, _>>()? {
        forget(connection, name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
