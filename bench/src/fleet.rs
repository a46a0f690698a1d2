//! The processes of a system under measurement: this program under other names.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, setpriority_process, waitid,
};
use saline_client::{Client, RunnerSpec};
use saline_config::MasterConfig;
use saline_data::Value;
use saline_protocol::transport::{Clock, Registry};
use saline_testing::{Folders, NatsServer, Ports, Process, Programs};

use crate::Result;
use crate::process::{ProcessUsage, children, is_running};
use crate::swarm::options::SwarmOptions;

/// Far beyond what anything here takes, but for the minions of a large swarm.
const TIMEOUT: Duration = Duration::from_secs(300);

/// What is added for each minion: keys are made and handshakes done on cores that master and swarm share.
const TIMEOUT_OF_A_MINION: Duration = Duration::from_millis(50);

/// The priority of the swarm, below that of the others (0): in a fleet the master, and what carries its messages, share their cores
/// with no minion, so here they come first.
const NICENESS: i32 = 5;

/// What servers of NATS are configured with, as `docs/nats.md` recommends.
const NATS_CONFIGURATION: &str = "ping_interval: 5s\nping_max: 2\n";

/// What the subjects of the measured master begin with.
const NATS_SUBJECT: &str = "saline.bench";

/// How often it is looked whether something has become so, where nothing tells.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How much longer for each minion, when the master is asked which are present: its answer costs CPU time in proportion.
const POLL_INTERVAL_OF_A_MINION: Duration = Duration::from_micros(100);

/// The options with which a fleet is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetOptions<'a> {
    /// The transport between the minions and their master.
    pub(crate) transport: &'a str,
    /// The number of minions in the swarm.
    pub(crate) minions: usize,
    /// How its minions run.
    pub(crate) swarm: SwarmOptions,
    /// The time between two heartbeats of a minion, in seconds.
    pub(crate) heartbeat: f64,
    /// The servers of NATS, where that is the transport.
    pub(crate) nats_servers: usize,
    /// More lines of the master's file, each with its end.
    pub(crate) master: &'a str,
}

/// A master, its swarm, and perhaps the HTTP API beside it. Dropping it kills all of them.
pub(crate) struct Fleet {
    transport: String,
    minions: usize,
    options: SwarmOptions,
    port: u16,
    programs: Programs,
    folders: Folders,
    master: Option<Process>,
    api: Option<Process>,
    swarm: Option<Process>,
    /// The servers of NATS that carry everything, where that is the transport.
    nats: Vec<NatsServer>,
    /// Minions beside the swarm, each in a process of its own.
    others: Vec<Process>,
    /// Removed last, when nobody writes there any more.
    root: tempfile::TempDir,
}

/// The duration, the resources and the output of one run of the command line.
pub(crate) struct CommandRun {
    pub(crate) wall: Duration,
    pub(crate) usage: ProcessUsage,
    pub(crate) lines: usize,
}

impl Fleet {
    /// Writes the configuration. Starts nothing.
    pub(crate) fn new(fleet: FleetOptions<'_>) -> Result<Self> {
        let transport = fleet.transport;
        let root = tempfile::Builder::new().prefix("saline-bench-").tempdir()?;
        let ports = Ports::find(transport)?;
        let nats = match transport {
            "nats" => NatsServer::cluster(fleet.nats_servers, NATS_CONFIGURATION)
                .ok_or("nats-server is not installed (Debian: apt-get install nats-server)")?,
            _ => Vec::new(),
        };
        let section = match nats.is_empty() {
            true => String::new(),
            false => NatsServer::section(&addresses(&nats), NATS_SUBJECT),
        };
        let options = format!(
            "auto_accept: True\nlog_level: error\nminion_event_rate: 0\nminion_event_bytes: 0\nheartbeat_interval: {}\nkeepalive_interval: {}\n{section}{}",
            fleet.heartbeat, fleet.swarm.keepalive, fleet.master
        );
        let folders = Folders::under(root.path());
        folders.write_master(transport, ports, &options)?;
        Ok(Self {
            folders,
            root,
            programs: Programs::this()?,
            transport: transport.to_owned(),
            minions: fleet.minions,
            options: fleet.swarm,
            port: ports.requests,
            master: None,
            api: None,
            swarm: None,
            nats,
            others: Vec::new(),
        })
    }

