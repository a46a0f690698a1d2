//! The folders and configuration files of a fleet under one root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Ports;

/// The folders of a master and its minions under one root.
#[derive(Debug, Clone)]
pub struct Folders {
    root: PathBuf,
}

/// The configuration of a minion.
#[derive(Debug, Clone, Copy)]
pub struct MinionFile<'a> {
    /// The id of the minion.
    pub id: &'a str,
    /// The address of the master.
    pub master: &'a str,
    /// The port at which the master takes requests.
    pub port: u16,
    /// The transport, or a list of them in YAML.
    pub transport: &'a str,
    /// More lines, each with its end.
    pub options: &'a str,
}

impl Folders {
    /// Describes the folders under `root`, and creates none.
    pub fn under(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Returns the folder of the master's configuration, which operators read too.
    pub fn config(&self) -> PathBuf {
        self.root.join("etc")
    }

    /// Returns the folder of the configuration of a minion, whose root is the folder `instance`.
    pub fn minion_config(&self, instance: &str) -> PathBuf {
        self.root.join(format!("etc-{instance}"))
    }

    /// Returns the folder of the logs.
    pub fn logs(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Writes the configuration of a master on loopback, whose root is the folder `master`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_master(&self, transport: &str, ports: Ports, options: &str) -> io::Result<()> {
        let root = self.root.join("master");
        let text = format!(
            "root_dir: {}\ninterface: 127.0.0.1\nret_port: {}\npublish_port: {}\n\
             transport: {transport}\n{options}",
            root.display(),
            ports.requests,
            ports.publications,
        );
        write(&self.config(), "master", &text)
    }

    /// Writes the configuration of a minion whose root is the folder `instance`. Its first line is that root.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_minion(&self, instance: &str, minion: MinionFile<'_>) -> io::Result<()> {
        let MinionFile {
            id,
            master,
            port,
            transport,
            options,
        } = minion;
        let text = format!(
            "root_dir: {}\nid: {id}\nmaster: {master}\nmaster_port: {port}\nacceptance_wait_time: 0.2\n\
             log_level: info\ntransport: {transport}\n{options}",
            self.root.join(instance).display(),
        );
        write(&self.minion_config(instance), "minion", &text)
    }
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(name), text)
}
