//! Key files: private ones have mode 0600 from the moment they exist, and no file is ever partly
//! written. A private key that others can read is not used.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;

use zeroize::Zeroizing;

use super::KeyError;

/// The largest part of a file of public keys that is read. Two keys have 226 bytes; the rest is room for comments.
const LARGEST_FILE: u64 = 16 * 1024;

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Io { what, path, source }
}

/// Creates `path` and its missing parents with mode 0700.
///
/// # Errors
/// When a folder cannot be created, or exists and somebody else could put files into it.
pub fn create_private_folder(path: &Path) -> Result<(), KeyError> {
    saline_private_files::create_folder(path).map_err(io_error("use", path))
}

/// Checks a folder that exists as [`create_private_folder`] does.
///
/// # Errors
/// When somebody else could put files into the folder.
pub fn check_private_folder(path: &Path) -> Result<(), KeyError> {
    match saline_private_files::check_folder(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        checked => checked.map_err(io_error("use", path)),
    }
}

/// Writes `text` to `path` with this mode, through a temporary file beside it.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, text: &str, mode: u32) -> Result<(), KeyError> {
    saline_private_files::replace(path, text.as_bytes(), mode).map_err(io_error("write", path))
}

/// Waits until the disk has the names of the files in `folder`.
///
/// # Errors
/// When the disk fails.
pub fn sync_folder(folder: &Path) -> Result<(), KeyError> {
    let synced = fs::File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(io_error("sync", folder))
}

/// Reads the public key in `path`; returns none if there is no such file. Others may read it; links are not
/// followed.
///
/// # Errors
/// When the file cannot be read, or others could have changed it.
pub fn read(path: &Path) -> Result<Option<String>, KeyError> {
    let read = || {
        let mut text = String::new();
        saline_private_files::open(path, saline_private_files::options().read(true))?
            .take(LARGEST_FILE)
            .read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    match read() {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

/// Reads the private key in `path`; returns none if there is no such file. Links are not followed.
///
/// # Errors
/// When the file cannot be read, or others can read it: `Exposed`.
pub fn read_private(path: &Path) -> Result<Option<Zeroizing<String>>, KeyError> {
    let failed = io_error("read", path);
    let mut file =
        match saline_private_files::open(path, saline_private_files::options().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
    let mut text = Zeroizing::new(String::new());
    let read = file.metadata().and_then(|found| {
        let exposed = saline_private_files::mode_for_others(&found);
        // Room for all of it, so that no part of the key is left behind when the text grows.
        text.reserve_exact(usize::try_from(found.len()).unwrap_or(0).saturating_add(1));
        file.read_to_string(&mut text).map(|_| exposed)
    });
    match read.map_err(failed)? {
        None => Ok(Some(text)),
        Some(mode) => Err(KeyError::Exposed {
            path: path.to_owned(),
            mode,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::{Identity, MasterKeys, NoiseKey};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_private_key_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        Identity::load_or_create(folder).unwrap();
        NoiseKey::load_or_create(folder).unwrap();
        for (name, bits) in [
            ("identity.key", 0o644),
            ("identity.key", 0o640),
            ("noise.key", 0o604),
        ] {
            let path = folder.join(name);
            set_mode(&path, bits);
            let loaded = Identity::load_or_create(folder)
                .and_then(|_| NoiseKey::load_or_create(folder).map(drop));
            let error = loaded.unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("chmod 600"),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
            set_mode(&path, 0o600);
        }
        set_mode(&folder.join("identity.key"), 0o400);
        Identity::load_or_create(folder).unwrap();
    }

    #[test]
    fn a_private_key_is_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("pki");
        Identity::load_or_create(&inside).unwrap();
        let moved = folder.path().join("elsewhere");
        fs::rename(inside.join("identity.key"), &moved).unwrap();
        symlink(&moved, inside.join("identity.key")).unwrap();
        let error = Identity::load_or_create(&inside).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
    }

    #[test]
    fn a_masters_key_that_others_could_have_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.pub");
        let keys = MasterKeys::identity_alone(Identity::generate().unwrap().public());
        keys.write(&path).unwrap();
        assert_eq!(MasterKeys::read(&path).unwrap(), Some(keys));
        set_mode(&path, 0o664);
        let error = MasterKeys::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("master.pub") && error.contains("chmod go-w"),
            "{error}"
        );
        set_mode(&path, 0o644);
        let moved = folder.path().join("elsewhere");
        fs::rename(&path, &moved).unwrap();
        symlink(&moved, &path).unwrap();
        let error = MasterKeys::read(&path).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
    }

    #[test]
    fn a_folder_of_keys_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        Identity::load_or_create(folder.path()).unwrap();
        set_mode(folder.path(), 0o777);
        for error in [
            Identity::load_or_create(folder.path()).unwrap_err(),
            NoiseKey::load_or_create(folder.path()).unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.contains("chmod go-w"), "{error}");
            assert!(
                error.contains(&folder.path().display().to_string()),
                "{error}"
            );
        }
    }
}
