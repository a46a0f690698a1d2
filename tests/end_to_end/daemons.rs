//! The daemons under signals, stops and odd configurations.

use rustix::process::Signal;
use saline_testing::{Daemon, Fleet};

#[test]
fn sigterm_ends_both_with_zero() {
    let mut fleet = Fleet::with_minions("zeromq", &["m1"]);
    assert_eq!(fleet.minions.get_mut("m1").unwrap().terminate(), Some(0));
    assert_eq!(fleet.master.as_mut().unwrap().terminate(), Some(0));
}

#[test]
fn sigusr1_logs_what_every_part_is_doing() {
    let fleet = Fleet::with_minions("zeromq", &["m1"]);
    fleet.master().signal(Signal::USR1);
    fleet.master().log.wait_for("master_minions_present=1", 1);
    fleet.minions["m1"].signal(Signal::USR1);
    fleet.minions["m1"].log.wait_for("minion_connected=1", 1);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

#[test]
fn a_second_instance_says_so_and_ends() {
    let fleet = Fleet::with_minions("zeromq", &["m1"]);
    // Into the log of the first one it writes nothing.
    let log = "log_file: /the.log\n";
    let file = fleet.config().join("master");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}{log}")).unwrap();
    let mut second = Daemon::spawn(&mut fleet.master_command());
    assert_eq!(second.wait(), Some(1));
    let line = second.log.wait_for("another instance runs already", 1);
    assert!(line.contains(&fleet.master().pid().to_string()), "{line}");
    let mut second = fleet.spawn_minion("m1", "m1", log);
    assert_eq!(second.wait(), Some(1));
    let line = second.log.wait_for("another instance runs already", 1);
    assert!(
        line.contains(&fleet.minions["m1"].pid().to_string()),
        "{line}"
    );
    assert!(!fleet.path("the.log").exists() && !fleet.path("m1/the.log").exists());
    std::fs::write(&file, text).unwrap();
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

/// With sockets of its own, as in another container on the same volume, it would share the job store.
#[test]
fn a_second_master_on_the_same_job_store_ends() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let file = fleet.config().join("master");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}sock_dir: /run2\n")).unwrap();
    let mut second = Daemon::spawn(&mut fleet.master_command());
    assert_eq!(second.wait(), Some(1));
    let line = second.log.wait_for("another instance runs already", 1);
    assert!(line.contains("/lib/"), "{line}");
    std::fs::write(&file, text).unwrap();
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let fleet = Fleet::new("zeromq", "");
    fleet.write_master_config();
    let text = std::fs::read_to_string(fleet.config().join("master")).unwrap();
    let text = text.replace("ret_port: 0", &format!("ret_port: {port}"));
    std::fs::write(fleet.config().join("master"), text).unwrap();
    let mut master = Daemon::spawn(&mut fleet.master_command());
    assert_eq!(master.wait(), Some(1));
    master.log.wait_for(&port.to_string(), 1);
}

#[test]
fn a_wrong_option_is_named_with_its_place() {
    let fleet = Fleet::new("zeromq", "interfce: 127.0.0.1\n");
    fleet.write_master_config();
    let mut master = Daemon::spawn(&mut fleet.master_command());
    assert_eq!(master.wait(), Some(1));
    let line = master.log.wait_for("interfce", 1);
    assert!(
        line.contains("master:8:1") && line.contains("interface"),
        "{line}"
    );
}

#[test]
fn versions_are_printed() {
    for program in [
        env!("CARGO_BIN_EXE_saline-master"),
        env!("CARGO_BIN_EXE_saline-minion"),
        env!("CARGO_BIN_EXE_saline"),
        env!("CARGO_BIN_EXE_saline-key"),
        env!("CARGO_BIN_EXE_saline-run"),
    ] {
        let output = std::process::Command::new(program)
            .arg("--version")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains(env!("CARGO_PKG_VERSION")),
            "{program}: {text}"
        );
        assert!(output.status.success());
    }
}

