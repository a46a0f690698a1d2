//! The services of the master that are on during a run: pillar, files, mine, reactor, and deliveries to a database outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{ChaosError, Result};
use crate::known_file::{self, FileState};
use crate::plan::{FileOrder, INSTANCE};

/// The pillar of every minion, which names the minion that it is for.
const PILLAR: &str = "own: {{ grains.id }}\n";

/// The key of the pillar.
pub(crate) const PILLAR_KEY: &str = "own";

/// The name of the value that each minion leaves in the mine.
pub(crate) const MINE_NAME: &str = "sent";

/// What the reactor does about the start of a minion.
const STARTED: &str = "\
started:
  local.test.ping:
    - tgt: {{ data['id'] }}
";

/// The database outside, as the configuration of the master has it.
const DATABASE: &str = "/outside/returns.sqlite";

/// Writes the files of the services, and returns what the configuration of the master says of them.
pub(super) fn write(root: &Path) -> Result<String> {
    let outside = outside(root);
    fs::create_dir_all(&outside).map_err(ChaosError::at(&outside))?;
    let served = root.join("master/srv");
    for (name, text) in [
        ("pillar/top.sls", "base: {'*': [own]}\n"),
        ("pillar/own.sls", PILLAR),
        ("reactor/started.sls", STARTED),
    ] {
        let path = served.join(name);
        let folder = path.parent().unwrap_or(&served);
        fs::create_dir_all(folder).map_err(ChaosError::at(folder))?;
        fs::write(&path, text).map_err(ChaosError::at(&path))?;
    }
    Ok(format!(
        "ext_job_cache: sqlite3\nreturner.sqlite3.database: {DATABASE}\n\
         reactor:\n  - 'salt/minion/*/start': [{}]\n",
        served.join("reactor/started.sls").display()
    ))
}

/// Returns what the configuration of each minion says of the mine: when a minion starts it leaves a value that no other run of the
/// function makes, and that is appended to a file of its own before it is sent.
pub(super) fn mine_functions(root: &Path) -> String {
    let line = format!(
        "echo $(cat /proc/sys/kernel/random/uuid) | tee -a {}/${INSTANCE}",
        mines(root).display()
    );
    format!("mine_functions: {{{MINE_NAME}: {{mine_function: cmd.run, cmd: '{line}'}}}}")
}

/// The folder with a file for each instance: the values that it made for the mine, a line each.
pub(super) fn mines(root: &Path) -> PathBuf {
    root.join("mines")
}

/// Returns for each minion the last values that its instances, itself and its clones, made for the mine.
pub(crate) fn last_made(root: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let folder = mines(root);
    let mut made: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(ChaosError::at(&folder))? {
        let path = entry.map_err(ChaosError::at(&folder))?.path();
        let text = fs::read_to_string(&path).map_err(ChaosError::at(&path))?;
        let instance = path.file_name().and_then(|name| name.to_str());
        let minion = instance.and_then(|instance| instance.split('-').next());
        if let (Some(minion), Some(last)) = (minion, text.lines().last()) {
            made.entry(minion.to_owned())
                .or_default()
                .insert(last.to_owned());
        }
    }
    Ok(made)
}

/// The folder of the files that the master serves, which is the first that it looks for below its root_dir.
pub(crate) fn served(root: &Path) -> PathBuf {
    root.join("master/srv/saline")
}

/// The folder to which a minion fetches files. It is no part of the minion's own folder, which a fault may put back.
pub(crate) fn fetched(root: &Path, minion: &str) -> PathBuf {
    root.join("fetched").join(minion)
}

/// Returns what stands under the names of the files that were fetched, by minion and number of the order.
pub(crate) fn fetched_files(root: &Path) -> Result<BTreeMap<(String, u32), FileState>> {
    let mut found = BTreeMap::new();
    for (minion, folder) in entries(&root.join("fetched"))? {
        for (name, path) in entries(&folder)? {
            // Unfinished files have other names.
            let order = FileOrder::find(name.as_bytes());
            let order = order.filter(|order| name == FileOrder::left_by(*order));
            if let (Some(order), Some(state)) = (order, known_file::read(&path)?) {
                found.insert((minion.clone(), order), state);
            }
        }
    }
    Ok(found)
}

/// Returns what stands in the cache of each instance: the instance, the name of the file, and its state.
pub(crate) fn cached_files(root: &Path) -> Result<Vec<(String, String, FileState)>> {
    let mut found = Vec::new();
    for (instance, folder) in entries(root)? {
        let cache = folder.join("var/cache/saline/minion/files/base");
        if !cache.is_dir() {
            continue;
        }
        for (name, path) in entries(&cache)? {
            if let (true, Some(state)) = (name.starts_with("data"), known_file::read(&path)?) {
                found.push((instance.clone(), name, state));
            }
        }
    }
    Ok(found)
}

/// Returns the names and the paths of what is in a folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(folder).map_err(ChaosError::at(folder))?;
    entries
        .map(|entry| {
            let entry = entry.map_err(ChaosError::at(folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok((name, entry.path()))
        })
        .collect()
}

/// The folder of what is on no machine of the system under test, and loses nothing with any.
fn outside(root: &Path) -> PathBuf {
    root.join("master/outside")
}

/// The database to which the master delivers jobs and returns.
pub(crate) fn database(root: &Path) -> PathBuf {
    // Where the master looks for it: below its root_dir.
    root.join("master").join(DATABASE.trim_start_matches('/'))
}
