//! The services of the master that are on during a run: pillar, reactor, and deliveries to a database outside.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{ChaosError, Result};

/// The pillar of every minion, which names the minion that it is for.
const PILLAR: &str = "own: {{ grains.id }}\n";

/// The key of the pillar.
pub(crate) const PILLAR_KEY: &str = "own";

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

/// The folder of what is on no machine of the system under test, and loses nothing with any.
fn outside(root: &Path) -> PathBuf {
    root.join("master/outside")
}

/// The database to which the master delivers jobs and returns.
pub(crate) fn database(root: &Path) -> PathBuf {
    // Where the master looks for it: below its root_dir.
    root.join("master").join(DATABASE.trim_start_matches('/'))
}