#[test]
fn commands_that_know_the_names_of_functions_hold_none() {
    let holds = |program: &str, text: &str| {
        let bytes = std::fs::read(program).unwrap();
        bytes
            .windows(text.len())
            .any(|found| found == text.as_bytes())
    };
    for (text, daemon, command) in [
        (
            "org.freedesktop.systemd1",
            env!("CARGO_BIN_EXE_saline-minion"),
            env!("CARGO_BIN_EXE_saline"),
        ),
        (
            "CREATE TABLE return_parts",
            env!("CARGO_BIN_EXE_saline-master"),
            env!("CARGO_BIN_EXE_saline-run"),
        ),
    ] {
        assert!(holds(daemon, text), "{daemon}: {text}");
        assert!(!holds(command, text), "{command}: {text}");
    }
}

#[test]
fn no_program_loads_the_shared_library_of_cpp() {
    // build.rs asks the same question.
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut asked = std::process::Command::new(compiler);
    let archive = asked.arg("-print-file-name=libstdc++.a").output().unwrap();
    if !archive.stdout.starts_with(b"/") {
        return println!("skipped: this compiler has no libstdc++.a");
    }
    for program in [
        env!("CARGO_BIN_EXE_saline"),
        env!("CARGO_BIN_EXE_saline-minion"),
    ] {
        let bytes = std::fs::read(program).unwrap();
        let name = b"libstdc++.so";
        let loads = bytes.windows(name.len()).any(|found| found == name);
        assert!(!loads, "{program} loads libstdc++.so");
    }
}

/// The kinds of sockets that listen on `port` of 127.0.0.1, as the system lists them.
fn listening(port: u16) -> (bool, bool) {
    let local = format!(" 0100007F:{port:04X} ");
    let listens = |table: &str, state: &str| {
        let table = std::fs::read_to_string(table).unwrap();
        table
            .lines()
            .any(|line| line.contains(&local) && line.split_whitespace().nth(3) == Some(state))
    };
    // 0A is LISTEN of TCP; an unconnected UDP socket is 07.
    (
        listens("/proc/net/tcp", "0A"),
        listens("/proc/net/udp", "07"),
    )
}

#[test]
fn the_right_kind_of_socket_listens() {
    for (transport, tcp, udp) in [
        ("zeromq", true, false),
        ("tcp", true, false),
        ("quic", false, true),
    ] {
        let fleet = Fleet::with_minions(transport, &["m1"]);
        assert_eq!(listening(fleet.port()), (tcp, udp), "{transport}");
        let apart = fleet.master().log.count("publications on ");
        assert_eq!(apart > 0, transport == "zeromq", "{transport}");
        fleet.saline(&["m1", "test.ping"]).expect(0);
    }
}

#[test]
fn one_master_serves_several_transports() {
    let mut fleet = Fleet::new("[tcp, quic]", "auto_accept: True\n");
    fleet.start_master();
    fleet.transport = "tcp";
    fleet.start_minion("over-tcp");
    fleet.minions["over-tcp"].log.wait_for("subscribed", 1);
    let line = fleet.master().log.wait_for("requests on quic", 1);
    let port: u16 = line.rsplit(':').next().unwrap().trim().parse().unwrap();
    fleet.transport = "quic";
    fleet.use_port(port);
    fleet.start_minion("over-quic");
    fleet.minions["over-quic"].log.wait_for("subscribed", 1);
    let said = fleet.saline(&["*", "test.ping", "--out", "json", "--static"]);
    let json: serde_json::Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"over-tcp": true, "over-quic": true})
    );
}

#[test]
fn tls_on_a_transport_that_has_none_is_refused() {
    let fleet = Fleet::new("zeromq", "ssl: True\n");
    fleet.write_master_config();
    let mut master = Daemon::spawn(&mut fleet.master_command());
    assert_eq!(master.wait(), Some(1));
    master.log.wait_for("zeromq has no TLS", 1);
}

#[test]
fn a_minion_that_was_stopped_for_a_while_goes_on() {
    let fleet = Fleet::with_minions("zeromq", &["m1"]);
    fleet.minions["m1"].signal(Signal::STOP);
    fleet.master().log.wait_for("1 minion gone", 1);
    let said = fleet.saline(&["m1", "test.ping"]).expect(1);
    assert!(said.stdout.contains("[Not connected]"), "{}", said.stdout);
    fleet.minions["m1"].signal(Signal::CONT);
    fleet.master().log.wait_for("minion m1 is back", 1);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}
