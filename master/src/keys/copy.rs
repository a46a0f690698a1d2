//! Copies the folder of keys, with the master's own, for a backup.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::KeyStore;

/// The end of the name of a copy of keys.
const NAME_END: &str = "pki";

/// The end of the name of a copy that is not finished. The next copy of keys deletes it. Another end than that of an unfinished
/// copy of the store, which a backup deletes at any time.
const UNFINISHED: &str = "pki-unfinished";

/// The number of levels of folders that are copied.
const LEVELS: usize = 4;

impl KeyStore {
    /// Copies `pki_dir` into a new folder (0700) beside that of a backup, with the same name and the end `.pki`. Returns the
    /// folder. Links and other special files are left out. Blocks on the disk.
    ///
    /// # Errors
    /// When a file cannot be read or written. What was copied so far is deleted.
    pub fn copy_beside(&self, backup: &Path) -> io::Result<PathBuf> {
        self.copy_and_sync(backup, |copy| Ok(rustix::fs::syncfs(File::open(copy)?)?))
    }

    /// Copies the keys, and has `sync` bring the finished copy to the disk before it gets its name.
    fn copy_and_sync(
        &self,
        backup: &Path,
        sync: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<PathBuf> {
        let (folder, unfinished) = (
            backup.with_extension(NAME_END),
            backup.with_extension(UNFINISHED),
        );
        // One copy at a time, so that what the next line deletes is not being written.
        let _copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        remove_unfinished(backup)?;
        let copied = {
            // Nothing changes keys meanwhile but programs that do not ask the master. Nothing is synced under this lock, under
            // which minions authenticate.
            let _turn = self.acting();
            copy_all(&self.pki_dir, &unfinished, LEVELS)
        };
        let copied = copied
            .and_then(|()| sync(&unfinished))
            .and_then(|()| fs::rename(&unfinished, &folder));
        if let Err(error) = copied {
            // If this fails, the next copy deletes it.
            let _ = fs::remove_dir_all(&unfinished);
            return Err(error);
        }
        if let Some(above) = folder.parent() {
            File::open(above)?.sync_all()?;
        }
        Ok(folder)
    }
}

fn copy_all(from: &Path, to: &Path, levels: usize) -> io::Result<()> {
    saline_private_files::create_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() && levels > 1 {
            copy_all(&from, &to, levels - 1)?;
        } else if kind.is_file() {
            copy_file(&from, &to)?;
        }
    }
    Ok(())
}

/// Deletes copies beside that of a backup whose writing a crash ended.
fn remove_unfinished(backup: &Path) -> io::Result<()> {
    let Some(above) = backup.parent() else {
        return Ok(());
    };
    for entry in fs::read_dir(above)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == UNFINISHED) {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

/// Copies a file (0600). One that was removed meanwhile is left out.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let opened = saline_private_files::open(from, saline_private_files::options().read(true));
    let mut original = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut options = saline_private_files::options();
    let mut copy = options.write(true).create_new(true).open(to)?;
    io::copy(&mut original, &mut copy).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use saline_channel::Identity;

    use super::*;
    use crate::keys::tests::Place;

    #[test]
    fn a_copy_of_the_keys_is_private_and_follows_no_link() {
        let place = Place::new();
        let store = place.open();
        let pki = store.pki_dir.clone();
        let identity = Identity::load_or_create(&pki).unwrap().public();
        fs::write(pki.join("minions/web1"), "a key").unwrap();
        symlink("/etc/passwd", pki.join("minions/link")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let crashed = folder.path().join("20261121091409931548.pki-unfinished");
        fs::create_dir(&crashed).unwrap();
        let copy = store
            .copy_beside(&folder.path().join("20261121091409931549"))
            .unwrap();
        assert_eq!(copy, folder.path().join("20261121091409931549.pki"));
        assert!(!crashed.exists());
        assert_eq!(Identity::load(&copy).unwrap().public(), identity);
        assert_eq!(
            fs::read_to_string(copy.join("minions/web1")).unwrap(),
            "a key"
        );
        assert!(!copy.join("minions/link").exists());
        for (path, mode) in [(copy.clone(), 0o700), (copy.join("minions/web1"), 0o600)] {
            let found = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode, "{path:?}");
        }
    }

    #[test]
    fn minions_authenticate_while_a_copy_is_synced() {
        let place = Place::new();
        let store = place.open();
        fs::write(store.pki_dir.join("minions/web1"), "a key").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut synced = 0;
        let copied = store.copy_and_sync(&folder.path().join("1"), |copy| {
            synced += 1;
            assert!(copy.join("minions/web1").exists(), "it is synced whole");
            assert!(store.acting.try_lock().is_ok(), "minions wait for the disk");
            assert!(
                store.copying.try_lock().is_err(),
                "another copy deletes this one"
            );
            Ok(())
        });
        assert!(copied.unwrap().ends_with("1.pki"));
        assert_eq!(synced, 1);
    }
}
