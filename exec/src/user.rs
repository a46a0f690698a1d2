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
    /// The system could not be asked.
    #[error("cannot look the user {name:?} up: {source}")]
    Lookup {
        /// The wanted user.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
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
