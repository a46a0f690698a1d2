//! The file of the mine: a table of SQLite with an entry of a minion in each row, private to the master's user (0600). An answer to
//! a minion that leaves something follows the commit. Every call blocks on the disk.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use saline_data::Packed;
use saline_messages::{MAX_MINE_BYTES, MAX_MINE_ENTRIES, MineEntry, MinionId, decode, encode};
use saline_targeting::Target;

use crate::disk::StoreError;
use crate::disk::file::{self, Access, Contents};

/// The cache of a connection, in bytes.
const CACHE: usize = 4 * 1024 * 1024;

/// The number of connections that read, each for one thread at a time.
pub(super) const READERS: usize = 4;

/// `size` counts as [`MineEntry::size`] does. `allowed` is an encoded target. `digest` is that of the entry.
const CONTENTS: Contents = Contents {
    name: "mine",
    tables: "
    CREATE TABLE entries (
        name    TEXT    NOT NULL,
        minion  TEXT    NOT NULL,
        size    INTEGER NOT NULL,
        digest  BLOB    NOT NULL,
        allowed BLOB,
        value   BLOB    NOT NULL,
        PRIMARY KEY (name, minion)
    ) WITHOUT ROWID;
    CREATE INDEX by_minion ON entries (minion, name, size, digest);
",
};

/// An entry as it is read.
pub(super) struct Row<'a> {
    pub(super) minion: &'a str,
    pub(super) value: &'a [u8],
    /// The encoded target of the minions that may get it; none for all.
    pub(super) allowed: Option<&'a [u8]>,
}

/// The entries of all minions.
#[derive(Debug)]
pub(super) struct MineStore {
    writing: Mutex<Connection>,
    reading: Mutex<Vec<Connection>>,
    entries: AtomicI64,
    bytes: AtomicI64,
}

/// The entries of one minion, or of all: how many, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    entries: i64,
    bytes: i64,
}

