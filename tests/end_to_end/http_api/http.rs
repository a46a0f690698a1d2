//! A running API, and requests to it by curl.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use saline_testing::{Daemon, Fleet};
use serde_json::Value;

/// A running API of a fleet.
pub struct Api {
    pub daemon: Daemon,
    /// Where it is served: `http://127.0.0.1:PORT`.
    pub url: String,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The lines of its head, in small letters.
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the body as JSON after checking the status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }
}

/// Returns the lines of a master's file for an API on a free port of this machine, with these options beside it.
pub fn options(more: &str) -> String {
    format!("rest_cherrypy:\n  port: 0\n  host: 127.0.0.1\n{more}")
}

impl Api {
    /// Starts the API of a fleet.
    pub fn start(fleet: &Fleet) -> Self {
        Self::spawn(&mut command(fleet))
    }

    /// Starts an API with this command.
    pub fn spawn(command: &mut Command) -> Self {
        let daemon = Daemon::spawn(command);
        let line = daemon.log.wait_for("the API is served at ", 1);
        let (_, url) = line.split_once("the API is served at ").unwrap();
        let url = url.split_whitespace().next().unwrap().to_owned();
        Self { daemon, url }
    }

    /// Sends a request with these arguments of curl.
    pub fn ask(&self, path: &str, arguments: &[&str]) -> Answer {
        let output = curl(&format!("{}{path}", self.url), arguments);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    /// Posts JSON with this token.
    pub fn post(&self, path: &str, token: &str, json: &Value) -> Answer {
        let (header, json) = (format!("X-Auth-Token: {token}"), json.to_string());
        let kind = "Content-Type: application/json";
        self.ask(path, &["-H", &header, "-H", kind, "--data-binary", &json])
    }

    /// Gets a path with this token.
    pub fn get(&self, path: &str, token: &str) -> Answer {
        self.ask(path, &["-H", &format!("X-Auth-Token: {token}")])
    }
}

/// Runs curl.
pub fn curl(url: &str, arguments: &[&str]) -> Output {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-S", "-i", "--max-time", "60", "--noproxy", "*"]);
    // No question of curl's own beside the request.
    curl.args(["-H", "Expect:"]).args(arguments).arg(url);
    curl.output().unwrap()
}

/// Returns the command that starts the API.
pub fn command(fleet: &Fleet) -> Command {
    fleet.command("saline-api", &["-l", "info"])
}

/// Writes a file below the root of a fleet.
pub fn write(fleet: &Fleet, name: &str, text: &str) -> PathBuf {
    let path = fleet.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}
