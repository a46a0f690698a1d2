//! The folder of a daemon's state, and what is taken over from where it stood before.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The reason why state was not taken over.
#[derive(Debug, thiserror::Error)]
#[error("cannot move {} to {}: {source}; move it by hand and start again", from.display(), to.display())]
pub struct TakeOverError {
    /// The file or folder that stays where it is.
    pub from: PathBuf,
    /// The place that it belongs in.
    pub to: PathBuf,
    /// The error of the file system.
    pub source: io::Error,
}

/// Moves the files and folders of these names from `cache_dir`, where they stood before there was a `state_dir`, to
/// `state_dir`. A name that `state_dir` has already stays as it is. Call it with the locks of the
/// daemon held.
///
/// # Errors
/// When something cannot be moved, for example because the folders are on two file systems. What was moved before
/// that has been moved.
pub fn take_over(cache_dir: &Path, state_dir: &Path, names: &[&str]) -> Result<(), TakeOverError> {
    for name in names {
        let (from, to) = (cache_dir.join(name), state_dir.join(name));
        if from.symlink_metadata().is_err() || to.symlink_metadata().is_ok() {
            continue;
        }
        let move_it = || -> io::Result<()> {
            saline_private_files::create_folder(state_dir)?;
            fs::rename(&from, &to)?;
            for folder in [state_dir, cache_dir] {
                fs::File::open(folder)?.sync_all()?;
            }
            tracing::info!("{} was moved to {}", from.display(), to.display());
            Ok(())
        };
        move_it().map_err(|source| TakeOverError {
            from: from.clone(),
            to: to.clone(),
            source,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_in_the_cache_is_moved_once() {
        let root = tempfile::tempdir().unwrap();
        let (cache, state) = (root.path().join("cache"), root.path().join("lib/minion"));
        fs::create_dir_all(cache.join("jobs")).unwrap();
        fs::write(cache.join("jobs/a"), "old").unwrap();
        take_over(&cache, &state, &["jobs", "backups"]).unwrap();
        assert_eq!(fs::read(state.join("jobs/a")).unwrap(), b"old");
        assert!(!cache.join("jobs").exists() && !state.join("backups").exists());

        fs::create_dir_all(cache.join("jobs")).unwrap();
        take_over(&cache, &state, &["jobs"]).unwrap();
        assert!(cache.join("jobs").exists(), "the state that is there stays");
        assert_eq!(fs::read(state.join("jobs/a")).unwrap(), b"old");
    }

    #[test]
    fn what_cannot_be_moved_is_named_with_both_places() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        fs::create_dir_all(&cache).unwrap();
        fs::write(cache.join("spool.log"), "").unwrap();
        fs::write(root.path().join("lib"), "a file").unwrap();
        let error = take_over(&cache, &root.path().join("lib/minion"), &["spool.log"]).unwrap_err();
        let line = error.to_string();
        assert!(
            line.contains("cache/spool.log to ") && line.ends_with("start again"),
            "{line}"
        );
        assert!(cache.join("spool.log").exists());
    }
}
