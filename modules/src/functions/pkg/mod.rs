//! `pkg`: installs and removes packages, with apt.
//!
//! | file | has |
//! |---|---|
//! | `install` | the functions that install and upgrade |
//! | `removal` | the functions that remove |
//! | `hold` | the functions that put packages on hold |
//! | `queries` | the functions that tell which packages there are, and fetch the lists of repositories |
//! | `info` | the functions that tell what dpkg knows of packages |
//! | `repositories`, `sources` | the function that tells from where packages come, and the formats of apt's configuration |
//! | `asked` | the types of their parameters |
//! | `apt`, `dpkg`, `output`, `changes` | the programs, what they print, and what they changed |

mod apt;
mod asked;
mod changes;
mod dpkg;
mod hold;
mod info;
mod install;
mod output;
mod queries;
mod removal;
mod repositories;
mod sources;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::Functions;

pub(super) const FUNCTIONS: Functions = &[
    &removal::AUTOREMOVE,
    &queries::AVAILABLE_VERSION,
    &queries::FILE_LIST,
    &info::GET_SELECTIONS,
    &hold::HOLD,
    &info::INFO_INSTALLED,
    &install::INSTALL,
    &queries::LATEST_VERSION,
    &queries::LIST_PKGS,
    &repositories::LIST_REPOS,
    &queries::LIST_UPGRADES,
    &queries::OWNER,
    &removal::PURGE,
    &queries::REFRESH_DB,
    &removal::REMOVE,
    &hold::UNHOLD,
    &install::UPGRADE,
    &queries::UPGRADE_AVAILABLE,
    &queries::VERSION,
];

/// Returns what a machine without apt lacks.
pub(super) fn lacks() -> Option<String> {
    match Path::new("/usr/bin/apt-get").exists() {
        true => None,
        false => Some("apt-get, which the module pkg works with".to_owned()),
    }
}