impl MineStore {
    /// Opens the file, which is created (0600) as needed.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            saline_private_files::create_folder(folder)
                .map_err(|error| StoreError::io(folder, error))?;
        }
        let writing = file::open_alone(path, CACHE, CONTENTS.tables)?;
        let readers = (0..READERS).map(|_| file::open(path, Access::Read, CACHE, &CONTENTS));
        let reading = readers.collect::<Result<_, _>>()?;
        let held = writing.query_row(
            "SELECT count(*), coalesce(sum(size), 0) FROM entries",
            [],
            held,
        )?;
        Ok(Self {
            writing: Mutex::new(writing),
            reading: Mutex::new(reading),
            entries: AtomicI64::new(held.entries),
            bytes: AtomicI64::new(held.bytes),
        })
    }

    /// Returns how many entries there are, and their bytes.
    pub(super) fn size(&self) -> (u64, u64) {
        let load = |number: &AtomicI64| number.load(Ordering::Relaxed).max(0).cast_unsigned();
        (load(&self.entries), load(&self.bytes))
    }

    /// Returns the numbers of the offered entries that the minion has not left here. With `forget_others`, its entries that it does
    /// not offer are removed.
    pub(super) fn apply_offer(
        &self,
        id: &MinionId,
        offered: &[(String, [u8; 32])],
        forget_others: bool,
    ) -> Result<Vec<u32>, StoreError> {
        let known: Vec<(String, Vec<u8>)> = self.read(|connection| {
            let mut rows =
                connection.prepare_cached("SELECT name, digest FROM entries WHERE minion = ?1")?;
            let rows = rows.query_map([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })?;
        let is_offered = |name: &str| offered.iter().any(|(own, _)| own == name);
        let others = known.iter().map(|(name, _)| name.as_str());
        let others: Vec<&str> = others.filter(|name| !is_offered(name)).collect();
        if forget_others && !others.is_empty() {
            self.change(id, |transaction| {
                others
                    .iter()
                    .try_for_each(|name| delete(transaction, id, name))
            })?;
        }
        let lacks = |(name, digest): &(String, [u8; 32])| {
            !known
                .iter()
                .any(|(own, known)| own == name && known.as_slice() == digest)
        };
        let lacking = (0..).zip(offered).filter(|(_, offered)| lacks(offered));
        Ok(lacking.map(|(number, _)| number).collect())
    }

    /// Takes entries of a minion. Returns whether there was room for all of them; otherwise nothing has changed.
    pub(super) fn store(&self, id: &MinionId, entries: &[MineEntry]) -> Result<bool, StoreError> {
        let stored = self.change(id, |transaction| {
            for entry in entries {
                put(transaction, id, entry)?;
            }
            let held = of_minion(transaction, id)?;
            let fits =
                held.entries <= MAX_MINE_ENTRIES as i64 && held.bytes <= MAX_MINE_BYTES as i64;
            match fits {
                true => Ok(()),
                false => Err(Change::NoRoom),
            }
        });
        match stored {
            Ok(()) => Ok(true),
            Err(Change::NoRoom) => Ok(false),
            Err(Change::Failed(error)) => Err(error),
        }
    }

    /// Forgets an entry of a minion.
    pub(super) fn delete(&self, id: &MinionId, name: &str) -> Result<(), StoreError> {
        self.change(id, |transaction| delete(transaction, id, name))
    }

    /// Forgets all entries of a minion.
    pub(super) fn flush(&self, id: &MinionId) -> Result<(), StoreError> {
        self.change(id, |transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM entries WHERE minion = ?1")?;
            Ok::<_, StoreError>(delete.execute([id.as_str()]).map(drop)?)
        })
    }

    /// Returns the minions that have left something.
    pub(super) fn minions(&self) -> Result<Vec<String>, StoreError> {
        self.read(|connection| {
            let mut rows = connection.prepare("SELECT DISTINCT minion FROM entries")?;
            let rows = rows.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Calls `visit` with the entries of this name in the order of their minions, from behind `after`, until it returns false.
    pub(super) fn each(
        &self,
        name: &str,
        after: Option<&MinionId>,
        mut visit: impl FnMut(&Row<'_>) -> bool,
    ) -> Result<(), StoreError> {
        self.read(|connection| {
            let mut rows = connection.prepare_cached(
                "SELECT minion, allowed, value FROM entries WHERE name = ?1 AND minion > ?2 ORDER BY minion",
            )?;
            // Every id is behind the empty text.
            let after = after.map_or("", MinionId::as_str);
            let mut rows = rows.query([name, after])?;
            while let Some(row) = rows.next()? {
                if !visit(&read_row(row)?) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Calls `visit` with the entry of this name of one minion, if there is one, and returns what it returned.
    pub(super) fn one<T>(
        &self,
        name: &str,
        id: &MinionId,
        visit: impl FnOnce(&Row<'_>) -> T,
    ) -> Result<Option<T>, StoreError> {
        self.read(|connection| {
            let mut rows = connection.prepare_cached(
                "SELECT minion, allowed, value FROM entries WHERE name = ?1 AND minion = ?2",
            )?;
            let mut rows = rows.query([name, id.as_str()])?;
            match rows.next()? {
                Some(row) => Ok(Some(visit(&read_row(row)?))),
                None => Ok(None),
            }
        })
    }

    /// Returns all entries of a minion, with their names.
    pub(super) fn of(&self, id: &MinionId) -> Result<Vec<(String, Packed)>, StoreError> {
        self.read(|connection| {
            let mut rows = connection.prepare_cached(
                "SELECT name, value FROM entries WHERE minion = ?1 ORDER BY name",
            )?;
            let rows = rows.query_map([id.as_str()], |row| {
                Ok((row.get(0)?, Packed::from_bytes(row.get::<_, Vec<u8>>(1)?)))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Changes the entries of one minion, all that `act` does or nothing.
    fn change<E: From<StoreError>>(
        &self,
        id: &MinionId,
        act: impl FnOnce(&Transaction<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut connection = lock(&self.writing);
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(StoreError::from)?;
        let before = of_minion(&transaction, id)?;
        act(&transaction)?;
        let after = of_minion(&transaction, id)?;
        transaction.commit().map_err(StoreError::from)?;
        let add = |number: &AtomicI64, more| number.fetch_add(more, Ordering::Relaxed);
        add(&self.entries, after.entries - before.entries);
        add(&self.bytes, after.bytes - before.bytes);
        Ok(())
    }

    /// Reads with a connection that nobody else uses meanwhile. Who calls this has one of [`READERS`] turns.
    fn read<T>(
        &self,
        act: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let connection = lock(&self.reading).pop().ok_or(StoreError::Closed)?;
        let read = act(&connection);
        lock(&self.reading).push(connection);
        read
    }
}

/// The reason why nothing was stored.
enum Change {
    NoRoom,
    Failed(StoreError),
}

impl From<StoreError> for Change {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

fn put(transaction: &Transaction<'_>, id: &MinionId, entry: &MineEntry) -> Result<(), StoreError> {
    let mut put = transaction.prepare_cached(
        "INSERT OR REPLACE INTO entries (name, minion, size, digest, allowed, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    put.execute(params![
        entry.name,
        id.as_str(),
        i64::try_from(entry.size()).unwrap_or(i64::MAX),
        entry.digest(),
        entry.allowed.as_ref().map(encode::<Target>),
        entry.value.as_bytes(),
    ])?;
    Ok(())
}

fn delete(transaction: &Transaction<'_>, id: &MinionId, name: &str) -> Result<(), StoreError> {
    let mut delete =
        transaction.prepare_cached("DELETE FROM entries WHERE name = ?1 AND minion = ?2")?;
    Ok(delete.execute([name, id.as_str()]).map(drop)?)
}

fn of_minion(transaction: &Transaction<'_>, id: &MinionId) -> Result<Held, StoreError> {
    let mut count = transaction
        .prepare_cached("SELECT count(*), coalesce(sum(size), 0) FROM entries WHERE minion = ?1")?;
    let found = count.query_row([id.as_str()], held).optional()?;
    Ok(found.unwrap_or_default())
}

fn held(row: &rusqlite::Row<'_>) -> rusqlite::Result<Held> {
    Ok(Held {
        entries: row.get(0)?,
        bytes: row.get(1)?,
    })
}

fn read_row<'a>(row: &'a rusqlite::Row<'_>) -> Result<Row<'a>, StoreError> {
    let not_text = |_| StoreError::Corrupt {
        what: "an id, a target and a value in the mine",
        found: "something else".to_owned(),
    };
    Ok(Row {
        minion: row.get_ref(0)?.as_str().map_err(not_text)?,
        allowed: row.get_ref(1)?.as_blob_or_null().map_err(not_text)?,
        value: row.get_ref(2)?.as_blob().map_err(not_text)?,
    })
}

/// Reads the target of an entry. One that cannot be read is that of nobody.
pub(super) fn target(bytes: &[u8]) -> Target {
    decode(bytes).unwrap_or_else(|_| Target::list([]))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic interrupts, SQLite rolls back; a connection that it kept is missed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
