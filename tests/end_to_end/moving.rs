//! A live fleet moves from one transport to another, and daemons read their configuration again.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so by panicking, and measures real processes"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use saline_testing::links::{Carries, Link};
use saline_testing::{Daemon, Fleet};

saline_testing::over_each_transport!(
    a_minion_is_told_at_once_that_its_key_was_accepted,
    a_minion_that_has_waited_for_long_is_told_as_soon,
    a_master_stops_at_once_though_minions_wait,
    a_port_that_is_taken_is_named,
    a_session_gets_new_keys_without_a_gap,
);

/// Returns the port in the last line that names it.
fn port(master: &Daemon, name: &str) -> u16 {
    let line = master.log.wait_for(name, 1);
    line.rsplit(':').next().unwrap().trim().parse().unwrap()
}

/// Replaces a text in the configuration of a minion, and has the minion read it again.
fn edit(fleet: &Fleet, id: &str, old: &str, new: &str) {
    let path = fleet.minion_config(id).join("minion");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{text}");
    std::fs::write(&path, text.replace(old, new)).unwrap();
    fleet.minions[id].signal(Signal::HUP);
}

#[test]
fn a_live_fleet_moves_one_minion_at_a_time() {
    let mut fleet = Fleet::new("[zeromq, tcp]", "auto_accept: True\ntcp: {ret_port: 0}\n");
    fleet.start_master();
    let tcp = port(fleet.master(), "requests on tcp://");
    assert_ne!(tcp, fleet.port());
    fleet.transport = "zeromq";
    let ids = ["m1", "m2", "m3"];
    for id in ids {
        fleet.start_minion(id);
    }
    for id in ids {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    let on = |fleet: &Fleet| {
        let said = fleet.run("saline-run", &["manage.transports", "--out", "json"]);
        serde_json::from_str::<serde_json::Value>(&said.expect(0).stdout).unwrap()
    };
    assert_eq!(on(&fleet), serde_json::json!({"zeromq": ids, "tcp": []}));
    let moved = AtomicBool::new(false);
    /// Ends the pings also when the test fails.
    struct Ending<'a>(&'a AtomicBool);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let pings = std::thread::scope(|scope| {
        let pinging = scope.spawn(|| {
            let mut pings = 0;
            while !moved.load(Ordering::Relaxed) || pings < 5 {
                let said = fleet.saline(&["*", "test.ping", "--out", "json", "--static"]);
                let json: serde_json::Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
                let all = serde_json::json!({"m1": true, "m2": true, "m3": true});
                assert_eq!(json, all, "after {pings} pings");
                pings += 1;
            }
            pings
        });
        let ending = Ending(&moved);
        for id in ids {
            let section = format!("transport: [tcp, zeromq]\ntcp: {{master_port: {tcp}}}\n");
            edit(&fleet, id, "transport: zeromq\n", &section);
            let log = &fleet.minions[id].log;
            log.wait_for("changed: tcp, transport", 1);
            log.wait_for("moving from zeromq://", 1);
            log.wait_for("subscribed to publications at tcp://", 1);
        }
        drop(ending);
        pinging.join().unwrap()
    });
    assert!(pings >= 5);
    assert_eq!(on(&fleet), serde_json::json!({"zeromq": [], "tcp": ids}));
    for id in ids {
        assert_eq!(fleet.minions[id].log.count("has taken this one's place"), 0);
    }
}

#[test]
fn two_transports_on_one_port_are_told_what_to_do() {
    let mut fleet = Fleet::new("[zeromq]", "");
    fleet.start_master();
    fleet.kill_master();
    fleet.transport = "[zeromq, tcp]";
    fleet.write_master_config();
    let mut master = Daemon::spawn(&mut fleet.master_command());
    assert_eq!(master.wait(), Some(1));
    let line = master.log.wait_for("zeromq has this port already", 1);
    assert!(line.contains("`tcp: {ret_port: 4507}`"), "{line}");
}

