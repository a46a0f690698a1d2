//! `autosign_file` and `autoreject_file`: lists of ids by which the master decides about new keys itself.
//!
//! A line is an id, a glob or a regular expression over whole ids; a line that begins with `#` is a comment. One that can be read as
//! both accepts as a glob alone, and rejects as either. A file is read when a new key is presented and it has changed since. One that
//! is not there names nobody, and the log says so.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use saline_messages::MinionId;
use saline_private_files::changeable;
use saline_targeting::TextPattern;

/// The largest file, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The option whose file rejects keys.
pub(super) const REJECTING: &str = "autoreject_file";

/// The reason that an operator is told for a file that is not there.
const MISSING: &str = "there is no such file, so it names nobody";

/// The reason why a list of ids is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} {}: {why}", path.display())]
pub struct IdFileError {
    /// The option that names the file.
    pub option: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What is wrong, with the line, and what to do.
    pub why: String,
}

/// A file with a list of ids.
#[derive(Debug)]
pub struct IdFile {
    option: &'static str,
    path: PathBuf,
    last: Mutex<Option<LastRead>>,
}

/// The list as it was read last.
#[derive(Debug, Clone)]
struct LastRead {
    version: Option<Version>,
    ids: Result<Arc<[TextPattern]>, String>,
}

/// The version of a file: another one has another of these.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
    mode: u32,
    owner: u32,
}

impl IdFile {
    /// Creates the list in the file that `option` names.
    pub fn new(option: &'static str, path: &Path) -> Self {
        Self {
            option,
            path: path.to_owned(),
            last: Mutex::default(),
        }
    }

    /// Returns the option that names the file.
    pub fn option(&self) -> &'static str {
        self.option
    }

    /// Returns what to tell an operator of a file that is not there.
    pub fn missing(&self) -> Option<String> {
        let is_missing = !self.path.exists();
        is_missing.then(|| self.error(MISSING.to_owned()).to_string())
    }

    /// Whether a line of the file names this id. Blocks on the disk.
    ///
    /// # Errors
    /// When others can change the file, it cannot be read, a line is malformed, or a regular expression takes too many steps.
    pub fn names(&self, id: &MinionId) -> Result<bool, IdFileError> {
        for pattern in self.read()?.iter() {
            let matches = pattern.matches(id.as_str());
            if matches.map_err(|error| self.error(format!("{}: {error}", pattern.as_str())))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the file, unless it is as it was. Blocks on the disk.
    ///
    /// # Errors
    /// As [`names`](Self::names).
    pub fn read(&self) -> Result<Arc<[TextPattern]>, IdFileError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let version = match fs::metadata(&self.path) {
            Ok(found) => Some(Version::of(&found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.error(error.to_string())),
        };
        if let Some(last) = last.as_ref().filter(|last| last.version == version) {
            return last.ids.clone().map_err(|why| self.error(why));
        }
        let ids = match &version {
            None => {
                tracing::warn!("{}", self.error(MISSING.to_owned()));
                Ok(Vec::new().into())
            }
            Some(_) => self.ids(),
        };
        if let Err(why) = &ids {
            tracing::error!("{}", self.error(why.clone()));
        }
        *last = Some(LastRead {
            version,
            ids: ids.clone(),
        });
        ids.map_err(|why| self.error(why))
    }

    fn ids(&self) -> Result<Arc<[TextPattern]>, String> {
        let file = File::open(&self.path).map_err(|error| error.to_string())?;
        let found = file.metadata().map_err(|error| error.to_string())?;
        if changeable(&found).is_some() {
            return Err(
                "somebody other than root and the master's user can change it: chown and chmod go-w it"
                    .to_owned(),
            );
        }
        let mut text = String::new();
        let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
        read.map_err(|error| error.to_string())?;
        if text.len() as u64 > MAX_FILE {
            return Err(format!("it has more than {MAX_FILE} bytes"));
        }
        let lines = text.lines().enumerate();
        let patterns = lines.filter_map(|(number, line)| {
            let line = line.trim();
            let is_pattern = !line.is_empty() && !line.starts_with('#');
            is_pattern.then(|| {
                let compiled = match self.option {
                    REJECTING => TextPattern::glob_or_regex(line),
                    _ => TextPattern::glob_else_regex(line),
                };
                compiled.map_err(|error| format!("line {}: {error}", number + 1))
            })
        });
        patterns.collect()
    }

    fn error(&self, why: String) -> IdFileError {
        IdFileError {
            option: self.option,
            path: self.path.clone(),
            why,
        }
    }
}

impl Version {
    fn of(found: &fs::Metadata) -> Self {
        Self {
            file: (found.dev(), found.ino()),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
            mode: found.mode(),
            owner: found.uid(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn id(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    #[test]
    fn ids_globs_and_regular_expressions_name_whole_ids() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("autosign.conf");
        let file = IdFile::new("autosign_file", &path);
        assert_eq!(file.names(&id("web1")), Ok(false));
        fs::write(&path, "# the web\nweb*\n\ndb1.example\n^lb[0-9]+$\n").unwrap();
        for (name, expected) in [
            ("web1", true),
            ("web", true),
            ("db1.example", true),
            ("db1xexample", false),
            ("lb12", true),
            ("lb12b", false),
            ("xweb1", false),
        ] {
            assert_eq!(file.names(&id(name)), Ok(expected), "{name}");
        }
        fs::write(&path, "other\n").unwrap();
        assert_eq!(file.names(&id("web1")), Ok(false));
        assert_eq!(file.names(&id("other")), Ok(true));
        fs::remove_file(&path).unwrap();
        assert_eq!(file.names(&id("other")), Ok(false));
    }

    #[test]
    fn what_can_be_a_glob_accepts_as_one_alone_and_rejects_as_either() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids");
        let [accepting, rejecting] =
            ["autosign_file", REJECTING].map(|name| IdFile::new(name, &path));
        let missing = rejecting.missing().unwrap_or_default();
        assert!(
            missing.ends_with("ids: there is no such file, so it names nobody"),
            "{missing}"
        );
        fs::write(&path, "db5.*\n").unwrap();
        assert_eq!(rejecting.missing(), None);
        for (name, expected) in [
            ("db5.example", [true, true]),
            ("db5", [false, true]),
            ("db6", [false, false]),
        ] {
            let named = [&accepting, &rejecting].map(|file| file.names(&id(name)).unwrap());
            assert_eq!(named, expected, "{name}");
        }
    }

    #[test]
    fn a_file_that_others_can_change_or_with_a_bad_line_names_nobody_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("autosign.conf");
        let file = IdFile::new("autosign_file", &path);
        let told = || {
            let error = file.names(&id("web1")).unwrap_err().to_string();
            error.replace(&*path.to_string_lossy(), "FILE")
        };
        fs::write(&path, "web*\nlb(\n").unwrap();
        assert!(
            told().starts_with("autosign_file FILE: line 2: "),
            "{}",
            told()
        );
        fs::write(&path, "web*\n").unwrap();
        assert_eq!(file.names(&id("web1")), Ok(true));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(
            told(),
            "autosign_file FILE: somebody other than root and the master's user can change it: chown and chmod go-w it"
        );
    }
}
