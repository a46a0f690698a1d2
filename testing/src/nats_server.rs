//! Servers of NATS for tests: one, a cluster, or a leaf node, from the package of the system.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use crate::processes::{Daemon, Ports, Programs};

/// Names the program that is used in the place of the system's, to test another version.
pub const PROGRAM: &str = "SALINE_NATS_SERVER";

/// How a server is started.
#[derive(Debug, Clone)]
struct ServerProgram {
    path: PathBuf,
    /// The programs of which one, [`NAME`], becomes the server, whose path is its first argument.
    launcher: Option<Programs>,
}

/// The name of a server's program.
pub const NAME: &str = "nats-server";

impl ServerProgram {
    fn find(launcher: Option<&Programs>) -> Option<Self> {
        Some(Self {
            path: NatsServer::program()?,
            launcher: launcher.cloned(),
        })
    }

    fn command(&self) -> Command {
        match &self.launcher {
            Some(programs) => {
                let mut command = programs.command(NAME);
                command.arg(&self.path);
                command
            }
            None => Command::new(&self.path),
        }
    }
}

/// A server of NATS on a port of loopback that the system has chosen. It is killed when this is dropped.
#[derive(Debug)]
pub struct NatsServer {
    folder: tempfile::TempDir,
    program: ServerProgram,
    daemon: Daemon,
    address: SocketAddr,
}

impl NatsServer {
    /// Starts a server whose configuration has these lines too. Returns none, and says so, where nats-server is not installed.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn start(configuration: &str) -> Option<Self> {
        Some(Self::start_by(ServerProgram::find(None)?, configuration))
    }

    /// Starts a server whose configuration is a file with this name and text, which it includes. Returns none, and says so, where
    /// nats-server is not installed.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn start_including(name: &str, text: &str) -> Option<Self> {
        let program = ServerProgram::find(None)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join(name), text).expect("an included file");
        let configuration = format!("include {name}\n");
        Some(Self::start_in(folder, program, &configuration))
    }

    fn start_by(program: ServerProgram, configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::start_in(folder, program, configuration)
    }

    fn start_in(folder: tempfile::TempDir, program: ServerProgram, configuration: &str) -> Self {
        let path = folder.path().join("nats.conf");
        std::fs::write(&path, configuration).expect("a configuration");
        let daemon = spawn(&program, &path, "-1");
        let address = listening(&daemon, "client");
        Self {
            folder,
            program,
            daemon,
            address,
        }
    }

    /// Starts a cluster of so many servers, at least one, which know each other. One that was killed comes back to it.
    ///
    /// # Panics
    /// When one does not start.
    pub fn cluster(size: usize, configuration: &str) -> Option<Vec<Self>> {
        let port = |_| Ports::find("nats").expect("a port").requests;
        let ports: Vec<u16> = (0..size).map(port).collect();
        let at = |port: &u16| SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        let routes: Vec<SocketAddr> = ports.iter().map(at).collect();
        Self::cluster_behind(&ports, &routes, configuration, None)
    }

    /// Starts a cluster with a server for each of these ports, at which it takes the others' routes. They reach it at its
    /// address in `routes`, behind which there may be a [link](crate::links::Link). With a `launcher`, one of whose programs is
    /// [`NAME`], that program is started, and has to become the server whose path and arguments it gets.
    ///
    /// # Panics
    /// When one does not start.
    pub fn cluster_behind(
        ports: &[u16],
        routes: &[SocketAddr],
        configuration: &str,
        launcher: Option<&Programs>,
    ) -> Option<Vec<Self>> {
        let program = ServerProgram::find(launcher)?;
        let mut servers: Vec<Self> = Vec::new();
        for (number, (port, own)) in ports.iter().zip(routes).enumerate() {
            let others = routes.iter().filter(|route| *route != own);
            let others: Vec<String> = others.map(|at| format!("\"nats-route://{at}\"")).collect();
            let configuration = format!(
                "{configuration}\nserver_name: n{number}\ncluster {{ name: c, listen: \"127.0.0.1:{port}\", advertise: \"{own}\", \
                 routes: [{}] }}\n",
                others.join(", ")
            );
            servers.push(Self::start_by(program.clone(), &configuration));
        }
        let others = servers.len().saturating_sub(1);
        for server in servers.iter().filter(|_| others > 0) {
            let log = &server.daemon.log;
            log.wait_for("Route connection created", others);
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

    /// Returns the program, if there is one; says so where there is none.
    pub fn program() -> Option<PathBuf> {
        if let Some(given) = std::env::var_os(PROGRAM) {
            return Some(PathBuf::from(given));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        folders.push(PathBuf::from("/usr/sbin"));
        let mut found = folders.into_iter().map(|folder| folder.join(NAME));
        let program = found.find(|program| program.is_file());
        if program.is_none() {
            eprintln!(
                "SKIPPED: nats-server is not installed (Debian: apt-get install nats-server), so nothing is tested over NATS"
            );
        }
        program
    }

    /// Returns where it takes clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the section `nats` of a configuration file whose daemon reaches these servers.
    pub fn section(servers: &[SocketAddr], subject: &str) -> String {
        let quoted: Vec<String> = servers.iter().map(|at| format!("'{at}'")).collect();
        format!(
            "nats: {{servers: [{}], subject: {subject}}}\n",
            quoted.join(", ")
        )
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

    /// Returns the id of its process.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.daemon.signal(signal);
    }
}

fn spawn(program: &ServerProgram, configuration: &std::path::Path, port: &str) -> Daemon {
    let mut command = program.command();
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
