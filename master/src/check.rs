//! `--check`: whether a master can start with the configuration, the keys and the folders that are there.

use std::error::Error;
use std::fs::read_to_string;
use std::path::Path;
use std::sync::Arc;

use saline_channel::MasterIdentity;
use saline_config::{ConfigError, Loaded, MasterConfig};
use saline_daemon::{OwnUser, check_metrics_address, check_pid_file};
use saline_protocol::transport::Registry;

use crate::logins::UserFile;
use crate::reactions::missing_files;
use crate::server::network_ports;
use crate::settings::{IdFile, PillarSettings, ServedFiles};

/// The first port that every user may bind, where the system does not tell another one.
const FIRST_UNPRIVILEGED: u16 = 1024;

/// The number of the capability to bind ports below that one (`CAP_NET_BIND_SERVICE`).
const BIND_SERVICE: u32 = 10;

/// Checks the configuration, the keys and the folders that a start needs, as the user that the master runs as. `load` reads the
/// configuration; `pid_file` is the one that the command line names. Changes nothing. Returns warnings, a line each.
///
/// # Errors
/// One line about what keeps a master from starting.
pub(crate) fn check(
    registry: &Registry,
    load: impl Fn() -> Result<Loaded<MasterConfig>, ConfigError>,
    pid_file: Option<&Path>,
) -> Result<Vec<String>, Box<dyn Error>> {
    let loaded = load()?;
    let config = &loaded.config;
    let ports = network_ports(config, registry)?;
    let own_user = own_user(config);
    let made_before = own_user.check()?;
    check_metrics_address(config.metrics_listen.as_ref(), &config.paths.sock_dir)?;
    if let Some(port) = unbindable(&ports, first_unprivileged(), can_bind_all()) {
        let user = config.user.as_deref();
        return Err(format!(
            "the master runs as {}, who cannot bind port {port}: choose ports from {} on (ret_port, publish_port)",
            user.unwrap_or("a user other than root"),
            first_unprivileged()
        )
        .into());
    }
    // The first start makes the keys that are missing.
    MasterIdentity::check(&config.paths.pki_dir)?;
    if let Some(path) = pid_file.or(config.paths.pid_file.as_deref()) {
        check_pid_file(path, &made_before)?;
    }
    let mut warnings = loaded.warnings;
    for (option, path) in [
        ("autosign_file", &config.autosign_file),
        ("autoreject_file", &config.autoreject_file),
    ] {
        if let Some(path) = path {
            let file = IdFile::new(option, path);
            warnings.extend(file.missing());
            file.read()?;
        }
    }
    if let Some(path) = &config.external_auth.user_file {
        // A master starts without it, and reads it for each login.
        let found = UserFile::check(path);
        warnings.extend(found.unwrap_or_else(|error| Some(error.to_string())));
    }
    warnings.extend(ServedFiles::not_served(config));
    warnings.extend(PillarSettings::readable_roots(config));
    let reactions = &config.reactor.reactions;
    if !reactions.is_empty() {
        let served = Arc::new(ServedFiles::of(config));
        warnings.extend(
            reactions
                .iter()
                .flat_map(|reaction| missing_files(reaction, &served)),
        );
    }
    warnings.extend(own_user.unreadable_again(load));
    Ok(warnings)
}

/// Returns a port that this process cannot bind, if there is one. 0 stands for a port that the system chooses.
fn unbindable(ports: &[u16], first_unprivileged: u16, can_bind_all: bool) -> Option<u16> {
    let mut ports = ports.iter().copied();
    ports.find(|port| (1..first_unprivileged).contains(port) && !can_bind_all)
}

/// Returns the first port that every user may bind.
fn first_unprivileged() -> u16 {
    let told = read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").ok();
    let told = told.and_then(|text| text.trim().parse().ok());
    told.unwrap_or(FIRST_UNPRIVILEGED)
}

/// Whether this process may bind every port.
fn can_bind_all() -> bool {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok());
    held.is_some_and(|held| held & (1 << BIND_SERVICE) != 0)
}

/// Returns the user that a master runs as, and what must belong to that user.
pub(crate) fn own_user(config: &MasterConfig) -> OwnUser {
    let mut logs = vec![("audit_file", config.audit_file())];
    logs.extend(config.logging.file.clone().map(|path| ("log_file", path)));
    OwnUser {
        daemon: "master",
        name: config.user.clone(),
        folders: config.paths.folders().map(Path::to_owned).into(),
        logs,
    }
}

#[cfg(test)]
mod tests {
    use super::unbindable;

    #[test]
    fn ports_below_those_of_every_user_need_the_capability() {
        assert_eq!(unbindable(&[4506, 505], 1024, false), Some(505));
        assert_eq!(unbindable(&[4506, 505], 1024, true), None);
        assert_eq!(unbindable(&[4506, 505], 80, false), None);
        assert_eq!(unbindable(&[0, 1024], 1024, false), None);
    }
}