#[test]
fn a_minion_finds_its_master_at_the_transport_that_answers() {
    let mut fleet = Fleet::new("zeromq", "auto_accept: True\n");
    fleet.start_master();
    fleet.transport = "[quic, zeromq]";
    // Nobody says that no master is there, as behind a firewall.
    let silent = std::net::UdpSocket::bind(("127.0.0.1", fleet.port())).unwrap();
    let began = std::time::Instant::now();
    fleet.start_minion("m1");
    let log = Arc::clone(&fleet.minions["m1"].log);
    log.wait_for("no master at quic://", 1);
    log.wait_for("connected to zeromq://", 1);
    log.wait_for("subscribed", 1);
    // The promise is five seconds for a place that does not answer.
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
    drop(silent);
    // The master is served over the other transport from now on.
    let began = std::time::Instant::now();
    fleet.kill_master();
    fleet.transport = "quic";
    fleet.start_master();
    log.wait_for("does not answer: trying the other places", 1);
    log.wait_for("moving from zeromq://", 1);
    log.wait_for("subscribed", 2);
    // The promise is seconds: three until it looks around, and the time that the master takes to start.
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_transport_of_which_only_requests_pass_is_left_for_the_next_one() {
    let mut fleet = Fleet::new("[zeromq, tcp]", "auto_accept: True\ntcp: {ret_port: 0}\n");
    fleet.start_master();
    let (zeromq, tcp) = (fleet.port(), port(fleet.master(), "requests on tcp://"));
    // A firewall before which the master has another address: the port of publications is closed.
    let beyond = Ipv4Addr::new(127, 0, 0, 7);
    let route = |port| {
        let master = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        (SocketAddr::from((beyond, port)), master)
    };
    let routes = [route(zeromq), route(tcp)];
    let _firewall = Link::open(Carries::Streams, &routes).await.unwrap();
    fleet.transport = "[tcp, zeromq]";
    fleet.start_minion_with("m1", &format!("tcp: {{master_port: {tcp}}}\n"));
    let log = Arc::clone(&fleet.minions["m1"].log);
    log.wait_for("subscribed to publications at tcp://", 1);
    edit(&fleet, "m1", "master: 127.0.0.1\n", "master: 127.0.0.7\n");
    log.wait_for("subscribed to publications at tcp://127.0.0.7", 1);

    // It stays where it is, and is reached there meanwhile.
    edit(&fleet, "m1", "[tcp, zeromq]", "[zeromq, tcp]");
    let line = log.wait_for("no subscription at zeromq://127.0.0.7", 1);
    assert!(line.contains("open both ports"), "{line}");
    fleet.saline(&["*", "test.ping"]).expect(0);
    log.wait_for("the minion stays at tcp://127.0.0.7", 1);
    fleet.saline(&["-b", "1", "*", "test.ping"]).expect(0);
    assert_eq!(log.count("subscribed"), 2);

    // One that starts there finds the way too, and is not present before.
    fleet.minions.remove("m1").unwrap().kill();
    let mut minion = std::process::Command::new(env!("CARGO_BIN_EXE_saline-minion"));
    let minion = Daemon::spawn(minion.arg("-c").arg(fleet.minion_config("m1")));
    minion
        .log
        .wait_for("no subscription at zeromq://127.0.0.7", 1);
    assert_eq!(minion.log.count("subscribed"), 0);
    minion
        .log
        .wait_for("subscribed to publications at tcp://127.0.0.7", 1);
    fleet.saline(&["*", "test.ping"]).expect(0);
    fleet.minions.insert("m1".to_owned(), minion);
}

#[test]
fn sighup_takes_over_what_can_change_and_names_what_cannot() {
    let mut fleet = Fleet::new("tcp", "auto_accept: False\n");
    let log_file = fleet.path("master/log");
    fleet.master_options = format!("log_file: {}\n", log_file.display());
    fleet.write_master_config();
    let text = |name: &str| std::fs::read_to_string(fleet.path(name)).unwrap_or_default();
    // Follows the file by its name, also when it is another one.
    let follow = format!("exec tail -n +1 -F {} >&2", log_file.display());
    let log = Daemon::spawn(std::process::Command::new("sh").arg("-c").arg(follow));
    let mut master = Daemon::spawn(&mut fleet.master_command());
    log.log.wait_for(" is up", 1);
    let place = fleet.config().join("master");
    let before = std::fs::read_to_string(&place).unwrap();

    // Rotated: the new lines go to a new file.
    std::fs::rename(&log_file, fleet.path("master/log.1")).unwrap();
    let changed = before.replace("ret_port: 0", "ret_port: 4510") + "auto_accept: True\n";
    std::fs::write(&place, &changed).unwrap();
    master.signal(Signal::HUP);
    log.log.wait_for(
        "configuration reloaded; changed: auto_accept; needs a restart to take effect: ret_port",
        1,
    );
    assert!(text("master/log.1").contains(" is up"));
    // An option that was taken over is not told again; one that needs a restart is, until there is one.
    master.signal(Signal::HUP);
    log.log.wait_for(
        "configuration reloaded; needs a restart to take effect: ret_port",
        1,
    );

    // Wrong: one line, and nothing changes.
    std::fs::write(&place, changed + "log_levl: debug\n").unwrap();
    master.signal(Signal::HUP);
    let line = log.log.wait_for("configuration not reloaded", 1);
    assert!(line.contains("did you mean \"log_level\"?"), "{line}");
    assert_eq!(master.terminate(), Some(0));
    assert!(
        text("master/log").contains("master is down"),
        "everything is written at the end"
    );
}

#[test]
fn a_warning_is_not_repeated_at_each_sighup() {
    let mut fleet = Fleet::new("tcp", "fileserver_backend: {}\n");
    fleet.start_master();
    let log = Arc::clone(&fleet.master().log);
    log.wait_for("\"fileserver_backend\" of Salt is not supported", 1);
    for round in 1..=2 {
        fleet.master().signal(Signal::HUP);
        log.wait_for("reloaded; nothing has changed", round);
    }
    assert_eq!(log.count("is not supported"), 1);
    fleet.master_options.push_str("cluster_id: c\n");
    fleet.write_master_config();
    fleet.master().signal(Signal::HUP);
    log.wait_for("2 options of Salt are not supported", 1);
}

#[test]
fn jobs_and_sessions_survive_sighup() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let mut job = Daemon::spawn(&mut fleet.command("saline", &["m1", "test.sleep", "3"]));
    fleet.minions["m1"].log.wait_for("running test.sleep", 1);
    fleet.minions["m1"].signal(Signal::HUP);
    fleet.master().signal(Signal::HUP);
    let said = "configuration reloaded; nothing has changed";
    fleet.minions["m1"].log.wait_for(said, 1);
    fleet.master().log.wait_for(said, 1);
    assert_eq!(job.wait(), Some(0));
    assert_eq!(fleet.minions["m1"].log.count("accepted by the master"), 1);
    // What is taken over is in force.
    let path = fleet.minion_config("m1").join("minion");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("log_level: info", "log_level: debug")).unwrap();
    fleet.minions["m1"].signal(Signal::HUP);
    fleet.minions["m1"].log.wait_for("changed: log_level", 1);
    fleet.saline(&["m1", "test.ping"]).expect(0);
    fleet.minions["m1"].log.wait_for("DEBUG job ", 1);
    let path = fleet.config().join("master");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text + "nodegroups: {web: m1}\ntimeout: 77\nmax_message_size: 8388608\n",
    )
    .unwrap();
    fleet.master().signal(Signal::HUP);
    let said = "changed: nodegroups, timeout; needs a restart to take effect: max_message_size";
    fleet.master().log.wait_for(said, 1);
    fleet.saline(&["-N", "web", "test.ping"]).expect(0);
    let in_force = |option: &str| {
        let said = fleet.run("saline-run", &["config.get", option]);
        said.expect(0).stdout
    };
    assert_eq!(in_force("timeout"), "77\n");
    assert_ne!(in_force("max_message_size"), "8388608\n");
}

