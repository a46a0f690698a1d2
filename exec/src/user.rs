//! The user that a command runs as.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;

use serde::{Deserialize, Serialize};

use crate::Environment;

/// The user that a command runs as, with its groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The number of the user.
    pub uid: u32,
    /// The number of the user's own group.
    pub gid: u32,
    /// The numbers of all groups of the user.
    pub groups: Vec<u32>,
}

/// An account of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) user: User,
    pub(crate) name: String,
    pub(crate) home: OsString,
    pub(crate) shell: OsString,
}

/// The reason why a command cannot run as a user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The machine has no such user.
    #[error("there is no user {0:?} on this machine")]
    Unknown(String),
    /// Only root can become another user.
    #[error(
        "cannot run a command as user {name:?}: this needs root, and Saline runs as the user with number {uid} here"
    )]
    NotRoot {
        /// The wanted user.
        name: String,
        /// The number of the user that this process runs as.
        uid: u32,
    },
    /// The machine has no such group.
    #[error("there is no group {0:?} on this machine")]
    UnknownGroup(String),
    /// Only root can enter another group.
    #[error(
        "cannot run a command in the group {name:?}: this needs root, and Saline runs as the user with number {uid} here"
    )]
    NotRootForGroup {
        /// The wanted group.
        name: String,
        /// The number of the user that this process runs as.
        uid: u32,
    },
    /// The groups of this process could not be found out.
    #[error("cannot find out the groups of this process: {0}")]
    OwnGroups(#[source] io::Error),
    /// The system could not be asked.
    #[error("cannot look up {name:?}: {source}")]
    Lookup {
        /// The wanted user or group.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl User {
    /// Returns the user and the groups of this process.
    pub(crate) fn of_this_process() -> Result<Self, UserError> {
        let groups = rustix::process::getgroups();
        let groups = groups.map_err(|error| UserError::OwnGroups(error.into()))?;
        Ok(Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.into_iter().map(|group| group.as_raw()).collect(),
        })
    }
}

/// Returns the number of a group that this process may have a command run in.
pub(crate) fn enterable_group(name: &str) -> Result<u32, UserError> {
    let found = nix::unistd::Group::from_name(name).map_err(|error| UserError::Lookup {
        name: name.to_owned(),
        source: error.into(),
    })?;
    let found = found.ok_or_else(|| UserError::UnknownGroup(name.to_owned()))?;
    let own = rustix::process::geteuid();
    match own.is_root() {
        true => Ok(found.gid.as_raw()),
        false => Err(UserError::NotRootForGroup {
            name: name.to_owned(),
            uid: own.as_raw(),
        }),
    }
}

impl Account {
    /// Looks a user up, also in the directory services that the system asks.
    pub(crate) fn named(name: &str) -> Result<Self, UserError> {
        let lookup = |error: nix::Error| UserError::Lookup {
            name: name.to_owned(),
            source: error.into(),
        };
        let unknown = || UserError::Unknown(name.to_owned());
        let found = nix::unistd::User::from_name(name).map_err(lookup)?;
        let found = found.ok_or_else(unknown)?;
        let name = CString::new(found.name.clone()).map_err(|_| unknown())?;
        let groups = nix::unistd::getgrouplist(&name, found.gid).map_err(lookup)?;
        Ok(Self {
            user: User {
                uid: found.uid.as_raw(),
                gid: found.gid.as_raw(),
                groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
            },
            name: found.name,
            home: found.dir.into_os_string(),
            shell: found.shell.into_os_string(),
        })
    }

    /// Returns the home of the user that this process runs as.
    pub(crate) fn own_home() -> Option<OsString> {
        let own = nix::unistd::User::from_uid(nix::unistd::geteuid());
        Some(own.ok()??.dir.into_os_string())
    }

    /// Sets the variables that say who the user is.
    pub(crate) fn describe(&self, environment: &mut Environment) {
        let variables: [(&str, &OsStr); 4] = [
            ("HOME", &self.home),
            ("USER", self.name.as_ref()),
            ("LOGNAME", self.name.as_ref()),
            ("SHELL", &self.shell),
        ];
        for (name, value) in variables {
            environment.set(name, value);
        }
    }

    /// Returns the user to become, none if this process runs as the user.
    pub(crate) fn to_become(&self) -> Result<Option<User>, UserError> {
        let own = rustix::process::geteuid();
        match (own.is_root(), own.as_raw() == self.user.uid) {
            (true, _) => Ok(Some(self.user.clone())),
            (false, true) => Ok(None),
            (false, false) => Err(UserError::NotRoot {
                name: self.name.clone(),
                uid: own.as_raw(),
            }),
        }
    }
}

/// Returns a path for the system; none if it has a null byte.
pub(crate) fn path(path: OsString) -> Option<CString> {
    CString::new(path.into_vec()).ok()
}
