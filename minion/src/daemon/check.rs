//! `--check`: whether a minion can start with the configuration and the keys that are there.

use std::error::Error;

use saline_channel::Identity;
use saline_config::MinionConfig;
use saline_daemon::check_metrics_address;
use saline_exec::Program;
use saline_messages::MinionId;
use saline_protocol::transport::Registry;

use super::StartError;
use crate::link::settings::ConnectionSettings;
use saline_modules::grains::host_name;
use saline_modules::job_process;

/// Checks the configuration and the keys that a start needs, and the program that starts every command. Changes nothing.
///
/// # Errors
/// One line about what keeps a minion from starting, or from running commands.
pub(super) fn check(
    config: &MinionConfig,
    registry: &Registry,
    program: &Program,
) -> Result<(), Box<dyn Error>> {
    ConnectionSettings::of(config, registry)?;
    if config.id.is_none() {
        MinionId::parse(&host_name()).map_err(StartError::Id)?;
    }
    let pki_dir = &config.paths.pki_dir;
    // The first start makes the keys.
    let has_keys = ["identity.key", "identity.pub"]
        .iter()
        .any(|file| pki_dir.join(file).symlink_metadata().is_ok());
    if has_keys {
        Identity::load(pki_dir)?;
    }
    check_metrics_address(config.metrics_listen.as_ref(), &config.paths.sock_dir)?;
    program.check()?;
    program.check_named(job_process::PROGRAM)?;
    Ok(())
}
