//! Text files of the system that are edited line by line: `/etc/hosts`, `/etc/fstab`, tables of cron. A line that an edit
//! is not about keeps its bytes, whatever they are.

use std::borrow::Cow;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use saline_functions::Failure;

/// The largest file that is read, in bytes: those of the system are far smaller.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The lines of a file, each with the bytes that end it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines(Vec<Vec<u8>>);

impl Lines {
    /// Splits a file into its lines.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        Self(lines.map(<[u8]>::to_vec).collect())
    }

    /// Reads a file; one that does not exist has no lines.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| cannot("read", path, &error);
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        if !found.is_file() || found.len() > MAX_FILE_BYTES {
            let why = io::Error::other("it is not a regular file of at most 16 MiB");
            return Err(failed(why));
        }
        fs::read(path).map(|bytes| Self::of(&bytes)).map_err(failed)
    }

    /// Puts the file in the place of the one at `path`, in one step. It keeps the owner and the mode of the old file; a new
    /// one belongs to this process's user, with mode 0644. A symbolic link stays, and its target is replaced.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        self.replace(path)
            .map_err(|error| cannot("write", path, &error))
    }

    fn replace(&self, path: &Path) -> io::Result<()> {
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        let folder = target.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::Builder::new()
            .prefix(".saline-")
            .tempfile_in(folder)?;
        file.write_all(&self.to_bytes())?;
        match fs::metadata(&target) {
            Ok(old) => {
                // The owner first: a change of it takes some bits of the mode away.
                fchown(file.as_file(), Some(old.uid()), Some(old.gid()))?;
                file.as_file().set_permissions(old.permissions())?;
            }
            Err(_) => file
                .as_file()
                .set_permissions(Permissions::from_mode(0o644))?,
        }
        file.as_file().sync_all()?;
        file.persist(&target)?;
        Ok(())
    }

    /// Returns the bytes of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// Returns the lines as texts, without the bytes that end them.
    pub(crate) fn texts(
        &self,
    ) -> impl DoubleEndedIterator<Item = Cow<'_, str>> + ExactSizeIterator {
        self.0.iter().map(|line| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line))
        })
    }

    /// Returns the number of the first line that passes.
    pub(crate) fn position(&self, mut passes: impl FnMut(&str) -> bool) -> Option<usize> {
        self.texts().position(|line| passes(&line))
    }

    /// Puts a line in the place of another.
    pub(crate) fn set(&mut self, at: usize, line: &str) {
        self.0[at] = ended(line);
    }

    /// Inserts a line before another.
    pub(crate) fn insert(&mut self, at: usize, line: &str) {
        self.end_last_line();
        self.0.insert(at, ended(line));
    }

    /// Appends a line.
    pub(crate) fn push(&mut self, line: &str) {
        self.insert(self.0.len(), line);
    }

    /// Keeps the lines that pass.
    pub(crate) fn retain(&mut self, mut passes: impl FnMut(&str) -> bool) {
        let kept: Vec<bool> = self.texts().map(|line| passes(&line)).collect();
        let mut kept = kept.into_iter();
        self.0.retain(|_| kept.next().unwrap_or(true));
    }

    /// Ends the last line, so that another can stand behind it.
    fn end_last_line(&mut self) {
        if let Some(last) = self.0.last_mut().filter(|last| !last.ends_with(b"\n")) {
            last.push(b'\n');
        }
    }
}

fn ended(line: &str) -> Vec<u8> {
    format!("{line}\n").into_bytes()
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Execution(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_file_comes_back_as_it_was(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Lines::of(&bytes).to_bytes(), bytes);
        }

        #[test]
        fn an_edit_leaves_other_lines_alone(
            lines in proptest::collection::vec("[ab#\\x00-\\x09 é]{0,8}", 1..12),
            at in any::<proptest::sample::Index>(),
            ends in any::<bool>(),
        ) {
            let mut bytes = lines.join("\n").into_bytes();
            if ends || lines.last().is_some_and(String::is_empty) {
                bytes.push(b'\n');
            }
            let (before, at) = (Lines::of(&bytes), at.index(lines.len()));
            let mut edited = before.clone();
            edited.set(at, "new");
            edited.insert(at, "newer");
            edited.push("newest");
            edited.retain(|line| !line.starts_with("new"));
            let others = before.0.iter().enumerate().filter(|(number, _)| *number != at);
            let kept: Vec<u8> = others.flat_map(|(_, line)| ended(&String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)))).collect();
            prop_assert_eq!(edited.to_bytes(), kept);
        }
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_behind_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "a\nb").unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        let mut lines = Lines::read(&link).unwrap();
        lines.push("c");
        lines.write(&link).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"a\nb\nc\n");
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        let new = folder.path().join("new");
        Lines::of(b"x").write(&new).unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o7777, 0o644);
        assert!(Lines::read(folder.path()).is_err());
        assert_eq!(
            Lines::read(&folder.path().join("none")).unwrap(),
            Lines::default()
        );
    }
}
