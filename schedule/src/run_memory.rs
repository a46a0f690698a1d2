//! The file that remembers over a restart when jobs ran.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use saline_data::{Value, json};

use crate::exceptions::Exceptions;
use crate::runs::Remembered;

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// The version of the file.
const VERSION: i64 = 1;

/// The file with the last runs of jobs.
#[derive(Debug)]
pub(crate) struct RunMemory {
    path: PathBuf,
    /// Whether the last attempt to write failed, and the log says so.
    has_failed: bool,
}

impl RunMemory {
    /// Reads the file. One that cannot be read is set aside, and the log says so: then nothing was missed.
    pub(crate) fn open(path: PathBuf) -> (Self, BTreeMap<String, Remembered>) {
        let jobs = match read(&path) {
            Ok(jobs) => jobs,
            Err(ReadError::Io(error)) => {
                tracing::warn!(
                    "{} cannot be read ({error}): it is not known which scheduled jobs were missed",
                    path.display()
                );
                BTreeMap::new()
            }
            Err(ReadError::Damaged) => {
                set_aside(&path, "it is not known which scheduled jobs were missed");
                BTreeMap::new()
            }
        };
        let memory = Self {
            path,
            has_failed: false,
        };
        (memory, jobs)
    }

    /// Writes the file. When that fails the log says so, once until it succeeds again.
    pub(crate) fn write(&mut self, jobs: &[(String, Remembered)]) {
        let jobs = jobs.iter();
        let jobs = jobs.map(|(name, remembered)| (name.as_str(), to_value(remembered)));
        let whole = Value::map([("version", Value::Int(VERSION)), ("jobs", Value::map(jobs))]);
        let written = write_private(&self.path, &json::line(&whole));
        match written {
            Ok(()) => self.has_failed = false,
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                tracing::warn!(
                    "{} cannot be written ({error}): scheduled jobs run, and after a restart it is not known when they ran",
                    self.path.display()
                );
            }
            Err(_) => {}
        }
    }
}

/// Gives a file that cannot be read another name, and says so.
pub(crate) fn set_aside(path: &Path, consequence: &str) {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    let aside = PathBuf::from(name);
    match fs::rename(path, &aside) {
        Ok(()) => tracing::warn!(
            "{} is damaged or cannot be read, and was renamed to {}: {consequence}",
            path.display(),
            aside.display()
        ),
        Err(error) => tracing::warn!(
            "{} is damaged or cannot be read, and cannot be renamed ({error}): {consequence}",
            path.display()
        ),
    }
}

/// Reads a private file; none if there is none.
pub(crate) fn read_private(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut options = saline_private_files::options();
    let file = match saline_private_files::open(path, options.read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a private file in one step, in a private folder.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        saline_private_files::create_folder(folder)?;
    }
    saline_private_files::replace(path, bytes, 0o600)
}

enum ReadError {
    Io(io::Error),
    Damaged,
}

fn read(path: &Path) -> Result<BTreeMap<String, Remembered>, ReadError> {
    let Some(bytes) = read_private(path).map_err(ReadError::Io)? else {
        return Ok(BTreeMap::new());
    };
    from_bytes(&bytes).ok_or(ReadError::Damaged)
}

fn from_bytes(bytes: &[u8]) -> Option<BTreeMap<String, Remembered>> {
    let whole = json::read(bytes).ok()?;
    if whole.get("version")?.as_i64()? != VERSION {
        return None;
    }
    let Value::Map(jobs) = whole.get("jobs")? else {
        return None;
    };
    let jobs = jobs.iter();
    jobs.map(|(name, value)| Some((name.clone(), from_value(value)?)))
        .collect()
}

fn to_value(remembered: &Remembered) -> Value {
    let time = |at: &Timestamp| Value::from(at.to_string());
    let times = |times: &BTreeSet<Timestamp>| Value::List(times.iter().map(time).collect());
    let served = remembered.served.iter();
    let served = served.map(|(first, last)| Value::List(vec![time(first), time(last)]));
    Value::map([
        ("timing", Value::from(remembered.timing.as_str())),
        (
            "last_run",
            remembered.last_run.as_ref().map_or(Value::Null, time),
        ),
        ("cursor", time(&remembered.cursor)),
        ("served", Value::List(served.collect())),
        ("skipped", times(&remembered.exceptions.skipped)),
        ("added", times(&remembered.exceptions.added)),
    ])
}

fn from_value(value: &Value) -> Option<Remembered> {
    let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
    let Value::List(served) = value.get("served")? else {
        return None;
    };
    let served = served.iter().map(|range| match range {
        Value::List(ends) => match &ends[..] {
            [first, last] => Some((time(first)?, time(last)?)),
            _ => None,
        },
        _ => None,
    });
    let times = |name: &str| match value.get(name)? {
        Value::List(times) => times.iter().map(time).collect::<Option<BTreeSet<_>>>(),
        _ => None,
    };
    let last_run = match value.get("last_run")? {
        Value::Null => None,
        text => Some(time(text)?),
    };
    Some(Remembered {
        timing: value.get("timing")?.as_str()?.to_owned(),
        last_run,
        cursor: time(value.get("cursor")?)?,
        served: served.collect::<Option<_>>()?,
        exceptions: Exceptions {
            skipped: times("skipped")?,
            added: times("added")?,
        },
    })
}
