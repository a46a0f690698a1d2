//! Files under `cachedir/output` with outputs that were too large to be sent.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use saline_protocol::transport::Clock;

/// How long a file is kept.
const FILE_LIFETIME: Duration = Duration::from_secs(24 * 3600);

fn folder(cache_dir: &Path) -> PathBuf {
    cache_dir.join("output")
}

/// Creates a file. Its name is made of the minion's own numbers: no text from the network is part of
/// a path.
///
/// # Errors
/// When the file cannot be created.
pub fn create(cache_dir: &Path, extension: &str) -> io::Result<(File, PathBuf)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let folder = folder(cache_dir);
    saline_private_files::create_folder(&folder)?;
    let now = Clock
        .wall()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let path = folder.join(format!(
        "{}-{}-{}.{extension}",
        now.as_millis(),
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    ));
    let mut options = saline_private_files::options();
    let file = saline_private_files::open(&path, options.write(true).create_new(true))?;
    Ok((file, path))
}

/// Keeps these bytes in a file, and returns its path.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(cache_dir: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let (mut file, path) = create(cache_dir, "msgpack")?;
    file.write_all(bytes)?;
    Ok(path)
}

/// Removes the files that are older than a day.
pub fn sweep(cache_dir: &Path) {
    let Ok(entries) = std::fs::read_dir(folder(cache_dir)) else {
        return;
    };
    for entry in entries.flatten() {
        let age = entry
            .metadata()
            .and_then(|data| data.modified())
            .ok()
            .and_then(|modified| Clock.wall().duration_since(modified).ok());
        if age.is_some_and(|age| age > FILE_LIFETIME)
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            tracing::warn!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_kept_output_is_private() {
        let cache = tempfile::tempdir().unwrap();
        let path = keep(cache.path(), b"secret").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        let folder = path.parent().unwrap();
        assert_eq!(mode(folder), 0o700);
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(keep(cache.path(), b"secret").is_err());
    }
}
