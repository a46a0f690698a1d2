//! The processes of the quickstart and their temporary root.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};
use saline_testing::processes::{TIMEOUT, end_jobs_below};
use saline_testing::{Daemon, Folders, MinionFile, Ports, Programs};

use crate::example::Example;

/// Ends the calling process when its parent ends, so that a daemon does not outlive the quickstart.
pub fn end_with_parent() {
    // Without it an orphan stays up until somebody ends it: a pity, and no reason not to start.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// A master and its minions under a temporary root.
pub struct Fleet {
    daemons: Vec<Daemon>,
    programs: Programs,
    folders: Folders,
    /// Removed last, when no daemon uses it any more.
    root: tempfile::TempDir,
}

impl Fleet {
    /// Creates a fleet without processes.
    pub fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("saline-").tempdir()?;
        Ok(Self {
            daemons: Vec::new(),
            programs: Programs::this()?,
            folders: Folders::under(root.path()),
            root,
        })
    }

    /// Returns the folder of the master's configuration.
    pub fn config(&self) -> PathBuf {
        self.folders.config()
    }

    /// Returns the folder of the logs.
    pub fn logs(&self) -> PathBuf {
        self.folders.logs()
    }

    /// Returns the `root_dir` of the master.
    pub fn master_root(&self) -> PathBuf {
        self.root.path().join("master")
    }

    /// Returns a command that runs this program as `name`.
    pub fn command(&self, name: &str, config: &Path) -> Command {
        let mut command = self.programs.command(name);
        command.arg("-c").arg(config);
        command
    }

    /// Starts the master of an example, on ports that the system chooses. Returns the address on which it takes requests.
    pub fn start_master(
        &mut self,
        transport: &str,
        example: &Example,
    ) -> io::Result<(String, u16)> {
        let options = format!(
            "heartbeat_interval: 5\nlog_level: info\n{}",
            example.master_options
        );
        self.folders
            .write_master(transport, Ports::default(), &options)?;
        let config = self.config();
        example.write(&config, &self.master_root())?;
        let master = self.start("saline-master", "master", &config)?;
        let (ports, endpoint) = Ports::logged(&master.log, TIMEOUT)?;
        Ok((endpoint, ports.requests))
    }

    /// Starts a minion of the master at that port.
    pub fn start_minion(&mut self, id: &str, transport: &str, port: u16) -> io::Result<()> {
        let minion = MinionFile {
            id,
            master: "127.0.0.1",
            port,
            transport,
            options: "",
        };
        self.folders.write_minion(id, minion)?;
        let config = self.folders.minion_config(id);
        self.start("saline-minion", id, &config)?;
        Ok(())
    }

    /// Starts a daemon, whose log goes to a file as well.
    fn start(&mut self, program: &str, name: &str, config: &Path) -> io::Result<&Daemon> {
        std::fs::create_dir_all(self.logs())?;
        let file = File::create(self.logs().join(name))?;
        let daemon = Daemon::start(&mut self.command(program, config), Some(file))?;
        self.daemons.push(daemon);
        Ok(&self.daemons[self.daemons.len() - 1])
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Minions first, so that they can say goodbye.
        let mut minions = self.daemons.split_off(self.daemons.len().min(1));
        for daemons in [&mut minions, &mut self.daemons] {
            for daemon in &*daemons {
                daemon.signal(Signal::TERM);
            }
            for daemon in daemons {
                // One that does not end is killed.
                let _ = daemon.end(TIMEOUT);
            }
        }
        end_jobs_below(self.root.path());
    }
}
