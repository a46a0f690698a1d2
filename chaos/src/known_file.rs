//! Files whose contents are known: each says which order it is of and how long it is, in every line.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{ChaosError, Result};

/// What was found under the name of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileState {
    /// The whole file of the order with this number.
    Whole(u32),
    /// Any other bytes, and what is wrong with them.
    Damaged(String),
}

fn line(number: u32, size: u64) -> String {
    format!("{number:06} {size:010}\n")
}

/// Puts the file of an order in the place of the one that has the name, in one step.
pub(crate) fn replace(path: &Path, number: u32, size: u64) -> Result<()> {
    let line = line(number, size);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut bytes = line.repeat(size / line.len() + 1).into_bytes();
    bytes.truncate(size);
    let new = path.with_extension(format!("new-{number}"));
    fs::write(&new, bytes).map_err(ChaosError::at(&new))?;
    fs::rename(&new, path).map_err(ChaosError::at(path))
}

/// Reads a file; none when it is not there.
pub(crate) fn read(path: &Path) -> Result<Option<FileState>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(state(&bytes))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ChaosError::at(path)(error)),
    }
}

fn state(bytes: &[u8]) -> FileState {
    let damaged = |why: String| FileState::Damaged(format!("{} bytes, {why}", bytes.len()));
    let first = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let words = std::str::from_utf8(first)
        .ok()
        .and_then(|first| first.split_once(' '));
    let numbers = words.and_then(|(number, size)| Some((number.parse().ok()?, size.parse().ok()?)));
    let Some((number, size)) = numbers else {
        return damaged("which begin as no file of an order does".to_owned());
    };
    if bytes.len() as u64 != size {
        return damaged(format!("and {size} in the file of order {number}"));
    }
    let line = line(number, size);
    let mut lines = bytes.chunks(line.len());
    match lines.position(|found| !line.as_bytes().starts_with(found)) {
        None => FileState::Whole(number),
        Some(other) => damaged(format!(
            "and others than in the file of order {number} from byte {} on",
            other * line.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_or_mixed_is_no_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data1");
        assert_eq!(read(&path).unwrap(), None);
        replace(&path, 5, 1000).unwrap();
        let old = fs::read(&path).unwrap();
        assert_eq!(old.len(), 1000);
        assert_eq!(read(&path).unwrap(), Some(FileState::Whole(5)));
        replace(&path, 6, 1000).unwrap();
        let new = fs::read(&path).unwrap();
        assert_eq!(state(&new), FileState::Whole(6));
        for damaged in [
            &old[..999],
            &[&old[..500], &new[500..]].concat(),
            &[&old[..], b"x"].concat(),
            b"",
        ] {
            assert!(matches!(state(damaged), FileState::Damaged(_)));
        }
    }
}
