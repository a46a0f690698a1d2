//! The configuration of the command's master, and the command's own log.

use std::path::Path;

use saline_config::{ConfigError, Loaded, MasterConfig, MinionConfig};
use saline_protocol::transport::Registry;

use crate::arguments::{CommonOptions, OutputOptions};
use crate::process_user;
use crate::screen::Screen;

/// Reads the configuration, and starts the command's log.
///
/// # Errors
/// One line that names the mistake and its place.
fn load(options: &CommonOptions, registry: &Registry) -> Result<MasterConfig, String> {
    let schemes: Vec<&str> = registry.schemes().collect();
    start_log(options, MasterConfig::load(&options.config_dir, &schemes))
}

/// Reads the configuration of the minion on this machine, and starts the command's log.
///
/// # Errors
/// One line that names the mistake and its place.
pub(crate) fn load_minion(
    options: &CommonOptions,
    registry: &Registry,
) -> Result<MinionConfig, String> {
    let schemes: Vec<&str> = registry.schemes().collect();
    start_log(options, MinionConfig::load(&options.config_dir, &schemes))
}

/// Starts the log and writes the warnings about the configuration to it. Returns the configuration.
fn start_log<C>(
    options: &CommonOptions,
    loaded: Result<Loaded<C>, ConfigError>,
) -> Result<C, String> {
    let loaded = loaded.map_err(|error| format!("ERROR: {error}"))?;
    let logging = options.process.logging(options.log_level);
    let log = saline_daemon::logging::start(&logging).map_err(|error| format!("ERROR: {error}"))?;
    // A command writes its few lines itself, so that none is lost however it ends.
    drop(log);
    for warning in loaded
        .warnings
        .iter()
        .chain(&loaded.unsupported_restrictions)
    {
        // The daemon says it aloud; every command need not say it again.
        tracing::info!("{warning}");
    }
    Ok(loaded.config)
}

/// Reads the configuration, opens the files that take the log and the output, and goes on as the user of `-u`, or as
/// the master's if root runs the command: in this order, since that user may not be able to do the others.
///
/// # Errors
/// One line that says what could not be done.
pub(crate) fn prepare(
    screen: &mut Screen<'_>,
    options: &CommonOptions,
    output: &OutputOptions,
    registry: &Registry,
) -> Result<MasterConfig, String> {
    let config = load(options, registry)?;
    output.open_file(screen)?;
    match &options.process.user {
        Some(user) => process_user::switch_to(user)?,
        None => process_user::drop_to_owner_of(&config.paths.pki_dir).map_err(|error| {
            format!(
                "ERROR: cannot switch to the owner of {}: {error}; run this as that user",
                config.paths.pki_dir.display()
            )
        })?,
    }
    Ok(config)
}

/// Returns the options that a printed command needs to use the same master.
pub(crate) fn options_to_repeat(options: &CommonOptions) -> String {
    if options.config_dir == Path::new("/etc/saline") {
        return String::new();
    }
    let folder = options.config_dir.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if folder.chars().all(plain) {
        format!(" -c {folder}")
    } else {
        format!(" -c '{}'", folder.replace('\'', r"'\''"))
    }
}
