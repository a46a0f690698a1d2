//! The file of users who log in with a password of their own. A line is `user:HASH` or `user:HASH:group,group`; one that begins
//! with `#` is a comment. It is read for each login, so that a change counts at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use saline_private_files::{changeable, mode_for_others};

use super::PasswordHash;

/// The largest file, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The mode bit that lets every user read a file.
const ALL_READ: u32 = 0o004;

/// The file of users as it was read.
#[derive(Debug, Default)]
pub(super) struct UserFile(HashMap<String, User>);

/// A user in the file.
#[derive(Debug)]
pub(super) struct User {
    pub(super) password: PasswordHash,
    pub(super) groups: Vec<String>,
}

impl UserFile {
    /// Reads the file. Blocks on the disk.
    ///
    /// # Errors
    /// When it cannot be read, others can change it, or a line is malformed: one line that says why, without a hash.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let found = file.metadata().map_err(|error| error.to_string())?;
        if changeable(&found).is_some() {
            return Err(
                "somebody other than root and the master's user can change it: chown and chmod go-w it"
                    .to_owned(),
            );
        }
        if mode_for_others(&found).is_some_and(|mode| mode & ALL_READ != 0) {
            tracing::warn!(
                "every user can read {}, which has hashes of passwords: chmod o-r it",
                path.display()
            );
        }
        let mut text = String::new();
        let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
        read.map_err(|error| error.to_string())?;
        if text.len() as u64 > MAX_FILE {
            return Err(format!("it has more than {MAX_FILE} bytes"));
        }
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut users = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = number + 1;
            let read = User::parse(line).map_err(|why| format!("line {number}: {why}"));
            let (name, user) = read?;
            match users.entry(name) {
                Entry::Vacant(place) => {
                    place.insert(user);
                }
                Entry::Occupied(known) => {
                    return Err(format!(
                        "line {number}: {:?} stands in it twice",
                        known.key()
                    ));
                }
            }
        }
        Ok(Self(users))
    }

    /// Returns the user with this name.
    pub(super) fn user(&self, name: &str) -> Option<&User> {
        self.0.get(name)
    }

    /// Returns the hash of the file that takes longest to check, for the password of somebody who is not in it: whoever is in it
    /// with the same kind of hash takes as long.
    pub(super) fn longest_hash(&self) -> PasswordHash {
        let hashes = self.0.values().map(|user| &user.password);
        let longest = hashes.max_by_key(|hash| hash.cost());
        longest.map_or_else(PasswordHash::of_nobody, PasswordHash::clone)
    }
}

impl User {
    /// Reads a line. Returns the name of the user beside the rest.
    fn parse(line: &str) -> Result<(String, Self), String> {
        let mut fields = line.split(':');
        let (name, hash, groups) = (fields.next(), fields.next(), fields.next());
        let (Some(name), Some(hash), None) = (name, hash, fields.next()) else {
            return Err("a line is user:HASH or user:HASH:group,group".to_owned());
        };
        if name.trim().is_empty() {
            return Err("the name of the user is empty".to_owned());
        }
        let groups = groups.unwrap_or_default().split(',').map(str::trim);
        let groups = groups.filter(|group| !group.is_empty());
        let user = Self {
            password: PasswordHash::parse(hash.trim())
                .map_err(|why| format!("the password of {name:?}: {why}"))?,
            groups: groups.map(str::to_owned).collect(),
        };
        Ok((name.trim().to_owned(), user))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn users_are_read_with_their_groups() {
        let hash = PasswordHash::of_nobody();
        let text = format!("# the office\nalice:{hash}\n\n bob : {hash} : ops, web,\n");
        let file = UserFile::parse(&text).unwrap();
        assert_eq!(file.user("alice").unwrap().groups, [""; 0]);
        assert_eq!(file.user("bob").unwrap().groups, ["ops", "web"]);
        assert!(file.user("carol").is_none());
    }

    #[test]
    fn a_bad_line_is_named_without_what_it_hides() {
        let hash = PasswordHash::of_nobody();
        let told = |text: &str| UserFile::parse(text).unwrap_err();
        assert_eq!(
            told("alice\n"),
            "line 1: a line is user:HASH or user:HASH:group,group"
        );
        assert_eq!(
            told("\nalice:hunter2\n"),
            "line 2: the password of \"alice\": it is not a hash that begins with $argon2id$"
        );
        let twice = format!("a:{hash}\na:{hash}\n");
        assert_eq!(told(&twice), "line 2: \"a\" stands in it twice");
        assert_eq!(
            told(&format!(":{hash}\n")),
            "line 1: the name of the user is empty"
        );
    }

    #[test]
    fn a_file_that_others_can_change_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        std::fs::write(&path, "").unwrap();
        assert!(UserFile::read(&path).is_ok());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(UserFile::read(&path).unwrap_err().contains("can change it"));
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "[a-z:$,\n# ]{0,200}") {
            let _ = UserFile::parse(&text);
        }
    }
}