    /// Returns a path below the root of the master.
    pub(crate) fn master_path(&self, below: &str) -> PathBuf {
        self.root.path().join("master").join(below)
    }

    /// Returns a command that runs this program as `name`.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = self.programs.command(name);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts the master and connects to it as an operator.
    pub(crate) async fn start_master(&mut self, registry: &Registry) -> Result<Client> {
        let mut command = self.program("saline-master");
        command.arg("-c").arg(self.folders.config());
        self.master = Some(Process::spawn(&mut command)?);
        let schemes: Vec<&str> = registry.schemes().collect();
        let config = MasterConfig::load(&self.folders.config(), &schemes)?.config;
        let deadline = Clock.after(TIMEOUT);
        loop {
            match Client::connect(&config, registry).await {
                Ok(client) => return Ok(client),
                Err(error) if Clock.now() > deadline => return Err(error.into()),
                Err(_) => Clock.pause(POLL_INTERVAL).await,
            }
        }
    }

    /// Starts the HTTP API, as `rest_cherrypy` of the master's file has it.
    pub(crate) fn start_api(&mut self) -> Result<()> {
        let mut command = self.program("saline-api");
        command.arg("-c").arg(self.folders.config());
        self.api = Some(Process::spawn(&mut command)?);
        Ok(())
    }

    /// Returns what the HTTP API has used.
    pub(crate) fn api_usage(&self) -> Result<ProcessUsage> {
        let pid = self.api.as_ref().map(Process::pid);
        ProcessUsage::of(pid.ok_or("no API runs")?)
    }

    /// Kills the master, without a goodbye.
    pub(crate) fn kill_master(&mut self) {
        self.master = None;
    }

    /// Starts the minions; those of an earlier swarm come again, with their keys.
    pub(crate) fn start_swarm(&mut self) -> Result<()> {
        let swarm = Process::spawn(&mut self.minions_program(self.minions))?;
        let pid = i32::try_from(swarm.pid()).ok().and_then(Pid::from_raw);
        // What it starts, threads and processes, inherits it.
        setpriority_process(pid, NICENESS)?;
        self.swarm = Some(swarm);
        Ok(())
    }

    /// Returns a command that runs so many minions.
    fn minions_program(&self, minions: usize) -> Command {
        let mut command = self.program("saline-swarm");
        command
            .args(["--minions", &minions.to_string()])
            .args(["--transport", &self.transport])
            .args(["--master", &format!("127.0.0.1:{}", self.port)])
            .arg("--root")
            .arg(self.root.path().join("swarm"))
            .args(self.options.arguments());
        if !self.nats.is_empty() {
            let servers = addresses(&self.nats);
            let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
            command
                .args(["--servers", &servers.join(",")])
                .args(["--subject", NATS_SUBJECT]);
        }
        command
    }

    /// Starts one more minion, whose id begins with `name`, in a process of its own, and waits until the master
    /// counts it as present.
    pub(crate) async fn start_another(&mut self, client: &Client, name: &str) -> Result<()> {
        let mut command = self.minions_program(1);
        let other = Process::spawn(command.args(["--name", name]))?;
        self.others.push(other);
        self.present(client, self.minions + self.others.len()).await
    }

