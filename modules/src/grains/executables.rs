//! Grains that executables in `grains_dirs` print: a mapping in JSON. Each has the checks and the bounds of an executable that
//! is a module.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_data::{Value, json};
use saline_functions::Mapping;

use super::GrainStore;
use crate::Host;
use crate::command::Command;
use crate::executables::{excerpt, trusted};
use crate::job::JobControl;
use crate::merged_entries::merge_entries;

/// The most executables in the folders of grains.
const MAX_EXECUTABLES: usize = 64;

/// The largest output of one, in bytes.
const MOST_PRINTED: usize = 64 * 1024;

/// How long one may take.
const TIMEOUT: Duration = Duration::from_secs(10);

impl GrainStore {
    /// Runs the executables in these folders, one after the other, and collects all grains again. The grains of one that fails are
    /// left out, and the log says why.
    pub(crate) fn run_executables(&self, folders: &[PathBuf], host: &Host, job: &JobControl) {
        let mut printed = Mapping::new();
        for path in executables(folders).values() {
            match run(path, host, job) {
                Ok(grains) => merge_entries(&mut printed, grains),
                Err(why) => tracing::warn!("the grains of {} are left out: {why}", path.display()),
            }
        }
        *self.lock() = printed;
        self.refresh();
    }
}

/// Returns the files of the folders by their names, in alphabetical order. Of several with the same name, that in the first folder.
fn executables(folders: &[PathBuf]) -> BTreeMap<std::ffi::OsString, PathBuf> {
    let mut all = BTreeMap::new();
    for folder in folders {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!("grains_dirs: cannot read {}: {error}", folder.display());
                continue;
            }
        };
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let shown = name.to_string_lossy();
            // An editor's copy, or a package manager's, is not run.
            let is_left =
                shown.starts_with('.') || shown.ends_with('~') || shown.contains(".dpkg-");
            if is_left || !path.is_file() {
                continue;
            }
            if all.len() == MAX_EXECUTABLES {
                let folder = folder.display();
                tracing::warn!(
                    "grains_dirs: {folder} is not read further: there are {MAX_EXECUTABLES} executables"
                );
                return all;
            }
            all.entry(name).or_insert(path);
        }
    }
    all
}

fn run(path: &Path, host: &Host, job: &JobControl) -> Result<Mapping, String> {
    trusted(path).map_err(|error| error.to_string())?;
    let command = Command {
        argv: vec![path.display().to_string()],
        folder: Some(PathBuf::from("/")),
        timeout: Some(TIMEOUT),
        ..Command::default()
    };
    let done = command.run(host, job).map_err(|error| error.to_string())?;
    if done.timed_out {
        return Err(format!("it took longer than {} seconds", TIMEOUT.as_secs()));
    }
    if done.retcode != 0 {
        let said = excerpt(&done.stderr.into_bytes().unwrap_or_default());
        return Err(format!("it ended with retcode {}: {said}", done.retcode));
    }
    let printed = done.stdout.into_bytes()?;
    if printed.len() > MOST_PRINTED {
        return Err(format!("it printed more than {MOST_PRINTED} bytes"));
    }
    match json::read(printed.trim_ascii()) {
        Ok(Value::Map(grains)) => Ok(grains),
        Ok(_) => Err("it did not print a mapping of names to values".to_owned()),
        Err(error) => Err(format!(
            "it did not print JSON ({error}): {}",
            excerpt(&printed)
        )),
    }
}