/// Starts the minion m1, of which only the master's word can be quick: it asks again after a minute.
fn start_patient_minion(fleet: &mut Fleet) {
    let folder = fleet.minion_config("m1").join("minion.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("wait.conf"), "acceptance_wait_time: 60\n").unwrap();
    fleet.start_minion("m1");
    let said = "has not accepted this minion's key yet";
    fleet.minions["m1"].log.wait_for(said, 1);
}

fn a_minion_is_told_at_once_that_its_key_was_accepted(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    start_patient_minion(&mut fleet);
    let line = fleet.master().log.wait_for("the key of minion m1", 1);
    assert!(
        line.contains("WARN") && line.contains("127.0.0.1:"),
        "{line}"
    );
    fleet.run("saline-key", &["-y", "-a", "m1"]).expect(0);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

fn a_minion_that_has_waited_for_long_is_told_as_soon(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    fleet.kill_master();
    fleet.write_master_config();
    let mut master = Daemon::spawn(fleet.master_command().args(["-l", "debug"]));
    master.log.wait_for(" is up", 1);
    start_patient_minion(&mut fleet);
    // The first is answered after eight seconds, and the second ends with the connection of a stranger.
    master.log.wait_for("minion m1 waits for an operator", 3);
    fleet.run("saline-key", &["-y", "-a", "m1"]).expect(0);
    fleet.saline(&["m1", "test.ping"]).expect(0);
    assert_eq!(master.terminate(), Some(0));
}

fn a_master_stops_at_once_though_minions_wait(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    let mut master = fleet.master.take().unwrap();
    start_patient_minion(&mut fleet);
    master.log.wait_for("the key of minion m1", 1);
    let began = std::time::Instant::now();
    assert_eq!(master.terminate(), Some(0));
    // A poll is held for eight seconds, and a stop takes about one.
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

fn a_port_that_is_taken_is_named(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    let at = format!("127.0.0.1:{}", fleet.port());
    // Another folder, so that the port is all that both want.
    let folder = fleet.path("etc-other");
    std::fs::create_dir_all(&folder).unwrap();
    let text = std::fs::read_to_string(fleet.config().join("master")).unwrap();
    let other = text
        .replace("ret_port: 0", &format!("ret_port: {}", fleet.port()))
        .replace(
            &fleet.path("master").display().to_string(),
            &fleet.path("other").display().to_string(),
        );
    std::fs::write(folder.join("master"), other).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_saline-master"));
    let mut master = Daemon::spawn(command.arg("-c").arg(folder));
    assert_eq!(master.wait(), Some(1));
    let line = master.log.wait_for("saline-master: ", 1);
    for part in [&at, "in use", "another program listens there"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(
        master.log.text().matches(&at).count(),
        line.matches(&at).count()
    );
}

#[test]
fn a_denied_key_is_a_warning_with_its_fingerprint_and_its_address() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    drop(fleet.minions.remove("m1"));
    let other = fleet.spawn_minion("m1", "other", "");
    let line = fleet.master().log.wait_for("is denied", 1);
    assert!(line.contains("WARN minion m1 at 127.0.0.1:"), "{line}");
    let said = other.log.wait_for("another key is known under its id", 1);
    let fingerprint = said.rsplit(' ').next().unwrap();
    assert!(line.contains(fingerprint), "{line} {said}");
    other.log.wait_for("the master still refuses", 2);
    assert_eq!(fleet.master().log.count("is denied"), 1);

    // With both machines there, an operator sees who they are and what to do.
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let listed = fleet.run("saline-key", &["-L"]).expect(0);
    let parts = [
        fingerprint,
        "The two are at 127.0.0.1:",
        " and 127.0.0.1:",
        "saline-key -a m1 --include-denied",
    ];
    for part in parts {
        assert!(listed.stderr.contains(part), "{part}: {}", listed.stderr);
    }
}

#[test]
fn the_log_is_json_on_request() {
    let mut fleet = Fleet::new("tcp", "log_fmt_console: json\n");
    fleet.write_master_config();
    let mut master = Daemon::spawn(&mut fleet.master_command());
    let line = master.log.wait_for(" is up", 1);
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json["level"], "INFO");
    assert_eq!(json["process"], master.pid());
    master.terminate();
    fleet.master = None;
}

/// Pings the minion until its log says so often that it is present; each of the pings is answered.
fn pings_until_present(fleet: &Fleet, times: usize) {
    let log = &fleet.minions["m1"].log;
    while log.count("present, and subscribed") < times {
        let said = fleet.saline(&["m1", "test.ping", "--out", "json", "--static"]);
        assert_eq!(said.expect(0).stdout, "{\n    \"m1\": true\n}\n");
    }
}

fn a_session_gets_new_keys_without_a_gap(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "auto_accept: True\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "rekey_interval: 10\n");
    fleet.minions["m1"]
        .log
        .wait_for("present, and subscribed", 1);
    let slow = fleet.command("saline", &["m1", "cmd.run", "sleep 12; echo done"]);
    let (fleet, slow) = (
        &fleet,
        { slow }
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    );
    pings_until_present(fleet, 2);
    let said = saline_testing::CommandOutput::from(slow.wait_with_output().unwrap()).expect(0);
    assert_eq!(said.stdout, "m1:\n    done\n");
    let log = &fleet.minions["m1"].log;
    for trouble in ["lost", "replaced", "WARN", "moving"] {
        assert_eq!(log.count(trouble), 0, "{trouble}");
    }
    assert_eq!(fleet.master().log.count("is gone"), 0);
}

/// Writes options over those of the minion's main file.
fn override_minion(fleet: &Fleet, options: &str) {
    let folder = fleet.minion_config("m1").join("minion.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("test.conf"), options).unwrap();
}

#[test]
fn the_log_names_the_master_of_several_that_answers() {
    for transport in ["tcp", "quic", "zeromq"] {
        let mut fleet = Fleet::new(transport, "auto_accept: True\n");
        fleet.start_master();
        let port = fleet.port();
        override_minion(
            &fleet,
            &format!("master: ['127.0.0.1:1', 'localhost:{port}']\n"),
        );
        fleet.start_minion("m1");
        let line = fleet.minions["m1"]
            .log
            .wait_for("accepted by the master", 1);
        let place = format!("{transport}://localhost:{port} (127.0.0.1), one of 2 addresses");
        assert!(line.contains(&place), "{line}");
    }
}

#[test]
fn a_master_with_another_transport_is_suspected() {
    for (minion, master, expected) in [
        (
            "tcp",
            "zeromq",
            "before a greeting came: is `transport` the same at both ends?",
        ),
        ("quic", "zeromq", "): does the server there serve quic?"),
    ] {
        let mut fleet = Fleet::new(master, "auto_accept: True\n");
        fleet.start_master();
        override_minion(&fleet, &format!("transport: {minion}\n"));
        fleet.start_minion("m1");
        fleet.minions["m1"].log.wait_for(expected, 1);
    }
}
