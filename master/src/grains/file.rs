//! The file of the grains: a table of SQLite, private to the master's user (0600). It is a cache: what is lost
//! with it, minions report again.

use std::io;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};
use saline_data::Packed;
use saline_messages::MinionId;
use saline_targeting::{Grains as _, PackedGrains};

/// The version of the file's schema. A file of another version is started over.
const SCHEMA_VERSION: i64 = 1;

const TABLE: &str = "
    CREATE TABLE grains (
        id     TEXT NOT NULL PRIMARY KEY,
        digest BLOB NOT NULL,
        grains BLOB NOT NULL
    );
    PRAGMA user_version = 1;
";

/// The grains of a minion, as the file has them.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: MinionId,
    pub(super) digest: [u8; 32],
    pub(super) grains: PackedGrains,
}

/// The open file; none when it cannot be used.
#[derive(Debug)]
pub(super) struct GrainsFile(Option<Connection>);

/// The reason why the file was not opened.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    /// The file cannot be read, and never will be.
    #[error("{0}")]
    Damaged(String),
    /// The file cannot be used now, for example because the disk is full.
    #[error("{0}")]
    Unusable(String),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged(error.to_string()),
            _ => Self::Unusable(error.to_string()),
        }
    }
}

impl GrainsFile {
    /// Opens the file and reads it. One that is damaged is started over; without one that can be used nothing is
    /// written. The log tells either.
    pub(super) fn open(path: &Path) -> (Self, Vec<Row>) {
        let opened = match try_open(path) {
            Err(OpenError::Damaged(error)) => {
                tracing::warn!(
                    "{} is started over, since it cannot be read ({error}): targets by grains do not know minions \
                     that are away until they were here again",
                    path.display()
                );
                remove(path)
                    .map_err(OpenError::from)
                    .and_then(|()| try_open(path))
            }
            opened => opened,
        };
        match opened {
            Ok((connection, rows)) => (Self(Some(connection)), rows),
            Err(error) => {
                tracing::warn!(
                    "{} cannot be used ({error}): the grains of minions are kept in memory alone, until the \
                     master stops",
                    path.display()
                );
                (Self(None), Vec::new())
            }
        }
    }

    /// Writes the grains of minions in one transaction; deletes those of minions that have none.
    pub(super) fn write<'a>(
        &mut self,
        rows: impl Iterator<Item = (&'a MinionId, Option<([u8; 32], &'a PackedGrains)>)>,
    ) -> rusqlite::Result<()> {
        let Some(connection) = &mut self.0 else {
            return Ok(());
        };
        let transaction = connection.transaction()?;
        for (id, known) in rows {
            match known {
                Some((digest, grains)) => {
                    let packed = Packed::pack(&grains.all());
                    let insert =
                        "INSERT OR REPLACE INTO grains (id, digest, grains) VALUES (?1, ?2, ?3)";
                    transaction.prepare_cached(insert)?.execute(params![
                        id.as_str(),
                        digest,
                        packed.as_bytes()
                    ])?;
                }
                None => {
                    let delete = "DELETE FROM grains WHERE id = ?1";
                    transaction.prepare_cached(delete)?.execute([id.as_str()])?;
                }
            }
        }
        transaction.commit()
    }
}

fn try_open(path: &Path) -> Result<(Connection, Vec<Row>), OpenError> {
    if let Some(folder) = path.parent() {
        saline_private_files::create_folder(folder)?;
    }
    // Before SQLite opens it, which gives its log and its shared memory the same permissions.
    let mut options = saline_private_files::options();
    options.read(true).write(true).create(true).truncate(false);
    saline_private_files::open(path, &options)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // SQLite follows no link in the whole path, and a folder above may be reached over one.
    let folder = path.parent().unwrap_or(Path::new(".")).canonicalize()?;
    let real = folder.join(path.file_name().unwrap_or_default());
    let connection = Connection::open_with_flags(real, flags)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // After a power loss the file is whole, and minions report what it lacks.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -512)?;
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == 0 {
        connection.execute_batch(TABLE)?;
    } else if found != SCHEMA_VERSION {
        let why =
            format!("it has the schema version {found}, and this master knows {SCHEMA_VERSION}");
        return Err(OpenError::Damaged(why));
    }
    let rows = read(&connection)?;
    Ok((connection, rows))
}

fn read(connection: &Connection) -> Result<Vec<Row>, OpenError> {
    let mut statement = connection.prepare("SELECT id, digest, grains FROM grains")?;
    let mut found = statement.query([])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let (id, digest): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let packed = Packed::from_bytes(row.get::<_, Vec<u8>>(2)?);
        let digest = <[u8; 32]>::try_from(digest.as_slice());
        let read = (MinionId::parse(&id), digest, PackedGrains::read(&packed));
        let (Ok(id), Ok(digest), Ok(grains)) = read else {
            // Its minion reports them again; those of the others stay.
            tracing::warn!("the grains of {id:?} in the file cannot be read, and are left out");
            continue;
        };
        rows.push(Row { id, digest, grains });
    }
    Ok(rows)
}

/// Removes the file with its log.
fn remove(path: &Path) -> io::Result<()> {
    for end in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
