//! Who is logged in, in a file of SQLite: the digests of the tokens, the users, their ways and groups, and until when. All of it is
//! in memory too, since each request of a user looks it up. A login is on the disk before its token is valid, and one that is ended
//! is gone from the disk before it is said to be. Whoever looks one up never waits for the disk: changes are made one after the
//! other under a lock of their own, and those in memory take a moment.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use aws_lc_rs::digest::{Context as DigestContext, SHA256};
use rusqlite::{Connection, params};
use saline_config::LoginWay;
use saline_messages::{LoginToken, MasterTime};

use crate::disk::{StoreError, columns, file};

/// The cache of the connection, in bytes.
const CACHE: usize = 128 * 1024;

/// The most logins of one user. The oldest ends for another one.
const MAX_OF_USER: usize = 100;

/// The most logins of all users. The oldest of the user who has most ends for another one.
const MAX_LOGINS: usize = 10_000;

/// How many tokens are remembered that were ended. More logins than that are not under way at once.
const MAX_ENDED: usize = 4_096;

/// How far the master's time may be behind the time at which somebody logged in, in milliseconds: the clock of the machine was
/// set a little back while no master ran. A login that is further ahead was made before the time was set back.
const AHEAD: u64 = 60_000;

/// What is hashed before a token, so that no digest of something else is one of a token.
const LABEL: &[u8] = b"saline login token 1\0";

/// Times are milliseconds of the master's time. `member` has the groups, with commas between them.
const TABLES: &str = "
    CREATE TABLE logins (
        digest BLOB    NOT NULL PRIMARY KEY,
        user   TEXT    NOT NULL,
        way    TEXT    NOT NULL,
        member TEXT    NOT NULL,
        made   INTEGER NOT NULL,
        until  INTEGER NOT NULL
    ) WITHOUT ROWID;
";

/// The digest of a token.
type Digest = [u8; 32];

/// A login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// The name of the user.
    pub(crate) user: String,
    /// The way by which the user logged in.
    pub(crate) way: LoginWay,
    /// The names of the user's groups.
    pub(crate) groups: Vec<String>,
    /// The time of the login.
    pub(crate) made: MasterTime,
    /// The time from which on it is valid no longer.
    pub(crate) until: MasterTime,
}

/// A login that is to be kept.
#[derive(Debug, Clone)]
pub(crate) struct NewLogin {
    pub(crate) token: LoginToken,
    pub(crate) user: String,
    pub(crate) way: LoginWay,
    pub(crate) groups: Vec<String>,
    /// How long it is valid, in milliseconds.
    pub(crate) valid_ms: u64,
}

/// The number of times at which logins were revoked, as a check of a password found it when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Revocations(u64);

/// What has become of a login that was to be kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoginOutcome {
    /// It is kept.
    LoggedIn(Arc<Login>),
    /// Its token is that of another user.
    TokenTaken,
    /// Logins were revoked since its check began: the check has to be made again.
    Revoked,
    /// Its token was ended before it was there: whoever logged in has given the login up.
    Ended,
}

/// The tokens that were ended last. Whoever gives a login up ends its token, also while the password is checked: what is made after that
/// would be valid until it expires, and nobody would use it.
#[derive(Debug, Default)]
struct EndedTokens {
    digests: HashSet<Digest>,
    /// The same, the oldest first.
    order: VecDeque<Digest>,
}

impl EndedTokens {
    fn note(&mut self, digest: Digest) {
        if !self.digests.insert(digest) {
            return;
        }
        self.order.push_back(digest);
        if self.order.len() > MAX_ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.digests.remove(&oldest);
        }
    }
}

/// The logins of a master.
#[derive(Debug)]
pub(crate) struct LoginStore {
    /// Locked while a change is made, on the disk and then in memory.
    connection: Mutex<Connection>,
    /// Changed by whoever has the lock of the connection, so that both are the same.
    logins: RwLock<Logins>,
    /// Changed by whoever has the lock of the connection.
    revocations: AtomicU64,
    /// Looked at and changed by whoever has the lock of the connection.
    ended: Mutex<EndedTokens>,
}

/// Logins by the digests of their tokens.
type Logins = HashMap<Digest, Arc<Login>>;

