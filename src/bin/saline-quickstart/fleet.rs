//! The processes of the quickstart and their temporary root.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// Ends the calling process when its parent ends, so that a daemon does not outlive the quickstart.
pub fn end_with_parent() {
    // Without it an orphan stays up until somebody ends it: a pity, and no reason not to start.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// A running daemon, which is stopped when this is dropped.
struct Daemon {
    child: Child,
    /// Copies the daemon's log into a file, and ends with it.
    copier: Option<std::thread::JoinHandle<()>>,
}

impl Daemon {
    fn tell_to_end(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    fn join(&mut self) {
        let _ = self.child.wait();
        if let Some(copier) = self.copier.take() {
            let _ = copier.join();
        }
    }
}

/// A master and its minions under a temporary root.
pub struct Fleet {
    daemons: Vec<Daemon>,
    executable: PathBuf,
    /// Removed last, when no daemon uses it any more.
    root: tempfile::TempDir,
}

impl Fleet {
    /// Creates a fleet without processes.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            daemons: Vec::new(),
            executable: std::env::current_exe()?,
            root: tempfile::Builder::new().prefix("saline-").tempdir()?,
        })
    }

    /// Returns the folder of the master's configuration.
    pub fn config(&self) -> PathBuf {
        self.root.path().join("etc")
    }

    /// Returns the folder of the logs.
    pub fn logs(&self) -> PathBuf {
        self.root.path().join("log")
    }

    /// Returns a command that runs this program as `name`.
    pub fn command(&self, name: &str, config: &Path) -> Command {
        let mut command = Command::new(&self.executable);
        command.arg0(name).arg("-c").arg(config);
        command
    }

    /// Starts the master. Returns the address on which it takes requests.
    pub fn start_master(&mut self, transport: &str) -> io::Result<(String, u16)> {
        let root = self.root.path().join("master");
        let config = self.config();
        let text = format!(
            "# The quickstart's master. Ports are chosen by the system.\nroot_dir: {}\ninterface: 127.0.0.1\nret_port: 0\npublish_port: 0\ntransport: {transport}\nheartbeat_interval: 5\nlog_level: info\n",
            root.display()
        );
        write_config(&config, "master", &text)?;
        let lines = self.start("saline-master", "master", &config)?;
        let mut last = String::new();
        for line in lines {
            if let Some((_, endpoint)) = line.split_once("requests on ") {
                let port = endpoint.rsplit(':').next().unwrap_or_default();
                let port = port.trim().parse().map_err(io::Error::other)?;
                return Ok((endpoint.trim().to_owned(), port));
            }
            last = line;
        }
        Err(io::Error::other(format!(
            "the master did not start: {last}"
        )))
    }

    /// Starts a minion of the master at that port.
    pub fn start_minion(&mut self, id: &str, transport: &str, port: u16) -> io::Result<()> {
        let config = self.root.path().join(format!("etc-{id}"));
        let text = format!(
            "root_dir: {}\nid: {id}\nmaster: 127.0.0.1\nmaster_port: {port}\ntransport: {transport}\nacceptance_wait_time: 0.2\nlog_level: info\n",
            self.root.path().join(id).display()
        );
        write_config(&config, "minion", &text)?;
        self.start("saline-minion", id, &config).map(drop)
    }

    /// Starts a daemon. Its log goes to a file and, until the receiver is dropped, to the receiver.
    fn start(&mut self, program: &str, name: &str, config: &Path) -> io::Result<Receiver<String>> {
        std::fs::create_dir_all(self.logs())?;
        let mut file = File::create(self.logs().join(name))?;
        let mut child = self
            .command(program, config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let log = child.stderr.take().map(BufReader::new);
        let (lines, first_lines) = sync_channel(16);
        let copier = std::thread::spawn(move || {
            let mut lines = Some(lines);
            for line in log
                .into_iter()
                .flat_map(BufRead::lines)
                .map_while(Result::ok)
            {
                // A full disk costs the log, not the daemon.
                let _ = writeln!(file, "{line}");
                lines = lines.filter(|lines| lines.send(line).is_ok());
            }
        });
        self.daemons.push(Daemon {
            child,
            copier: Some(copier),
        });
        Ok(first_lines)
    }
}

fn write_config(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(name), text)
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Minions first, so that they can say goodbye.
        let mut minions = self.daemons.split_off(self.daemons.len().min(1));
        minions.iter().for_each(Daemon::tell_to_end);
        minions.iter_mut().for_each(Daemon::join);
        self.daemons.iter().for_each(Daemon::tell_to_end);
        self.daemons.iter_mut().for_each(Daemon::join);
    }
}
