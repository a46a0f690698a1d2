//! Expands patterns of files such as `master.d/*.conf`.

use std::io;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;

/// The reason why a pattern cannot be expanded.
#[derive(Debug)]
pub(crate) enum PatternError {
    /// The pattern is malformed.
    Malformed(String),
    /// A folder cannot be read.
    Folder(PathBuf, io::Error),
}

/// Returns the files and folders that `pattern` matches, relative to `base`, in the order of their
/// names. As in a shell, a wildcard does not match a dot at the beginning of a name.
pub(crate) fn expand(base: &Path, pattern: &str) -> Result<Vec<PathBuf>, PatternError> {
    let mut found = vec![base.to_owned()];
    for component in from_home(pattern).components() {
        match component {
            Component::Normal(name) => match name.to_str().filter(|name| is_pattern(name)) {
                Some(name) => found = matching(&found, name)?,
                None => found.iter_mut().for_each(|path| path.push(name)),
            },
            Component::CurDir => {}
            other => found.iter_mut().for_each(|path| path.push(other)),
        }
    }
    found.retain(|path| path.exists());
    found.sort();
    Ok(found)
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

fn from_home(pattern: &str) -> PathBuf {
    match (pattern.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(pattern),
    }
}

fn matching(folders: &[PathBuf], pattern: &str) -> Result<Vec<PathBuf>, PatternError> {
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| PatternError::Malformed(error.kind().to_string()))?
        .compile_matcher();
    let mut found = Vec::new();
    for folder in folders {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => continue,
                _ => return Err(PatternError::Folder(folder.clone(), error)),
            },
        };
        for entry in entries {
            let entry = entry.map_err(|error| PatternError::Folder(folder.clone(), error))?;
            let name = entry.file_name();
            let hidden = name.as_encoded_bytes().starts_with(b".");
            if matcher.is_match(&name) && (!hidden || pattern.starts_with('.')) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", ".hidden.conf", "c.txt", "sub/d.conf"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let names = |pattern| {
            let found = expand(dir.path(), pattern).unwrap();
            let relative = |p: PathBuf| p.strip_prefix(dir.path()).unwrap().display().to_string();
            found.into_iter().map(relative).collect::<Vec<_>>()
        };
        assert_eq!(names("*.conf"), ["a.conf", "b.conf"]);
        assert_eq!(names("[!a].conf"), ["b.conf"]);
        assert_eq!(names("./*/d.conf"), ["sub/d.conf"]);
        assert_eq!(names("c.txt"), ["c.txt"]);
        assert!(names("absent.d/*.conf").is_empty());
        assert!(names("absent").is_empty());
        let absolute = format!("{}/?.txt", dir.path().display());
        assert_eq!(expand(Path::new("/elsewhere"), &absolute).unwrap().len(), 1);
        assert!(matches!(
            expand(dir.path(), "[a"),
            Err(PatternError::Malformed(_))
        ));
    }
}
