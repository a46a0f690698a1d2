//! Paths that lead out, files that change under the reader, and trees of every kind.

use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::{InnerPath, Root};

mod escapes;
mod listings;
mod paths;
mod races;
mod same_answers;
mod stored;

/// A root with a secret beside it.
struct Jail {
    all: TempDir,
    root: Root,
}

impl Jail {
    fn new() -> Self {
        let all = TempDir::new().unwrap();
        std::fs::create_dir_all(all.path().join("root/folder")).unwrap();
        std::fs::write(all.path().join("secret"), "secret").unwrap();
        std::fs::write(all.path().join("root/file"), "content").unwrap();
        std::fs::write(all.path().join("root/folder/inner"), "inner").unwrap();
        let root = Root::open(&all.path().join("root")).unwrap();
        Self { all, root }
    }

    fn path(&self, below: &str) -> std::path::PathBuf {
        self.all.path().join("root").join(below)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    /// Reads a file, and returns its content or the error in words.
    fn read(&self, path: &str) -> Result<String, String> {
        let path = InnerPath::parse(path).map_err(|error| error.to_string())?;
        let read = self
            .root
            .read(&path, 1_000)
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8(read).unwrap())
    }
}
