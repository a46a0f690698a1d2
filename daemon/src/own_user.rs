//! Switches a daemon that root started to the user that the option `user` names. Files that only root may read have been read
//! before: the configuration, and the keys that its option `ssl` names.

use std::fs::{DirBuilder, metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use rustix::fs::Access;
use saline_config::ConfigError;
use saline_private_files::changeable;

use crate::{BecomeError, become_user, create_above};

/// The reason why a daemon cannot run as the user that the option `user` names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnUserError {
    /// This process cannot become the user.
    #[error("cannot run as the user {user} that `user` names: {source}")]
    Become {
        /// The name of the user.
        user: String,
        /// Why the process cannot become the user.
        source: BecomeError,
    },
    /// The user cannot enter a folder above the daemon's.
    #[error("the {daemon} runs as {user} (`user`), and that user cannot enter {}: chmod o+x it", folder.display())]
    Closed {
        /// The name of the daemon in messages.
        daemon: &'static str,
        /// The name of the user.
        user: String,
        /// The first folder of the path that the user cannot enter.
        folder: PathBuf,
    },
    /// Folders belong to somebody else.
    #[error(
        "the {daemon} runs as {user} (`user`), and these belong to somebody else: chown -R {user}: {}",
        list(folders)
    )]
    Foreign {
        /// The name of the daemon in messages.
        daemon: &'static str,
        /// The name of the user.
        user: String,
        /// The folders that belong to somebody else.
        folders: Vec<PathBuf>,
    },
    /// The user cannot write a file of a log.
    #[error("the {daemon} runs as {user} (`user`), who cannot write {}: let {user} write in its folder, or name another place with \
             {option}", path.display())]
    Unwritable {
        /// The name of the daemon in messages.
        daemon: &'static str,
        /// The name of the user.
        user: String,
        /// The option that names the file.
        option: &'static str,
        /// The file, or its folder.
        path: PathBuf,
    },
}

fn list(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    folders.join(" ")
}

/// The user that a daemon runs as, and what that user must be able to write.
#[derive(Debug, Clone)]
pub struct OwnUser {
    /// The daemon, as errors name it.
    pub daemon: &'static str,
    /// The option `user`; none when the daemon goes on as whoever starts it.
    pub name: Option<String>,
    /// The folders that belong to the daemon alone.
    pub folders: Vec<PathBuf>,
    /// The files of logs, with the options that name them. Their folders may belong to others.
    pub logs: Vec<(&'static str, PathBuf)>,
}

impl OwnUser {
    /// Switches to the user, if one is named and this process runs as root. Before that, makes the folders that are missing for
    /// that user. Call it while the process has one thread.
    ///
    /// # Errors
    /// When there is no such user, this process may not become it, or what the daemon writes does not belong to that user.
    pub fn switch(&self) -> Result<(), OwnUserError> {
        self.switch_after(|folder, user| {
            create_above(folder);
            let made = DirBuilder::new()
                .mode(0o700)
                .create(folder)
                .and_then(|()| lchown(folder, Some(user.uid.as_raw()), Some(user.gid.as_raw())));
            if let Err(error) = made {
                tracing::debug!("{} was not made: {error}", folder.display());
            }
        })
    }

    /// As [`switch`](Self::switch), but makes nothing. Returns the folders that it would have made.
    ///
    /// # Errors
    /// As [`switch`](Self::switch).
    pub fn check(&self) -> Result<Vec<PathBuf>, OwnUserError> {
        let mut missing = Vec::new();
        self.switch_after(|folder, _| missing.push(folder.to_owned()))?;
        Ok(missing)
    }

    /// Returns a warning for a daemon that has read its configuration as root, and cannot read it `again` as its own user.
    pub fn unreadable_again<C>(
        &self,
        again: impl FnOnce() -> Result<C, ConfigError>,
    ) -> Option<String> {
        self.name.as_ref()?;
        let error = again().err()?;
        Some(format!(
            "SIGHUP will change nothing, since the {}'s user cannot read the configuration: {error}",
            self.daemon
        ))
    }