    /// Kills the minions, without a goodbye.
    pub(crate) async fn kill_swarm(&mut self) -> Result<()> {
        let Some(mut swarm) = self.swarm.take() else {
            return Ok(());
        };
        let shares = children(swarm.pid())?;
        swarm.kill();
        for share in shares {
            let pid = Pid::from_raw(share).ok_or("no process")?;
            // It may have ended with the swarm.
            let _ = kill_process(pid, Signal::KILL);
            // Its locks are released when it has ended. Its parent is gone, so it cannot be waited for here.
            let deadline = Clock.after(TIMEOUT);
            while is_running(share) {
                if Clock.now() > deadline {
                    return Err(format!("process {share} does not end").into());
                }
                Clock.pause(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Waits until the master counts every minion as present.
    pub(crate) async fn all_present(&self, client: &Client) -> Result<()> {
        self.present(client, self.minions).await
    }

    /// Waits until the master counts no minion as present: one whose connection has ended is for a moment.
    pub(crate) async fn none_present(&self, client: &Client) -> Result<()> {
        self.present(client, 0).await
    }

    async fn present(&self, client: &Client, wanted: usize) -> Result<()> {
        let minions = u32::try_from(self.minions).unwrap_or(u32::MAX);
        let deadline = Clock.after(TIMEOUT + TIMEOUT_OF_A_MINION.saturating_mul(minions));
        loop {
            let present = client.runner(RunnerSpec::new("manage.up"))?.end().await?;
            let present = match present.value()? {
                Value::List(present) => present.len(),
                other => return Err(format!("manage.up returned {other:?}").into()),
            };
            if present == wanted {
                return Ok(());
            }
            if Clock.now() > deadline {
                return Err(format!("{present} minions are present, not {wanted}").into());
            }
            Clock
                .pause(POLL_INTERVAL * 4 + POLL_INTERVAL_OF_A_MINION * minions)
                .await;
        }
    }

    /// Returns what the master has used.
    pub(crate) fn master_usage(&self) -> Result<ProcessUsage> {
        let pid = self.master.as_ref().map(Process::pid);
        ProcessUsage::of(pid.ok_or("no master runs")?)
    }

    /// Returns what the servers of NATS have used together; none where they carry nothing.
    pub(crate) fn nats_usage(&self) -> Result<Option<ProcessUsage>> {
        let mut all = ProcessUsage::default();
        for server in &self.nats {
            let usage = ProcessUsage::of(server.pid())?;
            all.cpu += usage.cpu;
            all.memory += usage.memory;
        }
        Ok((!self.nats.is_empty()).then_some(all))
    }

    /// Returns what the swarm has used, with the processes among which it is divided.
    pub(crate) fn swarm_usage(&self) -> Result<ProcessUsage> {
        let pid = self.swarm.as_ref().map(Process::pid);
        let pid = pid.ok_or("no swarm runs")?;
        let mut all = ProcessUsage::of(pid)?;
        for share in children(pid)? {
            let usage = ProcessUsage::of(share.try_into()?)?;
            all.cpu += usage.cpu;
            all.memory += usage.memory;
        }
        Ok(all)
    }

    /// Runs the command line `saline` with these arguments, and counts the lines that it prints.
    pub(crate) async fn saline(&self, arguments: &[&str]) -> Result<CommandRun> {
        let mut command = self.program("saline");
        command
            .arg("-c")
            .arg(self.folders.config())
            .args(arguments)
            .stdout(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        let begin = Clock.now();
        let mut child = command.spawn()?;
        let mut output = Vec::new();
        let pid = child.id().ok_or("the command line has no process")?;
        if let Some(mut stdout) = child.stdout.take() {
            tokio::io::AsyncReadExt::read_to_end(&mut stdout, &mut output).await?;
        }
        // It has closed its output, so it ends now. Waited for without taking its figures away.
        let raw = Pid::from_raw(i32::try_from(pid)?).ok_or("no process")?;
        waitid(
            WaitId::Pid(raw),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )?;
        let (wall, usage) = (Clock.now() - begin, ProcessUsage::of(pid)?);
        let status = child.wait().await?;
        if !status.success() {
            let text = String::from_utf8_lossy(&output);
            let last = text.lines().last().unwrap_or_default().to_owned();
            return Err(format!("saline {arguments:?} ended with {status}; {last}").into());
        }
        let lines = output.iter().filter(|&&byte| byte == b'\n').count();
        Ok(CommandRun { wall, usage, lines })
    }
}

/// Returns where these servers take clients.
fn addresses(servers: &[NatsServer]) -> Vec<SocketAddr> {
    servers.iter().map(NatsServer::address).collect()
}
