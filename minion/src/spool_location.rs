//! Where the spool of a minion is, by which the minion sees that its machine was restarted since it last ran, or that it is a
//! copy.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Linux's id of the boot, which it draws at each.
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// Identifies a boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootId(String);

impl BootId {
    /// Reads the id of the running boot; none when the system does not tell it.
    pub fn current() -> Option<Self> {
        // A fault injector cannot restart the machine.
        #[cfg(feature = "chaos")]
        if let Some(path) = std::env::var_os("SALINE_CHAOS_BOOT_ID_FILE") {
            return Self::read(path.as_ref());
        }
        Self::read(BOOT_ID_FILE.as_ref())
    }

    fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let text = text.trim();
        (!text.is_empty() && text.len() <= 64).then(|| Self(text.to_owned()))
    }
}

/// The location of a minion's spool. Only one runs in one place at a time, because it holds the lock of its folder: a
/// start in the same place follows one that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolLocation {
    /// The boot of the machine, where it can be told.
    pub boot: Option<BootId>,
    /// The device and the number of the folder of the spool. A copy of it has others.
    folder: Option<(u64, u64)>,
}

impl SpoolLocation {
    /// Returns the place of a minion whose spool is in `folder`.
    pub fn of(folder: Option<&Path>) -> Self {
        let found = folder.and_then(|folder| std::fs::metadata(folder).ok());
        Self {
            boot: BootId::current(),
            folder: found.map(|folder| (folder.dev(), folder.ino())),
        }
    }

    /// Whether it is surely the same place.
    pub fn is_surely(&self, other: &Self) -> bool {
        self.boot.is_some() && self.folder.is_some() && self == other
    }

    /// Creates a place for a test.
    #[cfg(test)]
    pub(crate) fn named(boot: &str, folder: u64) -> Self {
        Self {
            boot: Some(BootId(boot.to_owned())),
            folder: Some((1, folder)),
        }
    }
}
