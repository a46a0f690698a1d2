//! The configuration of the command's master, and the command's own log.

use std::path::Path;

use saline_config::{Logging, MasterConfig, MinionConfig};
use saline_protocol::transport::Registry;

use crate::arguments::CommonOptions;

/// Reads the configuration, and starts the log on the standard error output.
///
/// # Errors
/// One line that names the mistake and its place.
pub(crate) fn load(options: &CommonOptions, registry: &Registry) -> Result<MasterConfig, String> {
    let schemes: Vec<&str> = registry.schemes().collect();
    let loaded = MasterConfig::load(&options.config_dir, &schemes)
        .map_err(|error| format!("ERROR: {error}"))?;
    start_log(options, &loaded.warnings)?;
    Ok(loaded.config)
}

/// Does the same with the configuration of the minion on this machine.
///
/// # Errors
/// One line that names the mistake and its place.
pub(crate) fn load_minion(
    options: &CommonOptions,
    registry: &Registry,
) -> Result<MinionConfig, String> {
    let schemes: Vec<&str> = registry.schemes().collect();
    let loaded = MinionConfig::load(&options.config_dir, &schemes)
        .map_err(|error| format!("ERROR: {error}"))?;
    start_log(options, &loaded.warnings)?;
    Ok(loaded.config)
}

fn start_log(options: &CommonOptions, warnings: &[String]) -> Result<(), String> {
    // `log_level` and `log_file` are the daemon's: what an operator reads is asked for with -l.
    let mut logging = Logging::default();
    if let Some(level) = options.log_level {
        logging.level = level;
    }
    saline_daemon::logging::start(&logging).map_err(|error| format!("ERROR: {error}"))?;
    for warning in warnings {
        // The daemon says it aloud; every command need not say it again.
        tracing::info!("{warning}");
    }
    Ok(())
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
