//! The folders and configuration files of a run.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_testing::{Folders, MinionFile, Ports};

use super::services;
use crate::arguments::Transport;
use crate::error::{ChaosError, Result};
use crate::plan::{JOB_TTL, TIMEOUT};

/// Creates the folders that daemons do not create themselves.
pub(crate) fn make_folders(root: &Path) -> Result<()> {
    for folder in [
        etc(root),
        logs(root),
        ledgers(root),
        state(root),
        master_state(root),
        services::mines(root),
        services::served(root),
    ] {
        fs::create_dir_all(&folder).map_err(ChaosError::at(&folder))?;
    }
    Ok(())
}

pub(crate) fn write_master(
    root: &Path,
    transport: Transport,
    ports: Ports,
    heartbeat: Duration,
    section: &str,
) -> Result<()> {
    let services = services::write(root)?;
    let options = format!(
        "auto_accept: True\nlog_level: info\njob_store_size: 0\nheartbeat_interval: {}\njob_ttl: {}\ntimeout: {}\n{section}{services}",
        heartbeat.as_secs_f64(),
        JOB_TTL.as_secs_f64(),
        TIMEOUT.as_secs_f64(),
    );
    Folders::under(root)
        .write_master(transport.name(), ports, &options)
        .map_err(ChaosError::at(&etc(root)))
}

pub(crate) fn write_minion(
    root: &Path,
    number: usize,
    transport: Transport,
    master: IpAddr,
    ports: Ports,
    section: &str,
) -> Result<()> {
    let id = format!("m{number}");
    let fetched = services::fetched(root, &id);
    fs::create_dir_all(&fetched).map_err(ChaosError::at(&fetched))?;
    // Every other minion syncs its spool, until a fault changes that.
    let options = format!(
        "recon_default: 50\nrecon_max: 1000\npass_environment: SALINE_CHAOS_*\n{section}{}\n{}\n",
        spool_sync(number.is_multiple_of(2)),
        services::mine_functions(root)
    );
    let minion = MinionFile {
        id: &id,
        master: &master.to_string(),
        port: ports.requests,
        transport: transport.name(),
        options: &options,
    };
    Folders::under(root)
        .write_minion(&id, minion)
        .map_err(ChaosError::at(&instance_config(root, &id)))
}

fn spool_sync(always: bool) -> &'static str {
    match always {
        true => "spool_sync: always",
        false => "spool_sync: crash",
    }
}

/// Whether the next start of an instance syncs its spool.
pub(crate) fn syncs_spool(root: &Path, instance: &str) -> bool {
    let text = fs::read_to_string(instance_config(root, instance).join("minion"));
    text.is_ok_and(|text| text.contains(spool_sync(true)))
}

/// Changes whether the next start of an instance syncs its spool. The file is replaced as a whole: another fault may start the
/// minion at this moment, and with half of a file it would be another minion.
pub(crate) fn change_spool_sync(root: &Path, instance: &str) -> Result<()> {
    let path = instance_config(root, instance).join("minion");
    let text = fs::read_to_string(&path).map_err(ChaosError::at(&path))?;
    let now = syncs_spool(root, instance);
    let text = text.replace(spool_sync(now), spool_sync(!now));
    let new = path.with_extension("new");
    fs::write(&new, text).map_err(ChaosError::at(&new))?;
    fs::rename(&new, &path).map_err(ChaosError::at(&path))
}

/// Copies what is on a minion's disk.
pub(crate) fn copy_disk(root: &Path, id: &str, to: &Path) -> Result<()> {
    copy_folder(&root.join(id), to)
}

/// Replaces what is on the disk of a minion that does not run with a copy.
pub(crate) fn put_disk_back(root: &Path, id: &str, copy: &Path) -> Result<()> {
    remove_files(&root.join(id))?;
    copy_folder(copy, &root.join(id))?;
    fs::remove_dir_all(copy).map_err(ChaosError::at(copy))
}

/// Removes every file below a folder. Folders stay: one of them is a mount.
fn remove_files(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(ChaosError::at(folder))? {
        let path = entry.map_err(ChaosError::at(folder))?.path();
        match path.is_dir() {
            true => remove_files(&path)?,
            false => fs::remove_file(&path).map_err(ChaosError::at(&path))?,
        }
    }
    Ok(())
}

/// Removes the keys of a minion that does not run, so that its next start makes others.
pub(crate) fn remove_identity(root: &Path, id: &str) -> Result<()> {
    let folder = root.join(id).join("etc/saline/pki/minion");
    for name in ["identity.pub", "identity.key", "noise.pub", "noise.key"] {
        let path = folder.join(name);
        fs::remove_file(&path).map_err(ChaosError::at(&path))?;
    }
    Ok(())
}

