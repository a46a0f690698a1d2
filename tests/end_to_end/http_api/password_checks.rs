//! Passwords whose check takes long: the master waits for the file of users, which is a named pipe.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use saline_protocol::transport::Clock;
use saline_testing::Fleet;
use serde_json::json;

use super::http::{Api, options, write};
use super::users::log_in;
use crate::logins::hash_of;

const CREDENTIALS: [&str; 2] = ["-d", "username=carol&password=correct horse&eauth=file"];

/// Starts a master with a minion. It checks the password of carol by a named pipe, whose path is returned, and that of alice at once.
fn start() -> (Fleet, PathBuf) {
    // Below the folder that root_dir names.
    let auth = "auto_accept: True
external_auth: {file: {^filename: /users, carol: ['.*']}, auto: {alice: ['.*']}}
netapi_enable_clients: [local]
";
    let mut fleet = Fleet::new("tcp", &format!("{auth}{}", options("")));
    let users = write(&fleet, "master/users", "");
    fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
    fleet.start_master();
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    fs::remove_file(&users).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &users, Mode::from_raw_mode(0o600)).unwrap();
    (fleet, users)
}

/// Waits until the master reads the pipe, and returns the end for which it waits.
fn writer(pipe: &Path) -> File {
    let deadline = Clock.after(Duration::from_secs(60));
    // What other tests start meanwhile does not keep the pipe open.
    let writes = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // There is no writer before there is a reader.
    loop {
        match rustix::fs::open(pipe, writes, Mode::empty()) {
            Ok(writer) => return File::from(writer),
            Err(error) => assert_eq!(error, Errno::NXIO),
        }
        assert!(Clock.now() < deadline, "the master did not read the file");
        std::thread::yield_now();
    }
}

#[test]
fn a_login_whose_check_takes_long_succeeds_and_keeps_nobody_waiting() {
    let (fleet, users) = start();
    let api = Api::start(&fleet);
    let hash = hash_of(&fleet, "correct horse");
    let ping =
        |fun: &str, arg: u32| json!({"client": "local", "tgt": "*", "fun": fun, "arg": [arg]});
    let login = std::thread::scope(|scope| {
        let asking = scope.spawn(|| api.ask("/login", &CREDENTIALS));
        let mut writer = writer(&users);
        // Longer than it takes until the API asks whether the master is still there.
        let alice = log_in(&api, "alice");
        let slept = api.post("/", &alice, &ping("test.sleep", 5)).expect(200);
        assert_eq!(slept["return"], json!([{"web1": true}]));
        assert!(!asking.is_finished(), "the check goes on");
        writeln!(writer, "carol:{hash}").unwrap();
        drop(writer);
        asking.join().unwrap()
    });
    let login = login.expect(200);
    let token = login["return"][0]["token"].as_str().unwrap();
    let echoed = api.post("/", token, &ping("test.echo", 1)).expect(200);
    assert_eq!(echoed["return"], json!([{"web1": 1}]));
}

#[test]
fn a_login_ends_within_seconds_when_the_master_goes_while_it_checks_the_password() {
    let (mut fleet, users) = start();
    let api = Api::start(&fleet);
    assert_eq!(api.ask("/readyz", &[]).status, 200);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| api.ask("/login", &CREDENTIALS));
        let _writer = writer(&users);
        fleet.kill_master();
        let killed = Clock.now();
        let login = asking.join().unwrap();
        assert_eq!(login.status, 503, "{login:?}");
        let waited = Clock.now() - killed;
        assert!(waited < Duration::from_secs(20), "{waited:?}");
    });
}
