//! Requests whose clients go, or send only the beginning of what they say, and those whose master is away.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use saline_protocol::transport::Clock;
use serde_json::{Value, json};

use super::events::Listener;
use super::http::Api;
use super::users::{fleet_with_users, log_in};

/// Sends the beginning of a request.
fn begin(api: &Api, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(api.url.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

#[test]
fn the_login_of_a_call_ends_when_its_client_goes_and_the_log_tells_of_it() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let mut listener = Listener::start(&api, &["-H", &format!("X-Auth-Token: {alice}")]);
    let run = json!({
        "client": "local", "tgt": "web1", "fun": "cmd.run", "arg": ["sleep 60"],
        "username": "alice", "password": "any", "eauth": "auto",
    })
    .to_string();
    let length = run.len();
    let head = "POST /run HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n";
    let stream = begin(
        &api,
        &format!("{head}Content-Length: {length}\r\n\r\n{run}"),
    );
    listener.find("/new");
    let logins = || {
        let listed = fleet.run("saline-run", &["auth.list", "--out", "json"]);
        let listed: Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
        listed.as_array().unwrap().len()
    };
    assert_eq!(logins(), 2);
    drop(stream);
    let line = api.daemon.log.wait_for("POST /run: unanswered", 1);
    assert!(line.contains("127.0.0.1 POST /run"), "{line}");
    let ended = "the login of a request that nobody waits for has ended";
    api.daemon.log.wait_for(ended, 1);
    assert_eq!(logins(), 1);
}

#[test]
fn a_hook_without_a_login_is_refused_before_its_body() {
    let fleet = fleet_with_users(&[]);
    let api = Api::start(&fleet);
    let head = "POST /hook/build HTTP/1.1\r\nHost: api\r\nContent-Length: 100000\r\n\r\n";
    let mut stream = begin(&api, head);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 401");
}

#[test]
fn a_login_is_told_within_seconds_that_the_master_is_away() {
    let mut fleet = fleet_with_users(&[]);
    let api = Api::start(&fleet);
    log_in(&api, "alice");
    fleet.kill_master();
    let begun = Clock.now();
    let login = api.ask("/login", &["-d", "username=alice&password=any&eauth=auto"]);
    assert_eq!(login.status, 503, "{login:?}");
    // Other requests to the master wait half a minute for its restart.
    let waited = Clock.now() - begun;
    assert!(waited < Duration::from_secs(20), "{waited:?}");
}
