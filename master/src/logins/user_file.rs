//! The file of users who log in with a password of their own. A line is `user:HASH` or `user:HASH:group,group`; one that begins
//! with `#` is a comment. It is read for each login, so that a change counts at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use saline_private_files::{changeable, mode_for_others};

use super::PasswordHash;

/// The largest file, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The mode bit that lets every user read a file.
const ALL_READ: u32 = 0o004;

/// The reason why nobody can log in by a file of users.
#[derive(Debug, thiserror::Error)]
#[error("external_auth has ^filename: {}, by which nobody can log in: {why}", path.display())]
pub(crate) struct UserFileError {
    path: PathBuf,
    /// What is wrong and what to do, without a hash.
    why: String,
}

/// The file of users as it was read.
#[derive(Debug, Default)]
pub(crate) struct UserFile(HashMap<String, User>);

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
    /// When it cannot be read, others can change it, or a line is malformed.
    pub(super) fn read(path: &Path) -> Result<Self, UserFileError> {
        let (users, warning) = Self::read_and_look(path)?;
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        Ok(users)
    }

    /// Looks whether users can log in by the file. Blocks on the disk. Returns a warning about who can read it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn check(path: &Path) -> Result<Option<String>, UserFileError> {
        Self::read_and_look(path).map(|(_, warning)| warning)
    }

    fn read_and_look(path: &Path) -> Result<(Self, Option<String>), UserFileError> {
        let wrong = |why: String| UserFileError {
            path: path.to_owned(),
            why,
        };
        let unreadable = |error: io::Error| wrong(unreadable(&error));
        let file = File::open(path).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        if changeable(&found).is_some() {
            return Err(wrong(
                "somebody other than root and the master's user can change it: chown and chmod go-w it"
                    .to_owned(),
            ));
        }
        let is_open = mode_for_others(&found).is_some_and(|mode| mode & ALL_READ != 0);
        let warning = is_open.then(|| {
            format!(
                "every user can read {}, which has hashes of passwords: chmod o-r it",
                path.display()
            )
        });
        let mut text = String::new();
        let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
        read.map_err(unreadable)?;
        if text.len() as u64 > MAX_FILE {
            return Err(wrong(format!(
                "it has more than {MAX_FILE} bytes: remove users"
            )));
        }
        let users = Self::parse(&text);
        let users = users.map_err(|why| {
            wrong(format!(
                "{why}: mend the line (saline-key --hash-password makes a hash)"
            ))
        })?;
        Ok((users, warning))
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

/// Returns why a file cannot be read, and what to do.
fn unreadable(error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::NotFound => {
            "make it, with a line user:HASH for each user (saline-key --hash-password makes the hash), for root and the group of \
             the master's user, mode 0640"
        }
        io::ErrorKind::PermissionDenied => {
            "let the master's user read it and go through its folders (chgrp, chmod 0640)"
        }
        _ => "put a file of text there, with a line user:HASH for each user",
    };
    format!("{error}: {what}")
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
        let told = UserFile::read(&path).unwrap_err().to_string();
        assert!(told.contains("can change it"), "{told}");
    }

    #[test]
    fn a_check_tells_what_is_wrong_with_the_file_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        let told = |path: &Path| UserFile::check(path).unwrap_err().to_string();
        let missing = told(&path);
        assert!(missing.contains("saline-key --hash-password"), "{missing}");
        let shown = path.display().to_string();
        assert!(missing.contains(&shown), "{missing}");
        let folder_told = told(folder.path());
        assert!(folder_told.contains("a file of text"), "{folder_told}");
        std::fs::write(&path, "alice:hunter2\n").unwrap();
        let line = told(&path);
        assert!(line.contains("line 1"), "{line}");
        assert!(!line.contains("hunter2") && !line.contains('\n'), "{line}");
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        std::fs::write(&path, "").unwrap();
        mode(0o640).unwrap();
        assert_eq!(UserFile::check(&path).unwrap(), None);
        mode(0o644).unwrap();
        let warning = UserFile::check(&path).unwrap().unwrap();
        assert!(warning.contains("chmod o-r"), "{warning}");
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "[a-z:$,\n# ]{0,200}") {
            let _ = UserFile::parse(&text);
        }
    }
}
