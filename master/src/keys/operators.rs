//! The keys of operators, in a store of their own that only an operator's editor writes.

use std::path::Path;

use saline_channel::KeyError;
use saline_messages::MinionId;

use super::folder::{Folder, Found};
use crate::authorize::LOCAL_OPERATOR;

/// The keys of operators: `pki_dir/operators/<name>`, and the local one.
#[derive(Debug)]
pub struct OperatorStore {
    folder: Folder,
    root: [u8; 32],
}

impl OperatorStore {
    /// Opens the store; creates the folder (0700) as needed. `root` is the key of the local
    /// operator.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn open(pki_dir: &Path, root: [u8; 32]) -> Result<Self, KeyError> {
        Ok(Self {
            folder: Folder::open(pki_dir.join("operators"))?,
            root,
        })
    }

    /// Returns the key of the local operator, which is in memory.
    pub fn local(&self) -> [u8; 32] {
        self.root
    }

    /// Returns the key of an operator. A name has the form of a minion's id, so that none is a
    /// path; `root` is the local operator, whatever file has that name. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk fails, or this process may open no more files.
    pub fn lookup(&self, name: &str) -> Result<Option<[u8; 32]>, KeyError> {
        if name == LOCAL_OPERATOR {
            return Ok(Some(self.root));
        }
        let Ok(name) = MinionId::parse(name) else {
            return Ok(None);
        };
        match self.folder.read(&name)? {
            Found::Key(key) => Ok(Some(key)),
            Found::Nothing | Found::NoKey => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_channel::Identity;

    #[test]
    fn root_is_not_in_the_folder_and_names_are_no_paths() {
        let folder = tempfile::tempdir().unwrap();
        let store = OperatorStore::open(folder.path(), [7; 32]).unwrap();
        let key = Identity::generate().unwrap().public();
        let seed = |name: &str| {
            std::fs::write(folder.path().join("operators").join(name), key.to_pem()).unwrap();
        };
        seed("root");
        seed("alice");
        seed("../outside");
        assert_eq!(store.lookup("root").unwrap(), Some([7; 32]));
        assert_eq!(store.lookup("alice").unwrap(), Some(key.0));
        assert_eq!(store.lookup("bob").unwrap(), None);
        for name in [
            "../outside",
            "operators/alice",
            "./alice",
            "",
            ".",
            "alice\0",
            "Älice",
        ] {
            assert_eq!(store.lookup(name).unwrap(), None, "{name:?}");
        }
    }
}
