//! Grains in files beside the configuration: `grains.d/*.yaml`, `*.yml` and `*.conf`, which an operator or a package writes, and over them the file
//! `grains`, which `grains.setval` and its like write too.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use saline_data::{Value, yaml};
use saline_functions::{Failure, Mapping};

use crate::line_file::Lines;
use crate::merged_entries::merge_entries;

/// The largest file with grains, in bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// The largest number of files in `grains.d`.
const MOST_FILES: usize = 256;

/// The name of the file that is locked while that of the functions is changed.
const LOCK: &str = ".grains.lock";

/// The first line of the file that functions write.
const HEADER: &str =
    "# The functions of the module grains write this file, and keep no comments in it.\n";

/// The files with grains in a folder of configuration.
#[derive(Debug, Clone)]
pub(super) struct StaticFiles(pub(super) PathBuf);

impl StaticFiles {
    /// Returns the file that functions write.
    fn kept(&self) -> PathBuf {
        self.0.join("grains")
    }

    /// Reads the file that functions write.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub(super) fn read(&self) -> Result<Mapping, Failure> {
        read(&self.kept())
    }

    /// Adds the grains of all files. A file that cannot be used is left out, and the log says why.
    pub(super) fn add_to(&self, found: &mut Mapping) {
        let mut files = self.in_folder();
        files.push(self.kept());
        for path in files {
            match read(&path) {
                Ok(grains) => merge_entries(found, grains),
                Err(error) => tracing::warn!("grains are left out: {error}"),
            }
        }
    }

    /// Returns the files of `grains.d`, in alphabetical order.
    fn in_folder(&self) -> Vec<PathBuf> {
        let folder = self.0.join("grains.d");
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let ends = |path: &PathBuf| {
            let end = path.extension().and_then(|end| end.to_str());
            matches!(end, Some("yaml" | "yml" | "conf"))
        };
        let mut paths: Vec<PathBuf> = paths.filter(ends).take(MOST_FILES + 1).collect();
        if paths.len() > MOST_FILES {
            let folder = folder.display();
            tracing::warn!("{folder} has more than {MOST_FILES} files: some of them are left out");
            paths.truncate(MOST_FILES);
        }
        paths.sort();
        paths
    }

    /// Reads the file that functions write, has `edit` change it, and puts it in the place of the old one in one step. Another
    /// edit, also one of another process, waits meanwhile.
    ///
    /// # Errors
    /// When the file cannot be read, understood or written, and when the edit fails: nothing is written then.
    pub(super) fn edit<T>(
        &self,
        edit: impl FnOnce(&mut Mapping) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // A file of its own, since the other one is replaced, and one that only this user can open: whoever may open what
        // is locked can hold the lock. The lock ends with the descriptor.
        let locked = self.0.join(LOCK);
        let mut options = saline_private_files::options();
        let options = options.write(true).create(true).truncate(false);
        let lock = saline_private_files::open(&locked, options).and_then(|file| {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        let _lock = lock.map_err(|error| cannot("lock", &locked, &error))?;
        let path = self.kept();
        let mut grains = read(&path)?;
        let before = grains.clone();
        let done = edit(&mut grains)?;
        if grains == before {
            return Ok(done);
        }
        let mut bytes = HEADER.as_bytes().to_vec();
        if !grains.is_empty() {
            bytes.extend(yaml::write(&Value::Map(grains), Some(2)));
            bytes.push(b'\n');
        }
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let path = path.display();
            let why = format!("{path} would have more than {MAX_FILE_BYTES} bytes");
            return Err(Failure::Execution(why));
        }
        Lines::of(&bytes).write(&path)?;
        Ok(done)
    }
}

/// Reads a file with grains; one that does not exist has none.
fn read(path: &Path) -> Result<Mapping, Failure> {
    let failed = |error: io::Error| cannot("read", path, &error);
    let malformed =
        |why: &str| Failure::Execution(format!("{}: {why}; mend the file", path.display()));
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    // A pipe would keep the minion waiting.
    if !found.is_file() {
        return Err(malformed("it is not a regular file"));
    }
    let mut text = String::new();
    let mut file = File::open(path).map_err(failed)?.take(MAX_FILE_BYTES + 1);
    file.read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(malformed(&format!(
            "it has more than {MAX_FILE_BYTES} bytes"
        )));
    }
    match yaml::parse(&text) {
        Ok(Value::Map(grains)) => Ok(grains),
        Ok(Value::Null) => Ok(Vec::new()),
        Ok(_) => Err(malformed("it is not a mapping of names to values")),
        Err(error) => Err(malformed(&error.to_string())),
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Execution(format!("cannot {what} {}: {error}", path.display()))
}
