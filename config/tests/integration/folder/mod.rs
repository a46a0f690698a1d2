//! Folders of configuration files for the tests.

// Each test binary uses some of these; and they are tests, though not marked as such.
#![allow(dead_code, clippy::unwrap_used)]

use saline_config::{ConfigError, Loaded, MasterConfig, MinionConfig};
use saline_protocol::transport::Registry;
use tempfile::TempDir;

/// The transports that the tests' programs have.
pub const SCHEMES: &[&str] = &["quic", "tcp", "zeromq"];

/// A folder with these files.
pub fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

/// What a master makes of its main file.
pub fn master(text: &str) -> MasterConfig {
    let dir = folder(&[("master", text)]);
    MasterConfig::load(dir.path(), SCHEMES).unwrap().config
}

/// What a minion makes of its main file.
pub fn minion(text: &str) -> MinionConfig {
    let dir = folder(&[("minion", text)]);
    read_by_itself(MinionConfig::load(dir.path(), SCHEMES).unwrap().config)
}

/// The configuration without what it says of its folder and of how it is shown.
pub fn read_by_itself(mut config: MinionConfig) -> MinionConfig {
    config.folder = None;
    config.shown = saline_data::Value::Null;
    config
}

/// The warnings about a master's main file, with `DIR` for the folder.
pub fn master_warnings(text: &str) -> String {
    let dir = folder(&[("master", text)]);
    warnings(&dir, MasterConfig::load(dir.path(), SCHEMES))
}

/// The warnings about a minion's main file.
pub fn minion_warnings(text: &str) -> String {
    let dir = folder(&[("minion", text)]);
    warnings(&dir, MinionConfig::load(dir.path(), SCHEMES))
}

fn warnings<C>(dir: &TempDir, loaded: Result<Loaded<C>, ConfigError>) -> String {
    let warnings = loaded.unwrap_or_else(|error| panic!("{error}")).warnings;
    relative(dir, &warnings.join(" | "))
}

/// Why a master with this main file does not start, with `DIR` for the folder; empty when it does.
pub fn master_restrictions(text: &str) -> String {
    let dir = folder(&[("master", text)]);
    let loaded = MasterConfig::load(dir.path(), SCHEMES).unwrap();
    let unsupported_restrictions = loaded
        .check_daemon(&Registry::new())
        .map_err(|error| error.to_string());
    relative(&dir, &unsupported_restrictions.err().unwrap_or_default())
}

/// What keeps a minion with this file from starting.
pub fn minion_restrictions(text: &str) -> String {
    let dir = folder(&[("minion", text)]);
    let loaded = MinionConfig::load(dir.path(), SCHEMES).unwrap();
    let checked = loaded.check_daemon(&Registry::new());
    let error = checked.map_err(|error| error.to_string());
    relative(&dir, &error.err().unwrap_or_default())
}

/// The error of a master with these files.
pub fn master_error(files: &[(&str, &str)]) -> String {
    let dir = folder(files);
    let loaded = MasterConfig::load(dir.path(), SCHEMES);
    relative(&dir, &loaded.map(|_| ()).unwrap_err().to_string())
}

/// The error of a minion's main file.
pub fn minion_error(text: &str) -> String {
    let dir = folder(&[("minion", text)]);
    let loaded = MinionConfig::load(dir.path(), SCHEMES);
    relative(&dir, &loaded.map(|_| ()).unwrap_err().to_string())
}

fn relative(dir: &TempDir, text: &str) -> String {
    text.replace(&dir.path().display().to_string(), "DIR")
}
