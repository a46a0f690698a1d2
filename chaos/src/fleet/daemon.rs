//! The process of a master or a minion.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use saline_protocol::transport::Clock;
use saline_testing::Process;
use saline_testing::processes::resident_bytes;

use super::config;
use crate::error::{ChaosError, Result};
use crate::plan::{INSTANCE, LEDGER};
use crate::power::{self, preload_library};
use crate::sabotage::Sabotage;

/// The variable with the name of the promise that daemons break on purpose.
const SABOTAGE: &str = "SALINE_CHAOS_SABOTAGE";

/// How many bytes at the end of a log are read to tell why a daemon ended.
const LOG_TAIL: u64 = 4096;

/// A daemon with its configuration, running or not. Dropping it kills it, as every process does.
#[derive(Debug)]
pub(crate) struct Daemon {
    program: &'static str,
    /// `master`, the minion's id, or the name of a clone.
    instance: String,
    root: PathBuf,
    config: PathBuf,
    /// The folder whose unsynced writes a power loss drops.
    volatile: PathBuf,
    sabotage: Option<Sabotage>,
    process: Option<Process>,
    boots: u32,
    /// Whether the process that runs, or ran last, syncs its spool.
    syncs_spool: bool,
}

/// How long a daemon may take to stop.
const STOP: Duration = Duration::from_secs(15);

/// How often a stopping daemon is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a process uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// Resident memory in KiB.
    pub(crate) memory: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
}

impl Daemon {
    /// Describes the master.
    pub(crate) fn master(root: &Path, sabotage: Option<Sabotage>) -> Self {
        Self {
            program: "saline-master",
            instance: "master".to_owned(),
            config: config::etc(root),
            volatile: config::master_state(root),
            root: root.to_owned(),
            sabotage,
            process: None,
            boots: 1,
            syncs_spool: false,
        }
    }

    /// Describes a minion.
    pub(crate) fn minion(root: &Path, instance: &str, sabotage: Option<Sabotage>) -> Self {
        Self {
            program: "saline-minion",
            instance: instance.to_owned(),
            config: config::instance_config(root, instance),
            volatile: config::minion_state(root, instance),
            root: root.to_owned(),
            sabotage,
            process: None,
            boots: 1,
            syncs_spool: false,
        }
    }

    /// Whether the process that runs, or ran last, has `spool_sync: always`.
    pub(crate) fn syncs_spool(&self) -> bool {
        self.syncs_spool
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the folder whose unsynced writes a power loss drops.
    pub(crate) fn volatile(&self) -> &Path {
        &self.volatile
    }

    /// Starts the process, if none runs.
    pub(crate) fn start(&mut self) -> Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        self.syncs_spool = config::syncs_spool(&self.root, &self.instance);
        let boot = config::boot_id_file(&self.root, &self.instance);
        if !boot.exists() {
            config::new_boot_id(&self.root, &self.instance, self.boots)?;
        }
        let journal = config::journal(&self.root, &self.instance);
        power::forget_synced(&journal).map_err(ChaosError::at(&journal))?;
        let log = config::logs(&self.root).join(&self.instance);
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&log)
            .map_err(ChaosError::at(&log))?;
        let mut command = super::processes::program(self.program);
        command
            .arg("-c")
            .arg(&self.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.describe(&mut command);
        let process = Process::spawn(&mut command).map_err(|source| ChaosError::Start {
            program: self.program.to_owned(),
            source,
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Sets the variables that the daemon, its jobs and the preloaded library read.
    fn describe(&self, command: &mut Command) {
        let instance = &self.instance;
        command
            .env(INSTANCE, instance)
            .env(LEDGER, config::ledger(&self.root, instance))
            .env(super::processes::ROOT, &self.root)
            .env(
                "SALINE_CHAOS_CLOCK_FILE",
                config::clock_file(&self.root, instance),
            )
            .env(
                "SALINE_CHAOS_BOOT_ID_FILE",
                config::boot_id_file(&self.root, instance),
            );
        if let Some(sabotage) = self.sabotage {
            command.env(SABOTAGE, sabotage.name());
        }
        if let Ok(library) = preload_library() {
            command
                .env("LD_PRELOAD", library)
                .env(power::FOLDER, &self.volatile)
                .env(power::JOURNAL, config::journal(&self.root, instance));
        }
    }

    /// Returns the process id while a process runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Returns the status of a process that ended by itself since it was started.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.process.as_mut()?.status()?;
        self.process = None;
        Some(status)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    /// Kills the process with SIGKILL, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Sends SIGTERM, waits for the end of the process for a while, and kills it then.
    pub(crate) async fn terminate(&mut self) {
        self.signal(Signal::TERM);
        let deadline = Clock.after(STOP);
        while self.ended().is_none() && self.process.is_some() && Clock.now() < deadline {
            Clock.pause(POLL_INTERVAL).await;
        }
        self.kill();
    }

    /// Notes that the machine was started once more.
    pub(crate) fn boot(&mut self) -> Result<()> {
        self.boots += 1;
        config::new_boot_id(&self.root, &self.instance, self.boots)
    }

    /// Returns what the process uses.
    pub(crate) fn usage(&self) -> Option<ProcessUsage> {
        let pid = self.pid()?;
        let memory = resident_bytes(pid).ok()? / 1024;
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        Some(ProcessUsage {
            memory,
            descriptors,
        })
    }

    /// Returns the last lines of the log in one line.
    pub(crate) fn last_log_lines(&self, count: usize) -> String {
        let path = config::logs(&self.root).join(&self.instance);
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&path)?;
            let size = file.metadata()?.len();
            file.seek(SeekFrom::Start(size.saturating_sub(LOG_TAIL)))?;
            let mut tail = Vec::new();
            file.take(LOG_TAIL).read_to_end(&mut tail)?;
            Ok(tail)
        };
        let tail = read().unwrap_or_default();
        let text = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = text.lines().rev().take(count).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}
