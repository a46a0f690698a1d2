//! `pkg`: installs and removes packages, with apt.
//!
//! | file | has |
//! |---|---|
//! | `install` | the functions that install and upgrade |
//! | `removal` | the functions that remove |
//! | `hold` | the functions that put packages on hold |
//! | `listed` | the functions that tell which packages there are, and fetch the lists of repositories |
//! | `asked` | the types of their parameters |
//! | `apt`, `dpkg`, `output`, `changes` | the programs, what they print, and what they changed |

mod apt;
mod asked;
mod changes;
mod dpkg;
mod hold;
mod install;
mod listed;
mod output;
mod removal;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::Functions;

pub(super) const FUNCTIONS: Functions = &[
    &removal::AUTOREMOVE,
    &listed::AVAILABLE_VERSION,
    &listed::FILE_LIST,
    &hold::HOLD,
    &install::INSTALL,
    &listed::LATEST_VERSION,
    &listed::LIST_PKGS,
    &listed::LIST_UPGRADES,
    &listed::OWNER,
    &removal::PURGE,
    &listed::REFRESH_DB,
    &removal::REMOVE,
    &hold::UNHOLD,
    &install::UPGRADE,
    &listed::UPGRADE_AVAILABLE,
    &listed::VERSION,
];

/// Returns what a machine without apt lacks.
pub(super) fn lacks() -> Option<String> {
    match Path::new("/usr/bin/apt-get").exists() {
        true => None,
        false => Some("apt-get, which the module pkg works with".to_owned()),
    }
}
