//! The folders and configuration files of a run.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

use crate::arguments::Transport;
use crate::error::{ChaosError, Result};
use crate::plan::{HEARTBEAT, JOB_TTL};

/// How often free ports are looked for.
const ATTEMPTS: usize = 16;

/// The ports of the master, on 127.0.0.1 and on the address of every link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) requests: u16,
    /// Only zeromq has a second one.
    pub(crate) publications: u16,
}

impl Ports {
    /// Finds ports that nobody uses on any address.
    pub(crate) fn find(transport: Transport) -> Result<Self> {
        let mut last = std::io::Error::other("no attempt was made");
        for _ in 0..ATTEMPTS {
            match Self::try_find(transport) {
                Ok(ports) => return Ok(ports),
                Err(error) => last = error,
            }
        }
        Err(ChaosError::Ports(last))
    }

    fn try_find(transport: Transport) -> std::io::Result<Self> {
        if transport == Transport::Quic {
            let requests = UdpSocket::bind("0.0.0.0:0")?.local_addr()?.port();
            return Ok(Self {
                requests,
                publications: 0,
            });
        }
        let (one, other) = (
            TcpListener::bind("0.0.0.0:0")?,
            TcpListener::bind("0.0.0.0:0")?,
        );
        Ok(Self {
            requests: one.local_addr()?.port(),
            publications: other.local_addr()?.port(),
        })
    }
}

/// Creates the folders that daemons do not create themselves.
pub(crate) fn make_folders(root: &Path) -> Result<()> {
    for folder in [
        etc(root),
        logs(root),
        ledgers(root),
        state(root),
        master_state(root),
    ] {
        fs::create_dir_all(&folder).map_err(ChaosError::at(&folder))?;
    }
    Ok(())
}

pub(crate) fn write_master(root: &Path, transport: Transport, ports: Ports) -> Result<()> {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write!(
        text,
        "root_dir: {}\ninterface: 127.0.0.1\nret_port: {}\npublish_port: {}\ntransport: {}\n\
         auto_accept: True\nlog_level: info\nheartbeat_interval: {}\njob_ttl: {}\ntimeout: 4\n",
        root.join("master").display(),
        ports.requests,
        ports.publications,
        transport.name(),
        HEARTBEAT.as_secs_f64(),
        JOB_TTL.as_secs_f64(),
    );
    let path = etc(root).join("master");
    fs::write(&path, text).map_err(ChaosError::at(&path))
}

pub(crate) fn write_minion(
    root: &Path,
    number: usize,
    transport: Transport,
    master: IpAddr,
    ports: Ports,
) -> Result<()> {
    let instance = format!("m{number}");
    write_instance(root, &instance, &instance, |text| {
        let _ = write!(
            text,
            "master: {master}\nmaster_port: {}\ntransport: {}\nacceptance_wait_time: 0.2\n\
             recon_default: 50\nrecon_max: 1000\nlog_level: info\npass_environment: SALINE_CHAOS_*\n",
            ports.requests,
            transport.name()
        );
    })
}

/// Writes the configuration of an instance: everything but its root and its id comes from `rest`.
fn write_instance(
    root: &Path,
    instance: &str,
    id: &str,
    rest: impl FnOnce(&mut String),
) -> Result<()> {
    let mut text = format!("root_dir: {}\nid: {id}\n", root.join(instance).display());
    rest(&mut text);
    let folder = instance_config(root, instance);
    fs::create_dir_all(&folder).map_err(ChaosError::at(&folder))?;
    let path = folder.join("minion");
    fs::write(&path, text).map_err(ChaosError::at(&path))
}

/// Copies a minion's folder, as an image of its disk would be: the copy has its id and its key. Notes of
/// running commands are left out, because their processes are on the machine of the original.
pub(crate) fn copy_minion(root: &Path, id: &str, instance: &str) -> Result<()> {
    let from = instance_config(root, id).join("minion");
    let text = fs::read_to_string(&from).map_err(ChaosError::at(&from))?;
    write_instance(root, instance, id, |copy| {
        for line in text.lines().skip(2) {
            copy.push_str(line);
            copy.push('\n');
        }
    })?;
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
    root.join("etc")
}

pub(crate) fn instance_config(root: &Path, instance: &str) -> PathBuf {
    root.join(format!("etc-{instance}"))
}

pub(crate) fn logs(root: &Path) -> PathBuf {
    root.join("log")
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