impl Login {
    /// Whether it is one of the user with this name, by this way if one is given.
    pub(crate) fn is_of(&self, user: &str, way: Option<LoginWay>) -> bool {
        self.user == user && way.is_none_or(|way| way == self.way)
    }

    /// Whether it is valid at this time.
    fn is_valid(&self, now: MasterTime) -> bool {
        now < self.until && self.made <= now.saturating_add(AHEAD)
    }
}

impl LoginStore {
    /// Opens the file, which is created (0600) as needed.
    ///
    /// # Errors
    /// When it cannot be opened, or is not such a file.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            saline_private_files::create_folder(folder)
                .map_err(|error| StoreError::io(folder, error))?;
        }
        let connection = file::open_alone(path, CACHE, TABLES)?;
        let logins = read(&connection)?;
        Ok(Self {
            connection: Mutex::new(connection),
            logins: RwLock::new(logins),
            revocations: AtomicU64::new(0),
            ended: Mutex::default(),
        })
    }

    /// Returns the number of revocations until now. To be called before anything is looked at that decides about a login.
    pub(crate) fn revocations(&self) -> Revocations {
        Revocations(self.revocations.load(Ordering::SeqCst))
    }

    /// Keeps a login whose check began after these revocations. A login whose token is kept already is the same one: a request that
    /// is repeated makes one. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn make(
        &self,
        new: NewLogin,
        begun: Revocations,
        now: MasterTime,
    ) -> Result<LoginOutcome, StoreError> {
        let digest = digest_of(&new.token);
        let mut connection = self.connection();
        // Before the revocations: a check that is made again is for nobody.
        if self.ended().digests.contains(&digest) {
            return Ok(LoginOutcome::Ended);
        }
        if self.revocations() != begun {
            return Ok(LoginOutcome::Revoked);
        }
        let mut ended = self.digests(|login| !login.is_valid(now));
        let login = {
            let logins = self.logins();
            if let Some(known) = logins.get(&digest).filter(|known| known.is_valid(now)) {
                let is_same = known.user == new.user && known.way == new.way;
                return Ok(match is_same {
                    true => LoginOutcome::LoggedIn(Arc::clone(known)),
                    false => LoginOutcome::TokenTaken,
                });
            }
            let kept = logins.iter().filter(|(_, login)| login.is_valid(now));
            ended.extend(to_make_room(&new, &kept.collect::<Vec<_>>()));
            Arc::new(Login {
                user: new.user,
                way: new.way,
                groups: new.groups,
                made: now,
                until: now.saturating_add(new.valid_ms),
            })
        };
        let transaction = connection.transaction()?;
        delete(&transaction, &ended)?;
        transaction.execute(
            "INSERT INTO logins VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                digest,
                login.user,
                login.way.name(),
                login.groups.join(","),
                columns::from_time(login.made),
                columns::from_time(login.until)
            ],
        )?;
        transaction.commit()?;
        self.forget(&ended, Some((digest, &login)));
        Ok(LoginOutcome::LoggedIn(login))
    }

    /// Returns the login of a token, if it is valid now.
    pub(crate) fn find(&self, token: &LoginToken, now: MasterTime) -> Option<Arc<Login>> {
        let digest = digest_of(token);
        let login = self.logins().get(&digest).cloned();
        login.filter(|login| login.is_valid(now))
    }

    /// Ends the login of a token, for good: the same token is that of no later login. Returns the login; none if there was none. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// When the disk fails: it stays.
    pub(crate) fn end(&self, token: &LoginToken) -> Result<Option<Arc<Login>>, StoreError> {
        let digest = digest_of(token);
        let mut connection = self.connection();
        self.ended().note(digest);
        let ended = self.logins().get(&digest).cloned();
        if ended.is_some() {
            self.remove(&mut connection, &[digest])?;
        }
        Ok(ended)
    }

    /// Ends all logins of the users with this name, or those by one way. Returns their number. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails: they stay.
    pub(crate) fn revoke(&self, user: &str, way: Option<LoginWay>) -> Result<usize, StoreError> {
        self.revoke_those(|login| login.is_of(user, way))
    }

    /// Ends the logins for which this holds, and has the logins that are under way checked again. Returns their number. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// When the disk fails: they stay.
    pub(crate) fn revoke_those(
        &self,
        is_meant: impl Fn(&Login) -> bool,
    ) -> Result<usize, StoreError> {
        let mut connection = self.connection();
        let meant = self.digests(is_meant);
        let removed = self.remove(&mut connection, &meant);
        // At the end, and before the lock is given back: a check that began during the revocation is made again too.
        self.revocations.fetch_add(1, Ordering::SeqCst);
        removed.map(|()| meant.len())
    }

    /// Returns the logins that are valid, in the order in which they end.
    pub(crate) fn list(&self, now: MasterTime) -> Vec<Arc<Login>> {
        let valid = |login: &&Arc<Login>| login.is_valid(now);
        let mut valid: Vec<Arc<Login>> = self.logins().values().filter(valid).cloned().collect();
        valid.sort_by(|a, b| (a.until, &a.user).cmp(&(b.until, &b.user)));
        valid
    }

    /// Returns the digests of the logins for which this holds.
    fn digests(&self, is_meant: impl Fn(&Login) -> bool) -> Vec<Digest> {
        let logins = self.logins();
        let meant = logins.iter().filter(|(_, login)| is_meant(login));
        meant.map(|(digest, _)| *digest).collect()
    }

    /// Removes logins from the disk, and then from memory.
    fn remove(&self, connection: &mut Connection, ended: &[Digest]) -> Result<(), StoreError> {
        if ended.is_empty() {
            return Ok(());
        }
        let transaction = connection.transaction()?;
        delete(&transaction, ended)?;
        transaction.commit()?;
        self.forget(ended, None);
        Ok(())
    }

    /// Takes logins out of the memory, and adds a new one.
    fn forget(&self, ended: &[Digest], new: Option<(Digest, &Arc<Login>)>) {
        let mut logins = self.logins.write().unwrap_or_else(PoisonError::into_inner);
        for digest in ended {
            logins.remove(digest);
        }
        if let Some((digest, login)) = new {
            logins.insert(digest, Arc::clone(login));
        }
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, EndedTokens> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logins(&self) -> RwLockReadGuard<'_, Logins> {
        self.logins.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn delete(connection: &Connection, ended: &[Digest]) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("DELETE FROM logins WHERE digest = ?1")?;
    for digest in ended {
        statement.execute([digest])?;
    }
    Ok(())
}

