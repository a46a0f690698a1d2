//! `--check`: whether a master can start with the configuration, the keys and the folders that are there.

use std::error::Error;

use saline_channel::Identity;
use saline_config::{ConfigError, Loaded, MasterConfig};
use saline_protocol::transport::Registry;

use crate::own_user::become_own_user;
use crate::server::check_addresses;

/// Checks the configuration, the keys and the folders that a start needs. `load` reads the configuration. Creates nothing but the
/// folders that are missing for the option `user`. Returns warnings, a line each.
///
/// # Errors
/// One line about what keeps a master from starting.
pub(crate) fn check(
    registry: &Registry,
    load: impl Fn() -> Result<Loaded<MasterConfig>, ConfigError>,
) -> Result<Vec<String>, Box<dyn Error>> {
    let loaded = load()?;
    let config = &loaded.config;
    check_addresses(config, registry)?;
    become_own_user(config)?;
    let pki_dir = &config.paths.pki_dir;
    // The first start makes the keys.
    let has_keys = ["identity.key", "identity.pub"]
        .iter()
        .any(|file| pki_dir.join(file).symlink_metadata().is_ok());
    if has_keys {
        Identity::load(pki_dir)?;
    }
    let mut warnings = loaded.warnings;
    warnings.extend(unreadable_again(load()));
    Ok(warnings)
}

/// Returns a warning for a master that has read its configuration as root, and cannot read it again as its own user.
pub(crate) fn unreadable_again(again: Result<Loaded<MasterConfig>, ConfigError>) -> Option<String> {
    let error = again.err()?;
    Some(format!(
        "SIGHUP will change nothing, since the master's user cannot read the configuration: {error}"
    ))
}
