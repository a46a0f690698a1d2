//! `--check`: whether a minion can start with the configuration and the keys that are there.

use std::error::Error;

use saline_channel::Identity;
use saline_config::MinionConfig;
use saline_daemon::{absent_folder, check_metrics_address};
use saline_exec::Program;
use saline_messages::MinionId;
use saline_protocol::transport::Registry;

use super::StartError;
use crate::link::settings::ConnectionSettings;
use crate::link::token_file::TokenFile;
use saline_modules::grains::host_name;
use saline_modules::{Modules, job_process};

/// Returns a line about each folder and each function, of the schedule or of the mine, that the configuration names and the machine
/// does not have, and about a token that cannot be used. A minion starts all the same.
pub(super) fn warnings(config: &MinionConfig) -> Vec<String> {
    let named = [
        ("module_dirs", &config.module_dirs),
        ("grains_dirs", &config.grains_dirs),
    ];
    let named = named
        .into_iter()
        .flat_map(|(option, folders)| folders.iter().map(move |folder| (option, folder)));
    let mut warnings: Vec<String> = named
        .filter_map(|(option, folder)| absent_folder(option, folder))
        .collect();
    let (jobs, mine) = (&config.schedule.jobs, &config.mine.functions);
    if !jobs.is_empty() || !mine.is_empty() {
        let modules = Modules::of_this_machine().with_executables(config.all_module_dirs());
        warnings.extend(modules.unknown_in_schedule(jobs));
        warnings.extend(modules.unknown_in_mine(mine));
    }
    warnings.extend(TokenFile::of(config).read().err());
    warnings
}

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
