//! The system that is measured: a master, a minion, `saline-api`, and users who may do everything.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use saline_client::Client;
use saline_protocol::transport::{Clock, Registry};
use saline_testing::Ports;

use super::HttpArguments;
use super::http_client::HttpClient;
use crate::Result;
use crate::fleet::{Fleet, FleetOptions};
use crate::row::Row;
use crate::swarm::options::SwarmOptions;

/// The id of the minion to which jobs go.
pub(super) const ONE: &str = "swarm-00000";

/// The password of every user, by both ways.
pub(super) const PASSWORD: &str = "correct horse";

/// The ways in which the users log in.
pub(super) const WAYS: [&str; 2] = ["file", "sharedsecret"];

/// The name of the file of users, below the root of the master.
const USERS: &str = "users";

/// How long the API may take until it answers, and how often it is asked.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The system, with the tokens of the logins so far.
pub(super) struct Setting {
    pub(super) fleet: Fleet,
    pub(super) port: u16,
    pub(super) transport: String,
    pub(super) users: Vec<String>,
    pub(super) tokens: Vec<String>,
}

impl Setting {
    /// Starts it. Returns it with a client of the master.
    pub(super) async fn start(
        wanted: &HttpArguments,
        registry: &Registry,
    ) -> Result<(Self, Client)> {
        let port = Ports::find("tcp")?.requests;
        let users = (0..wanted.logins).map(|number| format!("user{number}"));
        let users: Vec<String> = users.collect();
        let mut fleet = Fleet::new(FleetOptions {
            transport: &wanted.transport,
            minions: 1,
            swarm: SwarmOptions::default(),
            heartbeat: 15.0,
            nats_servers: 1,
            master: &options(port, &users),
        })?;
        write_users(&fleet, &users)?;
        let client = fleet.start_master(registry).await?;
        fleet.start_swarm()?;
        fleet.all_present(&client).await?;
        fleet.start_api()?;
        let setting = Self {
            fleet,
            port,
            transport: wanted.transport.clone(),
            users,
            tokens: Vec::new(),
        };
        setting.wait_for_api().await?;
        Ok((setting, client))
    }

    async fn wait_for_api(&self) -> Result<()> {
        let deadline = Clock.after(START_TIMEOUT);
        loop {
            let answered = async {
                let mut client = HttpClient::connect(self.port).await?;
                client.get("/readyz", None).await.map(drop)
            };
            match answered.await {
                Ok(()) => return Ok(()),
                Err(error) if Clock.now() > deadline => return Err(error),
                Err(_) => Clock.pause(POLL_INTERVAL).await,
            }
        }
    }

    /// Returns a figure of this system.
    pub(super) fn row(
        &self,
        bench: impl Into<String>,
        unit: &'static str,
        samples: Vec<f64>,
    ) -> Row {
        Row::new(bench, (&self.transport, 1), unit, samples)
    }

    /// Returns a token, by turns that of each login.
    pub(super) fn token(&self, turn: usize) -> Result<&str> {
        let token = self.tokens.get(turn % self.tokens.len().max(1));
        Ok(token.ok_or("nobody is logged in")?)
    }
}

/// Returns the lines of the master's file.
fn options(port: u16, users: &[String]) -> String {
    let rules = users
        .iter()
        .map(|user| format!("    {user}: ['.*', '@events']\n"));
    let rules: String = rules.collect();
    format!(
        "rest_cherrypy:\n  port: {port}\n  host: 127.0.0.1\nexternal_auth:\n  file:\n    ^filename: /{USERS}\n{rules}  \
         sharedsecret:\n{rules}sharedsecret: {PASSWORD}\nnetapi_enable_clients: [local_async]\n"
    )
}

/// Writes the file of users: each has the same password, hashed as an operator hashes it.
fn write_users(fleet: &Fleet, users: &[String]) -> Result<()> {
    let mut command = fleet.program("saline-key");
    command.arg("--hash-password");
    let mut hashing = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = hashing.stdin.take() {
        writeln!(stdin, "{PASSWORD}")?;
    }
    let hashed = hashing.wait_with_output()?;
    if !hashed.status.success() {
        return Err(format!("saline-key --hash-password ended with {}", hashed.status).into());
    }
    let hash = String::from_utf8(hashed.stdout)?;
    let lines = users.iter().map(|user| format!("{user}:{}\n", hash.trim()));
    let path = fleet.master_path(USERS);
    fs::create_dir_all(fleet.master_path(""))?;
    fs::write(&path, lines.collect::<String>())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(())
}
