//! Real daemons on loopback under a temporary root, for end-to-end tests.
#![allow(
    clippy::unwrap_used,
    reason = "it is for tests: one that cannot go on says so by panicking"
)]
#![allow(missing_docs, reason = "most of it is said by its name")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use crate::processes::{self, TIMEOUT};
use crate::{Daemon, Folders, MinionFile, Ports, Programs};

/// Every test of a file, over each transport: `transport: NAME` in both files and nothing else.
#[macro_export]
macro_rules! over_each_transport {
    ($($(#[$note:meta])* $test:ident),* $(,)?) => {
        $crate::over_each_transport!(@over zeromq: $($test),*);
        $crate::over_each_transport!(@over tcp: $($test),*);
        $crate::over_each_transport!(@over quic: $($test),*);
    };
    (@over $transport:ident: $($test:ident),*) => {
        mod $transport {
            $(#[test] fn $test() { super::$test(stringify!($transport)); })*
        }
    };
}

/// Waits for the end of a process.
///
/// # Panics
/// When it has not ended after [`TIMEOUT`].
#[track_caller]
pub fn ended(child: &mut Child) -> ExitStatus {
    processes::ended(child, TIMEOUT).unwrap()
}

/// A master and its minions.
#[derive(Debug)]
pub struct Fleet {
    root: tempfile::TempDir,
    folders: Folders,
    programs: Programs,
    pub transport: &'static str,
    pub master: Option<Daemon>,
    pub minions: BTreeMap<String, Daemon>,
    /// More lines for the master's configuration.
    pub master_options: String,
    ports: Option<Ports>,
}

impl Fleet {
    /// Starts a master that accepts every key, and these minions, and waits until they are
    /// connected.
    pub fn with_minions(transport: &'static str, ids: &[&str]) -> Self {
        let mut fleet = Self::new(transport, "auto_accept: True\n");
        fleet.start_master();
        for id in ids {
            fleet.start_minion(id);
        }
        for id in ids {
            fleet.minions[*id].log.wait_for("subscribed", 1);
        }
        fleet
    }

    /// Creates a fleet without processes.
    pub fn new(transport: &'static str, master_options: &str) -> Self {
        let root = tempfile::Builder::new()
            .prefix("saline-")
            .tempdir()
            .unwrap();
        // The programs are in the folder above that of the tests.
        let test = std::env::current_exe().unwrap();
        Self {
            folders: Folders::under(root.path()),
            programs: Programs::beside(test.parent().unwrap()),
            root,
            transport,
            master: None,
            minions: BTreeMap::new(),
            master_options: master_options.to_owned(),
            ports: None,
        }
    }

    /// Returns the folder of the configuration.
    pub fn config(&self) -> PathBuf {
        self.folders.config()
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns a path under the root.
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub fn write_master_config(&self) {
        let ports = self.ports.unwrap_or_default();
        let options = format!(
            "heartbeat_interval: 2\nlog_level: info\n{}",
            self.master_options
        );
        self.folders
            .write_master(self.transport, ports, &options)
            .unwrap();
    }

    pub fn master_command(&self) -> Command {
        let mut command = self.programs.command("saline-master");
        command.arg("-c").arg(self.config());
        command
    }

    /// Starts the master: on free ports the first time, on the same ones after that.
    pub fn start_master(&mut self) {
        self.start_master_by(self.master_command());
    }

    /// Starts the master by this command, as [`start_master`](Self::start_master) does.
    pub fn start_master_by(&mut self, mut command: Command) {
        self.write_master_config();
        let master = Daemon::spawn(&mut command);
        master.log.wait_for(" is up", 1);
        if self.ports.is_none() {
            let (ports, _) = Ports::logged(&master.log, TIMEOUT).unwrap();
            self.ports = Some(ports);
        }
        self.master = Some(master);
    }

    pub fn master(&self) -> &Daemon {
        self.master.as_ref().unwrap()
    }

    /// Returns the port on which the master takes requests.
    pub fn port(&self) -> u16 {
        self.ports.unwrap().requests
    }

    /// Returns the port on which it publishes; 0 if that is not apart.
    pub fn publish_port(&self) -> u16 {
        self.ports.unwrap().publications
    }

    /// Sets the programs for processes that are started from now on.
    pub fn use_programs(&mut self, programs: Programs) {
        self.programs = programs;
    }

    /// Sets the port for minions that are started from now on.
    pub fn use_port(&mut self, port: u16) {
        self.ports = Some(Ports {
            requests: port,
            publications: 0,
        });
    }

    pub fn kill_master(&mut self) {
        self.master.take().unwrap().kill();
    }

    /// Returns the folder of one minion's configuration.
    pub fn minion_config(&self, id: &str) -> PathBuf {
        self.folders.minion_config(id)
    }

    /// Starts a minion with more lines of configuration.
    pub fn start_minion_with(&mut self, id: &str, options: &str) {
        let minion = self.spawn_minion(id, id, options);
        self.minions.insert(id.to_owned(), minion);
    }

    /// Starts a minion whose root is the folder `root`.
    pub fn spawn_minion(&self, id: &str, root: &str, options: &str) -> Daemon {
        let minion = MinionFile {
            id,
            master: "127.0.0.1",
            port: self.port(),
            transport: self.transport,
            options: &format!("recon_default: 50\nrecon_max: 500\n{options}"),
        };
        self.folders.write_minion(root, minion).unwrap();
        let mut command = self.programs.command("saline-minion");
        command.arg("-c").arg(self.minion_config(root));
        Daemon::spawn(&mut command)
    }

    pub fn start_minion(&mut self, id: &str) {
        self.start_minion_with(id, "");
    }

    /// Returns a command of an operator, not started yet.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.programs.command(program);
        command.arg("-c").arg(self.config()).args(arguments);
        command
    }

    /// Runs `saline` and waits for it.
    pub fn saline(&self, arguments: &[&str]) -> CommandOutput {
        self.run("saline", arguments)
    }

    /// Runs a command of an operator and waits for it.
    pub fn run(&self, program: &str, arguments: &[&str]) -> CommandOutput {
        let output = self
            .command(program, arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        CommandOutput::from(output)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.master = None;
        self.minions.clear();
        processes::end_jobs_below(self.root.path());
    }
}

/// The output and the exit code of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl CommandOutput {
    /// Panics with everything that was printed unless it ended with `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}
