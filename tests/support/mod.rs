//! Real daemons on loopback under a temporary root, for the end-to-end tests.
#![allow(
    dead_code,
    reason = "each test binary compiles this for itself and uses a part of it"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "deadlines for processes that are really running; nothing here sleeps"
)]

pub mod slow_link;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a test waits for anything; far more than anything takes on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

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

/// The lines that a daemon or a command has printed so far.
#[derive(Debug, Default)]
pub struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

impl Log {
    /// Collects the lines of a stream on a thread, which ends with the stream.
    pub fn follow(stream: impl Read + Send + 'static) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                sink.lines.lock().unwrap().push(line);
                sink.grown.notify_all();
            }
        });
        log
    }

    /// Waits until `count` lines contain `needle`, and returns the last of them.
    pub fn wait_for(&self, needle: &str, count: usize) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut lines = self.lines.lock().unwrap();
        loop {
            let found: Vec<_> = lines.iter().filter(|line| line.contains(needle)).collect();
            if found.len() >= count {
                return found[count - 1].clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "waited in vain for {count} lines with {needle:?}; the log:\n{}",
                lines.join("\n")
            );
            lines = self.grown.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// Returns how many lines contain `needle` now.
    pub fn count(&self, needle: &str) -> usize {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|line| line.contains(needle)).count()
    }

    /// Returns the log so far.
    pub fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }
}

/// Waits for the end of a process. Kills it and panics when it has not ended after [`TEST_TIMEOUT`].
#[track_caller]
pub fn ended(child: &mut Child) -> ExitStatus {
    let pid = Pid::from_child(child);
    let (tell, heard) = mpsc::sync_channel(1);
    let status = std::thread::scope(|scope| {
        scope.spawn(move || tell.send(child.wait()));
        let status = heard.recv_timeout(TEST_TIMEOUT);
        if status.is_err() {
            // It may end at this moment.
            let _ = kill_process(pid, Signal::KILL);
        }
        status
    });
    status.expect("the process goes on").unwrap()
}

/// A daemon that this test started. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    pub log: Arc<Log>,
}

impl Daemon {
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Ends with the daemon, which is killed when this is dropped.
        let log = Log::follow(child.stderr.take().unwrap());
        Self { child, log }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills the daemon with SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the daemon with SIGTERM, and returns its exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        ended(&mut self.child).code()
    }

    /// Waits until the daemon ends by itself, and returns its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        ended(&mut self.child).code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A master and its minions.
#[derive(Debug)]
pub struct Fleet {
    root: tempfile::TempDir,
    pub transport: &'static str,
    pub master: Option<Daemon>,
    pub minions: BTreeMap<String, Daemon>,
    /// More lines for the master's configuration.
    pub master_options: String,
    ports: Option<(u16, u16)>,
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
        Self {
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
        self.root.path().join("etc")
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns a path under the root.
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub fn write_master_config(&self) {
        let (requests, publications) = self.ports.unwrap_or((0, 0));
        let root = self.root.path().join("master");
        std::fs::create_dir_all(self.config()).unwrap();
        let text = format!(
            "root_dir: {}\ninterface: 127.0.0.1\nret_port: {requests}\npublish_port: {publications}\nheartbeat_interval: 2\nlog_level: info\ntransport: {}\n{}",
            root.display(),
            self.transport,
            self.master_options
        );
        std::fs::write(self.config().join("master"), text).unwrap();
    }

    pub fn master_command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_saline-master"));
        command.arg("-c").arg(self.config());
        command
    }

    /// Starts the master: on free ports the first time, on the same ones after that.
    pub fn start_master(&mut self) {
        self.write_master_config();
        let master = Daemon::spawn(&mut self.master_command());
        master.log.wait_for(" is up", 1);
        if self.ports.is_none() {
            let port = |name: &str| -> u16 {
                let line = master.log.wait_for(name, 1);
                line.rsplit(':').next().unwrap().trim().parse().unwrap()
            };
            let requests = port("requests on ");
            let apart = master.log.count("publications on ") > 0;
            let publications = if apart { port("publications on ") } else { 0 };
            self.ports = Some((requests, publications));
        }
        self.master = Some(master);
    }

    pub fn master(&self) -> &Daemon {
        self.master.as_ref().unwrap()
    }

    /// Returns the port on which the master takes requests.
    pub fn port(&self) -> u16 {
        self.ports.unwrap().0
    }

    /// Returns the port on which it publishes; 0 if that is not apart.
    pub fn publish_port(&self) -> u16 {
        self.ports.unwrap().1
    }

    /// Sets the port for minions that are started from now on.
    pub fn use_port(&mut self, port: u16) {
        self.ports = Some((port, 0));
    }

    pub fn kill_master(&mut self) {
        self.master.take().unwrap().kill();
    }

    /// Returns the folder of one minion's configuration.
    pub fn minion_config(&self, id: &str) -> PathBuf {
        self.root.path().join(format!("etc-{id}"))
    }

    /// Starts a minion with more lines of configuration.
    pub fn start_minion_with(&mut self, id: &str, options: &str) {
        let minion = self.spawn_minion(id, id, options);
        self.minions.insert(id.to_owned(), minion);
    }

    /// Starts a minion whose root is the folder `root`.
    pub fn spawn_minion(&self, id: &str, root: &str, options: &str) -> Daemon {
        let folder = self.minion_config(root);
        std::fs::create_dir_all(&folder).unwrap();
        let (port, _) = self.ports.unwrap();
        let mut text = format!(
            "root_dir: {}\nid: {id}\nmaster: 127.0.0.1\nmaster_port: {port}\nacceptance_wait_time: 0.2\nrecon_default: 50\nrecon_max: 500\nlog_level: info\ntransport: {}\n",
            self.root.path().join(root).display(),
            self.transport
        );
        text.write_str(options).unwrap();
        std::fs::write(folder.join("minion"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_saline-minion"));
        command.arg("-c").arg(folder);
        Daemon::spawn(&mut command)
    }

    pub fn start_minion(&mut self, id: &str) {
        self.start_minion_with(id, "");
    }

    /// Returns a command of an operator, not started yet.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let path = match program {
            "saline" => env!("CARGO_BIN_EXE_saline"),
            "saline-key" => env!("CARGO_BIN_EXE_saline-key"),
            "saline-run" => env!("CARGO_BIN_EXE_saline-run"),
            other => panic!("no program {other}"),
        };
        let mut command = Command::new(path);
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