/// Returns the logins that end for another one when there are too many: the oldest of the same user, and the oldest of the user who
/// has most.
fn to_make_room(new: &NewLogin, kept: &[(&Digest, &Arc<Login>)]) -> Option<Digest> {
    let mut counts: HashMap<(LoginWay, &str), usize> = HashMap::new();
    for (_, login) in kept {
        *counts.entry((login.way, &login.user)).or_default() += 1;
    }
    let own = (new.way, new.user.as_str());
    let gives_way = if counts.get(&own).is_some_and(|own| *own >= MAX_OF_USER) {
        own
    } else if kept.len() >= MAX_LOGINS {
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map_or(own, |(user, _)| user)
    } else {
        return None;
    };
    let of_one = kept
        .iter()
        .filter(|(_, login)| (login.way, login.user.as_str()) == gives_way);
    let oldest = of_one.min_by_key(|(digest, login)| (login.made, **digest));
    oldest.map(|(digest, _)| **digest)
}

/// Reads all logins. Those by a way that this version does not know are left out, and end by their time.
fn read(connection: &Connection) -> Result<Logins, StoreError> {
    let mut statement =
        connection.prepare("SELECT digest, user, way, member, made, until FROM logins")?;
    let mut rows = statement.query([])?;
    let mut logins = HashMap::new();
    while let Some(row) = rows.next()? {
        let Some(way) = LoginWay::parse(columns::text(row, 2)?) else {
            continue;
        };
        let groups = columns::text(row, 3)?.split(',');
        let login = Login {
            user: columns::text(row, 1)?.to_owned(),
            way,
            groups: groups
                .filter(|group| !group.is_empty())
                .map(str::to_owned)
                .collect(),
            made: columns::time(row, 4)?,
            until: columns::time(row, 5)?,
        };
        logins.insert(row.get(0)?, Arc::new(login));
    }
    Ok(logins)
}

fn digest_of(token: &LoginToken) -> Digest {
    let mut context = DigestContext::new(&SHA256);
    context.update(LABEL);
    context.update(&token.0);
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests;