    /// Switches to the user. `make` is called before that with each folder that root makes for the user.
    fn switch_after(&self, make: impl FnMut(&Path, &User)) -> Result<(), OwnUserError> {
        let Some(name) = &self.name else {
            return Ok(());
        };
        let refused = |source| OwnUserError::Become {
            user: name.clone(),
            source,
        };
        let user = User::from_name(name).map_err(|error| refused(io::Error::from(error).into()))?;
        let user = user.ok_or_else(|| refused(BecomeError::Unknown))?;
        if Uid::effective().is_root() {
            self.make_missing(&user, make);
        }
        become_user(name).map_err(refused)?;
        self.check_places(&user)
    }

    /// Calls `make` with each folder that is missing and that root can make for `user`. A folder that is not made is found by
    /// [`check_places`](Self::check_places), or when it is used.
    fn make_missing(&self, user: &User, mut make: impl FnMut(&Path, &User)) {
        let folders = self.folders.iter().map(PathBuf::as_path);
        let log_folders = self.logs.iter().filter_map(|(_, file)| file.parent());
        for folder in folders.chain(log_folders) {
            // In a folder of somebody else root makes nothing: its owner could have root make it elsewhere.
            if !folder.exists() && leads_through_folders_of_root(folder) {
                make(folder, user);
            }
        }
    }

    /// Checks that the daemon's folders belong to its user, and that the user can write the files of logs. A missing folder passes.
    ///
    /// # Errors
    /// `Closed`, `Foreign` and `Unwritable`.
    fn check_places(&self, user: &User) -> Result<(), OwnUserError> {
        let daemon = self.daemon;
        let mut above = self.folders.iter().flat_map(|folder| {
            let above: Vec<&Path> = folder.ancestors().skip(1).collect();
            above.into_iter().rev()
        });
        let closed =
            |path: &&Path| path.exists() && rustix::fs::access(*path, Access::EXEC_OK).is_err();
        if let Some(folder) = above.find(closed) {
            return Err(OwnUserError::Closed {
                daemon,
                user: user.name.clone(),
                folder: folder.to_owned(),
            });
        }
        let is_foreign = |folder: &&PathBuf| {
            metadata(folder).is_ok_and(|found| found.uid() != user.uid.as_raw())
        };
        let folders: Vec<PathBuf> = self.folders.iter().filter(is_foreign).cloned().collect();
        if !folders.is_empty() {
            return Err(OwnUserError::Foreign {
                daemon,
                user: user.name.clone(),
                folders,
            });
        }
        for (option, file) in &self.logs {
            let unwritable =
                |path: &Path| path.exists() && rustix::fs::access(path, Access::WRITE_OK).is_err();
            let mut places = [Some(&**file), file.parent()].into_iter().flatten();
            if let Some(path) = places.find(|path| unwritable(path)) {
                return Err(OwnUserError::Unwritable {
                    daemon,
                    user: user.name.clone(),
                    option,
                    path: path.to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Whether nobody but root can change where `folder` is made: every folder above it that exists, and every link on the way.
fn leads_through_folders_of_root(folder: &Path) -> bool {
    let mut above = folder.ancestors().skip(1);
    let Some(nearest) = above.find_map(|above| above.canonicalize().ok()) else {
        return false;
    };
    let named = folder
        .ancestors()
        .skip(1)
        .filter_map(|above| symlink_metadata(above).ok());
    let mut real = nearest.ancestors().map(metadata);
    named.into_iter().all(|found| found.uid() == 0)
        && real.all(|found| found.is_ok_and(|found| changeable(&found).is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_somebody_else_are_named_all_at_once() {
        let root = tempfile::tempdir().unwrap();
        let daemon = OwnUser {
            daemon: "master",
            name: Some("fred".to_owned()),
            folders: ["pki", "lib", "cache"]
                .map(|name| root.path().join(name))
                .into(),
            logs: vec![("audit_file", root.path().join("audit.log"))],
        };
        for folder in &daemon.folders[..2] {
            std::fs::create_dir(folder).unwrap();
        }
        let own = User::from_uid(Uid::effective()).unwrap().unwrap();
        assert!(daemon.check_places(&own).is_ok());
        let other = User {
            name: "fred".to_owned(),
            uid: Uid::from_raw(own.uid.as_raw() + 1),
            ..own
        };
        let line = daemon.check_places(&other).unwrap_err().to_string();
        let line = line.replace(&root.path().display().to_string(), "");
        assert_eq!(
            line,
            "the master runs as fred (`user`), and these belong to somebody else: chown -R fred: /pki /lib"
        );
    }
}
