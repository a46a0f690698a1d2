//! Servers of NATS for tests: one, a cluster, or a leaf node, from the package of the system.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use crate::processes::Daemon;

/// Names the program that is used in the place of the system's, to test another version.
pub const PROGRAM: &str = "SALINE_NATS_SERVER";

/// A server of NATS on a port of loopback that the system has chosen. It is killed when this is dropped.
#[derive(Debug)]
pub struct NatsServer {
    folder: tempfile::TempDir,
    program: PathBuf,
    daemon: Daemon,
    address: SocketAddr,
}

impl NatsServer {
    /// Starts a server whose configuration has these lines too. Returns none, and says so, where nats-server is not installed.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn start(configuration: &str) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!(
                "SKIPPED: nats-server is not installed (Debian: apt-get install nats-server), so nothing is tested over NATS"
            );
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("nats.conf");
        std::fs::write(&path, configuration).expect("a configuration");
        let daemon = spawn(&program, &path, "-1");
        let address = listening(&daemon, "client");
        Some(Self {
            folder,
            program,
            daemon,
            address,
        })
    }

    /// Starts a cluster of so many servers, which know each other.
    ///
    /// # Panics
    /// When one does not start.
    pub fn cluster(size: usize, configuration: &str) -> Option<Vec<Self>> {
        let mut servers: Vec<Self> = Vec::new();
        for number in 0..size {
            let routes: Vec<String> = servers
                .iter()
                .map(|server| format!("nats-route://{}", listening(&server.daemon, "route")))
                .collect();
            let server = Self::start(&format!(
                "{configuration}\nserver_name: n{number}\ncluster {{ name: c, listen: \"127.0.0.1:-1\", routes: [{}] }}\n",
                routes.join(", ")
            ))?;
            server.daemon.log.wait_for("Server is ready", 1);
            servers.push(server);
        }
        for server in &servers {
            server
                .daemon
                .log
                .wait_for("Route connection created", size - 1);
        }
        Some(servers)
    }

    /// Starts a leaf node of `hub`, whose configuration has `leafnodes { listen: "127.0.0.1:-1" }`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn leaf_of(hub: &Self) -> Option<Self> {
        let at = listening(&hub.daemon, "leafnode");
        let leaf = Self::start(&format!(
            "leafnodes {{ remotes: [{{ url: \"nats-leaf://{at}\" }}] }}\n"
        ))?;
        leaf.daemon.log.wait_for("Leafnode connection created", 1);
        Some(leaf)
    }

    /// Returns where it takes clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its folder, which goes with it.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Kills the server. It takes no connections until it is [started again](Self::start_again).
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts the server again, on the same port.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        let path = self.folder.path().join("nats.conf");
        self.daemon = spawn(&self.program, &path, &self.address.port().to_string());
        listening(&self.daemon, "client");
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.daemon.signal(signal);
    }
}

fn spawn(program: &std::path::Path, configuration: &std::path::Path, port: &str) -> Daemon {
    let mut command = Command::new(program);
    command.arg("-c").arg(configuration);
    let daemon = Daemon::spawn(command.args(["-a", "127.0.0.1", "-p", port]));
    daemon.log.wait_for("Server is ready", 1);
    daemon
}

/// Returns where a server listens for clients, routes or leaf nodes, as it has logged.
fn listening(daemon: &Daemon, what: &str) -> SocketAddr {
    let line = daemon
        .log
        .wait_for(&format!("Listening for {what} connections on"), 1);
    let address = line.rsplit(' ').next().unwrap_or_default();
    address.trim().parse().expect("an address in the log")
}

/// Returns the program, if there is one.
fn program() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os(PROGRAM) {
        return Some(PathBuf::from(given));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push(PathBuf::from("/usr/sbin"));
    let mut found = folders.into_iter().map(|folder| folder.join("nats-server"));
    found.find(|program| program.is_file())
}
