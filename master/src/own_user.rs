//! Switches a master that root started to the user that the option `user` names. Files that only root may read have been read
//! before: the configuration, and the keys that its option `ssl` names.

use std::fs::{DirBuilder, metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use rustix::fs::Access;
use saline_config::MasterConfig;
use saline_daemon::{BecomeError, become_user, create_above};
use saline_private_files::changeable;

/// The reason why a master cannot run as the user that the option `user` names.
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
    /// The user cannot enter a folder above the master's.
    #[error("the master runs as {user} (`user`), and that user cannot enter {}: chmod o+x it", folder.display())]
    Closed {
        /// The name of the user.
        user: String,
        /// The first folder of the path that the user cannot enter.
        folder: PathBuf,
    },
    /// Folders belong to somebody else.
    #[error(
        "the master runs as {user} (`user`), and these belong to somebody else: chown -R {user}: {}",
        list(folders)
    )]
    Foreign {
        /// The name of the user.
        user: String,
        /// The folders.
        folders: Vec<PathBuf>,
    },
    /// The user cannot write the log or the audit file.
    #[error("the master runs as {user} (`user`), who cannot write {}: let {user} write in its folder, or name another place with \
             {option}", path.display())]
    Unwritable {
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

/// Switches to the user that the option `user` names, if the option is set and this process runs as root. Before that, makes the
/// folders that are missing for that user. Call it while the process has one thread.
///
/// # Errors
/// When there is no such user, this process may not become it, or what the master writes does not belong to that user.
pub(crate) fn become_own_user(config: &MasterConfig) -> Result<(), OwnUserError> {
    switch(config, |folder, user| {
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

/// As [`become_own_user`], but makes nothing. Returns the folders that it would have made.
///
/// # Errors
/// As [`become_own_user`].
pub(crate) fn check_as_own_user(config: &MasterConfig) -> Result<Vec<PathBuf>, OwnUserError> {
    let mut missing = Vec::new();
    switch(config, |folder, _| missing.push(folder.to_owned()))?;
    Ok(missing)
}

/// Switches to the master's user. `make` is called before that with each folder that root makes for the user.
fn switch(config: &MasterConfig, make: impl FnMut(&Path, &User)) -> Result<(), OwnUserError> {
    let Some(name) = &config.user else {
        return Ok(());
    };
    let refused = |source| OwnUserError::Become {
        user: name.clone(),
        source,
    };
    let user = User::from_name(name).map_err(|error| refused(io::Error::from(error).into()))?;
    let user = user.ok_or_else(|| refused(BecomeError::Unknown))?;
    if Uid::effective().is_root() {
        make_missing(config, &user, make);
    }
    become_user(name).map_err(refused)?;
    check_places(config, &user)
}

/// Returns the files of the log and of the audit, with the options that name them.
fn logs(config: &MasterConfig) -> Vec<(&'static str, PathBuf)> {
    let mut logs = vec![("audit_file", config.audit_file())];
    logs.extend(config.logging.file.clone().map(|path| ("log_file", path)));
    logs
}

/// Calls `make` with each folder that is missing and that root can make for `user`. A folder that is not made is found by
/// [`check_places`], or when it is used.
fn make_missing(config: &MasterConfig, user: &User, mut make: impl FnMut(&Path, &User)) {
    let logs = logs(config);
    let log_folders = logs.iter().filter_map(|(_, file)| file.parent());
    for folder in config.paths.folders().into_iter().chain(log_folders) {
        // In a folder of somebody else root makes nothing: its owner could have root make it elsewhere.
        if !folder.exists() && leads_through_folders_of_root(folder) {
            make(folder, user);
        }
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

/// Checks that the master's folders belong to its user, and that the user can write the log and the audit file. A missing folder
/// passes.
///
/// # Errors
/// `Closed`, `Foreign` and `Unwritable`.
fn check_places(config: &MasterConfig, user: &User) -> Result<(), OwnUserError> {
    let mut above = config.paths.folders().into_iter().flat_map(|folder| {
        let above: Vec<&Path> = folder.ancestors().skip(1).collect();
        above.into_iter().rev()
    });
    let closed =
        |path: &&Path| path.exists() && rustix::fs::access(*path, Access::EXEC_OK).is_err();
    if let Some(folder) = above.find(closed) {
        return Err(OwnUserError::Closed {
            user: user.name.clone(),
            folder: folder.to_owned(),
        });
    }
    let is_foreign =
        |folder: &&Path| metadata(folder).is_ok_and(|found| found.uid() != user.uid.as_raw());
    let folders = config.paths.folders().into_iter();
    let folders: Vec<PathBuf> = folders.filter(is_foreign).map(Path::to_owned).collect();
    if !folders.is_empty() {
        return Err(OwnUserError::Foreign {
            user: user.name.clone(),
            folders,
        });
    }
    for (option, file) in logs(config) {
        let unwritable =
            |path: &Path| path.exists() && rustix::fs::access(path, Access::WRITE_OK).is_err();
        let mut places = [Some(&*file), file.parent()].into_iter().flatten();
        if let Some(path) = places.find(|path| unwritable(path)) {
            return Err(OwnUserError::Unwritable {
                user: user.name.clone(),
                option,
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_somebody_else_are_named_all_at_once() {
        let root = tempfile::tempdir().unwrap();
        let mut config = MasterConfig::default();
        config.paths = config.paths.under(root.path());
        config.audit_file = Some(root.path().join("audit.log"));
        for folder in [&config.paths.pki_dir, &config.paths.state_dir] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let own = User::from_uid(Uid::effective()).unwrap().unwrap();
        assert!(check_places(&config, &own).is_ok());
        let other = User {
            name: "fred".to_owned(),
            uid: Uid::from_raw(own.uid.as_raw() + 1),
            ..own
        };
        let line = check_places(&config, &other).unwrap_err().to_string();
        let line = line.replace(&root.path().display().to_string(), "");
        assert_eq!(
            line,
            "the master runs as fred (`user`), and these belong to somebody else: \
             chown -R fred: /etc/saline/pki/master /var/lib/saline/master"
        );
    }
}
