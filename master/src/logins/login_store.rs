//! Who is logged in, in a file of SQLite: the digests of the tokens, the users, their ways and groups, and until when. All of it is
//! in memory too, since each request of a user looks it up. A login is on the disk before its token is valid, and one that is ended
//! is gone from the disk before it is said to be.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// The logins of a master.
#[derive(Debug)]
pub(crate) struct LoginStore(Mutex<State>);

#[derive(Debug)]
struct State {
    connection: Connection,
    logins: HashMap<Digest, Arc<Login>>,
}

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
        Ok(Self(Mutex::new(State { connection, logins })))
    }

    /// Keeps a login, unless its token is kept already: a request that is repeated makes one. Returns it; none if the token is that
    /// of another user. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn make(
        &self,
        new: NewLogin,
        now: MasterTime,
    ) -> Result<Option<Arc<Login>>, StoreError> {
        let digest = digest_of(&new.token);
        let mut state = self.lock();
        let is_over = |login: &Arc<Login>| !login.is_valid(now);
        state.remove_all(is_over)?;
        if let Some(known) = state.logins.get(&digest) {
            let is_same = known.user == new.user && known.way == new.way;
            return Ok(is_same.then(|| Arc::clone(known)));
        }
        state.make_room(&new)?;
        let login = Login {
            user: new.user,
            way: new.way,
            groups: new.groups,
            made: now,
            until: now.saturating_add(new.valid_ms),
        };
        state.connection.execute(
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
        let login = Arc::new(login);
        state.logins.insert(digest, Arc::clone(&login));
        Ok(Some(login))
    }

    /// Returns the login of a token, if it is valid now.
    pub(crate) fn find(&self, token: &LoginToken, now: MasterTime) -> Option<Arc<Login>> {
        let state = self.lock();
        let login = state.logins.get(&digest_of(token))?;
        login.is_valid(now).then(|| Arc::clone(login))
    }

    /// Ends the login of a token. Returns it; none if there was none. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails: it stays.
    pub(crate) fn end(&self, token: &LoginToken) -> Result<Option<Arc<Login>>, StoreError> {
        let digest = digest_of(token);
        let mut state = self.lock();
        let ended = state.logins.get(&digest).cloned();
        state.remove(&digest)?;
        Ok(ended)
    }

    /// Ends all logins of the users with this name, or those by one way. Returns their number. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails: some may stay.
    pub(crate) fn revoke(&self, user: &str, way: Option<LoginWay>) -> Result<usize, StoreError> {
        self.lock().remove_all(|login| login.is_of(user, way))
    }

    /// Returns the logins that are valid, in the order in which they end.
    pub(crate) fn list(&self, now: MasterTime) -> Vec<Arc<Login>> {
        let state = self.lock();
        let valid = state.logins.values().filter(|login| login.is_valid(now));
        let mut valid: Vec<Arc<Login>> = valid.cloned().collect();
        valid.sort_by(|a, b| (a.until, &a.user).cmp(&(b.until, &b.user)));
        valid
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, digest: &Digest) -> Result<(), StoreError> {
        self.connection
            .execute("DELETE FROM logins WHERE digest = ?1", [digest])?;
        self.logins.remove(digest);
        Ok(())
    }

    /// Removes these logins, and returns their number.
    fn remove_all(&mut self, is_meant: impl Fn(&Arc<Login>) -> bool) -> Result<usize, StoreError> {
        let meant = self.logins.iter().filter(|(_, login)| is_meant(login));
        let meant: Vec<Digest> = meant.map(|(digest, _)| *digest).collect();
        if meant.is_empty() {
            return Ok(0);
        }
        let transaction = self.connection.transaction()?;
        for digest in &meant {
            transaction.execute("DELETE FROM logins WHERE digest = ?1", [digest])?;
        }
        transaction.commit()?;
        for digest in &meant {
            self.logins.remove(digest);
        }
        Ok(meant.len())
    }

    /// Ends the oldest login of this user, or of the user who has most, when there are too many for another one.
    fn make_room(&mut self, new: &NewLogin) -> Result<(), StoreError> {
        let own = (new.way, new.user.as_str());
        if let Some(oldest) = self.oldest_of(own, MAX_OF_USER) {
            self.remove(&oldest)?;
        }
        if self.logins.len() < MAX_LOGINS {
            return Ok(());
        }
        let mut counts: HashMap<(LoginWay, &str), usize> = HashMap::new();
        for login in self.logins.values() {
            *counts.entry((login.way, &login.user)).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let oldest = most.and_then(|(user, _)| self.oldest_of(user, 1));
        match oldest {
            Some(oldest) => self.remove(&oldest),
            None => Ok(()),
        }
    }

    /// Returns the oldest login of a user who has at least `most`.
    fn oldest_of(&self, (way, user): (LoginWay, &str), most: usize) -> Option<Digest> {
        let own = self.logins.iter();
        let own = own.filter(|(_, login)| login.way == way && login.user == user);
        let own: Vec<(MasterTime, Digest)> =
            own.map(|(digest, login)| (login.made, *digest)).collect();
        let is_full = own.len() >= most;
        own.into_iter()
            .min()
            .filter(|_| is_full)
            .map(|(_, digest)| digest)
    }
}

/// Reads all logins. Those by a way that this version does not know are left out, and end by their time.
fn read(connection: &Connection) -> Result<HashMap<Digest, Arc<Login>>, StoreError> {
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
mod tests {
    use super::*;

    const NOW: MasterTime = 1_800_000_000_000;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn open(&self) -> LoginStore {
            LoginStore::open(&self.0.path().join("logins.sqlite")).unwrap()
        }
    }

    fn token(number: u32) -> LoginToken {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        LoginToken(bytes)
    }

    fn login(number: u32, user: &str) -> NewLogin {
        NewLogin {
            token: token(number),
            user: user.to_owned(),
            way: LoginWay::File,
            groups: vec!["ops".to_owned(), "web".to_owned()],
            valid_ms: 1_000,
        }
    }

    #[test]
    fn a_login_is_valid_until_its_end_over_a_restart() {
        let place = Place::new();
        let made = {
            let store = place.open();
            store.make(login(1, "alice"), NOW).unwrap().unwrap()
        };
        assert_eq!((made.made, made.until), (NOW, NOW + 1_000));
        let store = place.open();
        assert_eq!(store.find(&token(1), NOW + 999), Some(made));
        assert_eq!(store.find(&token(1), NOW + 1_000), None);
        assert_eq!(store.find(&token(2), NOW), None);
        // One that is over is forgotten with the next login.
        store.make(login(2, "bob"), NOW + 1_000).unwrap();
        assert_eq!(store.lock().logins.len(), 1);
        let rows: i64 = store
            .lock()
            .connection
            .query_row("SELECT count(*) FROM logins", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 1);
    }

    #[test]
    fn a_repeated_login_is_one_and_another_user_does_not_get_it() {
        let place = Place::new();
        let store = place.open();
        let first = store.make(login(1, "alice"), NOW).unwrap();
        assert_eq!(store.make(login(1, "alice"), NOW + 500).unwrap(), first);
        assert_eq!(store.make(login(1, "bob"), NOW).unwrap(), None);
        let by_another_way = NewLogin {
            way: LoginWay::Auto,
            ..login(1, "alice")
        };
        assert_eq!(store.make(by_another_way, NOW).unwrap(), None);
        assert_eq!(store.list(NOW).len(), 1);
    }

    #[test]
    fn the_file_has_no_token() {
        let place = Place::new();
        let store = place.open();
        store.make(login(1, "alice"), NOW).unwrap();
        for file in std::fs::read_dir(place.0.path()).unwrap() {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let is_there = bytes.windows(32).any(|window| window == token(1).0);
            assert!(!is_there, "{}", path.display());
        }
    }

    #[test]
    fn logins_end_when_asked_to_and_stay_ended() {
        let place = Place::new();
        let store = place.open();
        for (number, user) in [(1, "alice"), (2, "alice"), (3, "bob")] {
            store.make(login(number, user), NOW).unwrap();
        }
        let ended = store.end(&token(1)).unwrap().unwrap();
        assert_eq!(ended.user, "alice");
        assert_eq!(store.end(&token(1)).unwrap(), None);
        assert_eq!(store.revoke("alice", Some(LoginWay::Auto)).unwrap(), 0);
        assert_eq!(store.revoke("alice", None).unwrap(), 1);
        drop(store);
        let store = place.open();
        let left: Vec<String> = store.list(NOW).iter().map(|one| one.user.clone()).collect();
        assert_eq!(left, ["bob"]);
    }

    #[test]
    fn a_login_of_a_time_that_was_set_back_is_not_valid() {
        let place = Place::new();
        let store = place.open();
        let ahead = NewLogin {
            valid_ms: 86_400_000,
            ..login(1, "alice")
        };
        store.make(ahead, NOW + AHEAD + 1).unwrap();
        assert_eq!(store.find(&token(1), NOW), None);
        assert!(store.find(&token(1), NOW + 1).is_some());
    }

    #[test]
    fn the_oldest_login_of_a_user_ends_for_another_one() {
        let place = Place::new();
        let store = place.open();
        store.make(login(9_999, "bob"), NOW).unwrap();
        for number in 0..=100 {
            store
                .make(login(number, "alice"), NOW + u64::from(number))
                .unwrap();
        }
        assert_eq!(store.find(&token(0), NOW + 100), None);
        assert!(store.find(&token(1), NOW + 100).is_some());
        assert!(store.find(&token(9_999), NOW + 100).is_some());
        assert_eq!(store.list(NOW + 100).len(), 101);
    }
}
