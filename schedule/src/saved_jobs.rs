//! The file with what functions have changed of a schedule: jobs that were added, and what is disabled. It is YAML, and its
//! `schedule` can be copied into a configuration file as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use saline_data::{Value, yaml};

use crate::entry::{Entry, MAX_ENTRIES};
use crate::run_memory::{read_private, set_aside, write_private};

/// What functions have changed of a schedule.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SavedJobs {
    /// The jobs that were added.
    pub(crate) jobs: BTreeMap<String, Arc<Entry>>,
    /// The jobs of the configuration that do not run by the clock.
    pub(crate) disabled: BTreeSet<String>,
    /// Whether no job runs by the clock.
    pub(crate) all_disabled: bool,
}

/// The file.
#[derive(Debug)]
pub(crate) struct SavedFile(pub(crate) PathBuf);

impl SavedFile {
    /// Reads the file. One that cannot be read is set aside, and the log says so.
    pub(crate) fn read(&self) -> SavedJobs {
        let path = &self.0;
        let consequence = "jobs that were added to the schedule do not run";
        match read_private(path) {
            Ok(None) => SavedJobs::default(),
            Ok(Some(bytes)) => from_bytes(&bytes).unwrap_or_else(|| {
                set_aside(path, consequence);
                SavedJobs::default()
            }),
            // It may be whole, and the next change would take its place.
            Err(error) => {
                set_aside(path, &format!("{consequence} ({error})"));
                SavedJobs::default()
            }
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When the disk does not take it; the old file stays.
    pub(crate) fn write(&self, saved: &SavedJobs) -> io::Result<()> {
        let jobs = saved.jobs.iter();
        let jobs = jobs.map(|(name, entry)| (name.as_str(), entry.to_value()));
        let whole = Value::map([
            ("enabled", Value::Bool(!saved.all_disabled)),
            (
                "disabled",
                Value::texts(saved.disabled.iter().map(String::as_str)),
            ),
            ("schedule", Value::map(jobs)),
        ]);
        write_private(&self.0, &yaml::write(&whole, None))
    }
}

fn from_bytes(bytes: &[u8]) -> Option<SavedJobs> {
    let whole = yaml::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    let Value::List(disabled) = whole.get("disabled")? else {
        return None;
    };
    let disabled = disabled.iter().map(|name| name.as_str().map(str::to_owned));
    let entries = match whole.get("schedule")? {
        Value::Map(entries) if entries.len() <= MAX_ENTRIES => entries,
        _ => return None,
    };
    let read = |(name, value): &(String, Value)| {
        let entry = Entry::read(name, value).ok()?;
        Some((name.clone(), Arc::new(entry)))
    };
    Some(SavedJobs {
        jobs: entries.iter().map(read).collect::<Option<_>>()?,
        disabled: disabled.collect::<Option<_>>()?,
        all_disabled: !whole.get("enabled")?.as_bool()?,
    })
}
