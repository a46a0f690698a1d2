//! An API on another host than its master, over each transport.

use std::fs;

use saline_config::ApiConfig;
use saline_testing::{Daemon, Fleet};
use serde_json::json;

use super::http::{Api, options};
use super::users::log_in;

const USERS: &str = "\
auto_accept: True
external_auth: {auto: {alice: ['.*', '@runner', '@events']}}
netapi_enable_clients: [local, runner]
";

fn an_api_elsewhere_serves_users_when_its_key_is_accepted(transport: &'static str) {
    let mut fleet = Fleet::new(transport, USERS);
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let root = fleet.path("web");
    fs::create_dir(&root).unwrap();
    let own = format!(
        "id: web\nroot_dir: {}\nmaster: 127.0.0.1\nmaster_port: {}\ntransport: {transport}\n{}",
        root.display(),
        fleet.port(),
        options("")
    );
    fs::write(ApiConfig::file(&root), own).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_saline-api"));
    command.arg("-c").arg(&root).args(["-l", "info"]);
    let daemon = Daemon::spawn(&mut command);
    let line = daemon.log.wait_for("the API is served at ", 1);
    let (_, url) = line.split_once("the API is served at ").unwrap();
    let url = url.split_whitespace().next().unwrap().to_owned();
    let mut api = Api { daemon, url };

    // The log says what to do, and nobody can log in before that is done.
    let told = api.daemon.log.wait_for("--accept-operator ", 1);
    assert_eq!(api.ask("/readyz", &[]).status, 503);
    let refused = api.ask("/login", &["-d", "username=alice&password=any&eauth=auto"]);
    assert_eq!(refused.status, 503, "{refused:?}");
    let (_, told) = told.split_once("--accept-operator ").unwrap();
    let fingerprint = told.split_whitespace().next().unwrap();
    let accept = ["--accept-operator", fingerprint, "--api"];
    fleet.run("saline-key", &accept).expect(0);

    let token = log_in(&api, "alice");
    let job = json!([{"client": "local", "tgt": "*", "fun": "test.ping"}]);
    let ran = api.post("/", &token, &job).expect(200);
    assert_eq!(ran["return"], json!([{"m1": true}]));
    // What the master's file does not enable goes by no API.
    let keys = json!([{"client": "wheel", "fun": "key.list_all"}]);
    assert_eq!(api.post("/", &token, &keys).status, 401);

    fleet.kill_master();
    fleet.start_master();
    fleet.minions["m1"].log.wait_for("subscribed", 2);
    let again = api.post("/", &token, &job).expect(200);
    assert_eq!(
        again["return"],
        json!([{"m1": true}]),
        "the login is valid over a restart"
    );
    fleet
        .run("saline-key", &["--delete-operator", fingerprint])
        .expect(0);
    let cut = api.post("/", &token, &job);
    assert_ne!(cut.status, 200, "{cut:?}");
    assert_eq!(api.daemon.terminate(), Some(0));
}

#[test]
fn over_tcp() {
    an_api_elsewhere_serves_users_when_its_key_is_accepted("tcp");
}

#[test]
fn over_quic() {
    an_api_elsewhere_serves_users_when_its_key_is_accepted("quic");
}

#[test]
fn over_zeromq() {
    an_api_elsewhere_serves_users_when_its_key_is_accepted("zeromq");
}