/// Copies a minion's folder, as an image of its disk would be: the copy has its id and its key. Notes of
/// running commands are left out, because their processes are on the machine of the original.
pub(crate) fn copy_minion(root: &Path, id: &str, instance: &str) -> Result<()> {
    let from = instance_config(root, id).join("minion");
    let text = fs::read_to_string(&from).map_err(ChaosError::at(&from))?;
    // Its first line is the root of the original.
    let (_, rest) = text.split_once('\n').unwrap_or_default();
    let text = format!("root_dir: {}\n{rest}", root.join(instance).display());
    let folder = instance_config(root, instance);
    fs::create_dir_all(&folder).map_err(ChaosError::at(&folder))?;
    let path = folder.join("minion");
    fs::write(&path, text).map_err(ChaosError::at(&path))?;
    copy_folder(&root.join(id), &root.join(instance))
}

/// Copies the master's state_dir out of the small disk, which ends with the run. Returns the copy.
pub(crate) fn keep_master_state(root: &Path) -> Result<PathBuf> {
    let kept = root.join("master-state");
    copy_folder(&master_state(root), &kept)?;
    Ok(kept)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(ChaosError::at(to))?;
    for entry in fs::read_dir(from).map_err(ChaosError::at(from))? {
        let entry = entry.map_err(ChaosError::at(from))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(ChaosError::at(&path))?;
        if kind.is_dir() {
            if entry.file_name() != "commands" && entry.file_name() != "run" {
                copy_folder(&path, &copy)?;
            }
        } else if kind.is_file() {
            match fs::copy(&path, &copy) {
                // The minion runs, and may delete a file meanwhile.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(ChaosError::at(&path)(error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The folder of the master's configuration, which operators read too.
pub(crate) fn etc(root: &Path) -> PathBuf {
    Folders::under(root).config()
}

pub(crate) fn instance_config(root: &Path, instance: &str) -> PathBuf {
    Folders::under(root).minion_config(instance)
}

pub(crate) fn logs(root: &Path) -> PathBuf {
    Folders::under(root).logs()
}

/// The folder of the ledgers.
pub(crate) fn ledgers(root: &Path) -> PathBuf {
    root.join("ledgers")
}

/// The file to which the jobs of an instance append that they run.
pub(crate) fn ledger(root: &Path, instance: &str) -> PathBuf {
    ledgers(root).join(instance)
}

pub(crate) fn master_state(root: &Path) -> PathBuf {
    root.join("master/var/lib/saline/master")
}

/// The folder of the job store.
pub(crate) fn store(root: &Path) -> PathBuf {
    master_state(root).join("jobs")
}

pub(crate) fn minion_state(root: &Path, instance: &str) -> PathBuf {
    root.join(instance).join("var/lib/saline/minion")
}

/// The folder of what is injected into daemons.
fn state(root: &Path) -> PathBuf {
    root.join("injected")
}

/// The file with the offset of an instance's clock in seconds.
pub(crate) fn clock_file(root: &Path, instance: &str) -> PathBuf {
    state(root).join(format!("{instance}.clock"))
}

/// Steps the clock of an instance to so many seconds from the real one.
pub(crate) fn set_clock(root: &Path, instance: &str, seconds: i64) -> Result<()> {
    let path = clock_file(root, instance);
    // Replaced at once, so that nobody reads half a number.
    let fresh = path.with_extension("new");
    fs::write(&fresh, seconds.to_string()).map_err(ChaosError::at(&fresh))?;
    fs::rename(&fresh, &path).map_err(ChaosError::at(&path))
}

/// The file with the boot id of an instance's machine.
pub(crate) fn boot_id_file(root: &Path, instance: &str) -> PathBuf {
    state(root).join(format!("{instance}.boot"))
}

/// Gives the machine of an instance the id of its `boot`th boot.
pub(crate) fn new_boot_id(root: &Path, instance: &str, boot: u32) -> Result<()> {
    let path = boot_id_file(root, instance);
    let id = format!("{:08x}-0000-4000-8000-{boot:012x}\n", std::process::id());
    fs::write(&path, id).map_err(ChaosError::at(&path))
}

/// The journal of an instance's unsynced writes.
pub(crate) fn journal(root: &Path, instance: &str) -> PathBuf {
    state(root).join(format!("{instance}.journal"))
}
