//! An API on another host than its master, over each transport.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;

use saline_config::ApiConfig;
use saline_protocol::transport::Clock;
use saline_testing::{CommandOutput, Daemon, Fleet};
use serde_json::json;

use super::events::Listener;
use super::http::{Api, options};
use super::users::log_in;
use crate::masters_user::{NOBODY, status};
use crate::monitoring::{page, port_of};

const USERS: &str = "\
auto_accept: True
external_auth: {auto: {alice: ['.*', '@runner', '@events']}}
netapi_enable_clients: [local, runner]
";

/// Writes the file of an API elsewhere, with these options beside those that it needs, and returns the command of the API.
pub fn configured(fleet: &Fleet, transport: &str, more: &str) -> Command {
    let root = fleet.path("web");
    fs::create_dir(&root).unwrap();
    let own = format!(
        "id: web\nroot_dir: {}\nmaster: 127.0.0.1\nmaster_port: {}\ntransport: {transport}\n{}{more}",
        root.display(),
        fleet.port(),
        options("")
    );
    fs::write(ApiConfig::file(&root), own).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-api"));
    command.arg("-c").arg(&root);
    command
}

/// Returns the fingerprint that the log of an API tells to accept.
pub fn fingerprint(api: &Api) -> String {
    let told = api.daemon.log.wait_for("--accept-operator ", 1);
    let (_, told) = told.split_once("--accept-operator ").unwrap();
    told.split_whitespace().next().unwrap().to_owned()
}

fn an_api_elsewhere_serves_users_when_its_key_is_accepted(transport: &'static str) {
    let mut fleet = Fleet::new(transport, USERS);
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let mut api = Api::spawn(configured(&fleet, transport, "").args(["-l", "info"]));

    // It names no user: one that root starts says that it stays root.
    if rustix::process::geteuid().is_root() {
        let line = api.daemon.log.wait_for("the API runs as root", 1);
        assert!(line.contains("set `user` in "), "{line}");
    }
    // The log says what to do, and nobody can log in before that is done.
    let fingerprint = &fingerprint(&api);
    assert_eq!(api.ask("/readyz", &[]).status, 503);
    let refused = api.ask("/login", &["-d", "username=alice&password=any&eauth=auto"]);
    assert_eq!(refused.status, 503, "{refused:?}");
    let accept = ["--accept-operator", fingerprint, "--api"];
    fleet.run("saline-key", &accept).expect(0);

    let token = log_in(&api, "alice");
    let job = json!([{"client": "local", "tgt": "*", "fun": "test.ping"}]);
    let ran = api.post("/", &token, &job).expect(200);
    assert_eq!(ran["return"], json!([{"m1": true}]));
    // What the master's file does not enable goes by no API.
    let keys = json!([{"client": "wheel", "fun": "key.list_all"}]);
    assert_eq!(api.post("/", &token, &keys).status, 401);

    // The event of a hook is fired by the user, through the key of the API.
    let hook = api.post("/hook/build", &token, &json!({"a": 1}));
    assert_eq!(hook.expect(200), json!({"success": true}));
    let audited = fleet.path("master/var/log/saline/master-audit.log");
    let audited = fs::read_to_string(audited).unwrap();
    let fired = audited.lines().find(|line| line.contains("event.send"));
    let by = "external user alice (auto, through API web)";
    assert!(fired.is_some_and(|line| line.contains(by)), "{audited}");

    fleet.kill_master();
    fleet.start_master();
    fleet.minions["m1"].log.wait_for("subscribed", 2);
    let again = api.post("/", &token, &job).expect(200);
    assert_eq!(
        again["return"],
        json!([{"m1": true}]),
        "the login is valid over a restart"
    );
    let mut listener = Listener::start(&api, &["-H", &format!("X-Auth-Token: {token}")]);
    fleet
        .run("saline-key", &["--delete-operator", fingerprint])
        .expect(0);
    let deleted = Clock.now();
    while listener.next().is_some() {}
    let ended = Clock.now() - deleted;
    assert!(ended < Duration::from_secs(60), "{ended:?}");
    api.daemon.log.wait_for("an event stream of user alice", 1);
    let cut = api.post("/", &token, &job);
    assert_ne!(cut.status, 200, "{cut:?}");
    assert_eq!(api.daemon.terminate(), Some(0));
}

#[test]
fn an_api_that_root_starts_makes_its_key_and_goes_on_as_its_own_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let mut fleet = Fleet::new("tcp", USERS);
    fs::set_permissions(fleet.root(), fs::Permissions::from_mode(0o755)).unwrap();
    fleet.start_master();
    let own = "user: nobody\nmetrics_listen: 127.0.0.1:0\npidfile: /run/saline/api/pid\n";
    let mut command = configured(&fleet, "tcp", own);
    let root = fleet.path("web");
    let file = ApiConfig::file(&root);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let checked = Command::new(command.get_program())
        .args(command.get_args())
        .arg("--check")
        .output();
    let checked = CommandOutput::from(checked.unwrap()).expect(0);
    let warned = "SIGHUP will change nothing, since the API's user cannot read the configuration";
    assert!(checked.stderr.contains(warned), "{checked:?}");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);

    command.args(["-l", "info"]);
    let mut api = Api::spawn(&mut command);
    api.daemon.log.wait_for(warned, 1);
    let accept = ["--accept-operator", &fingerprint(&api), "--api"];
    fleet.run("saline-key", &accept).expect(0);
    assert_eq!(api.ask("/readyz", &[]).status, 200);
    for set in ["Uid", "Gid"] {
        let expected = vec![NOBODY.to_string(); 4].join(" ");
        assert_eq!(status(api.daemon.pid(), set), expected, "{set}");
    }
    assert_eq!(status(api.daemon.pid(), "CapPrm"), "0000000000000000");
    for made in ["etc/saline/pki/api/identity.key", "run/saline/api/pid"] {
        assert_eq!(
            fs::metadata(root.join(made)).unwrap().uid(),
            NOBODY,
            "{made}"
        );
    }
    let metrics = page(port_of(&api.daemon), "/metrics");
    let answers = "saline_api_answers_total{status=\"2xx\"} 1.0\n";
    assert!(metrics.contains(answers), "{metrics}");

    // The key outlives the process.
    assert_eq!(api.daemon.terminate(), Some(0));
    let mut api = Api::spawn(&mut command);
    assert_eq!(api.ask("/readyz", &[]).status, 200);
    assert_eq!(api.daemon.terminate(), Some(0));
    let key = root.join("etc/saline/pki/api");
    std::os::unix::fs::chown(&key, Some(0), Some(0)).unwrap();
    let mut refused = Daemon::spawn(&mut command);
    assert_eq!(refused.wait(), Some(1));
    let line = refused.log.wait_for("chown -R nobody: ", 1);
    assert!(line.trim().ends_with("etc/saline/pki/api"), "{line}");
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
