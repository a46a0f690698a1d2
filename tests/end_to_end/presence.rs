//! `saline-run manage.*`: the minions that are present, and those that are not.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use saline_testing::{Daemon, Fleet};

saline_testing::over_each_transport!(minions_are_up_while_they_speak);

fn minions_are_up_while_they_speak(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1", "m2", "m3"]);
    let manage = |fleet: &Fleet, function: &str, out: &str| {
        let function = format!("manage.{function}");
        let said = fleet.run("saline-run", &[&function, "--out", out]);
        let said = said.expect(0);
        assert_eq!(said.stderr, "");
        said.stdout
    };
    let all = "down:\nup:\n    - m1\n    - m2\n    - m3\n";
    assert_eq!(manage(&fleet, "status", "nested"), all);
    assert_eq!(manage(&fleet, "down", "json"), "[]\n");

    // One says goodbye, and another one falls silent.
    assert_eq!(fleet.minions.get_mut("m2").unwrap().terminate(), Some(0));
    fleet.master().log.wait_for("minion m2 says goodbye", 1);
    fleet.minions["m3"].signal(Signal::STOP);
    fleet.master().log.wait_for("minion gone: m3", 1);
    let some = "down:\n    - m2\n    - m3\nup:\n    - m1\n";
    assert_eq!(manage(&fleet, "status", "nested"), some);
    assert_eq!(
        manage(&fleet, "status", "raw"),
        "{'up': ['m1'], 'down': ['m2', 'm3']}\n"
    );
    let json: serde_json::Value = serde_json::from_str(&manage(&fleet, "status", "json")).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"up": ["m1"], "down": ["m2", "m3"]})
    );
    let places = fleet.run(
        "saline-run",
        &["manage.up", "show_ip=True", "--out", "json"],
    );
    let places: serde_json::Value = serde_json::from_str(&places.expect(0).stdout).unwrap();
    assert_eq!(places, serde_json::json!({"m1": "127.0.0.1"}));
    for up in ["up", "present", "alived"] {
        assert_eq!(manage(&fleet, up, "nested"), "- m1\n", "{up}");
    }
    for down in ["down", "not_alived"] {
        assert_eq!(manage(&fleet, down, "nested"), "- m2\n- m3\n", "{down}");
    }
    fleet.run("saline-key", &["-y", "-d", "m2"]).expect(0);
    assert_eq!(manage(&fleet, "down", "raw"), "['m3']\n");

    fleet.minions["m3"].signal(Signal::CONT);
    fleet.master().log.wait_for("minion m3 is back", 1);
    assert_eq!(manage(&fleet, "up", "raw"), "['m1', 'm3']\n");
}

/// Starts the minion m1, for which the program `shutdown` does nothing.
fn start_with_harmless_shutdown(fleet: &mut Fleet) {
    let folder = fleet.path("programs");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("shutdown");
    std::fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-minion"));
    command
        .arg("-c")
        .arg(fleet.minion_config("m1"))
        .env("PATH", path);
    let minion = Daemon::spawn(&mut command);
    minion.log.wait_for("subscribed", 1);
    fleet.minions.insert("m1".to_owned(), minion);
}

#[test]
fn a_machine_that_reboots_as_planned_is_not_down() {
    let mut fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    fleet.kill_master();
    fleet
        .master_options
        .push_str("durable_events: ['salt/presence/change']\n");
    fleet.start_master();
    assert_eq!(fleet.minions.remove("m1").unwrap().terminate(), Some(0));
    start_with_harmless_shutdown(&mut fleet);
    let raw = |fleet: &Fleet, function: &str| {
        let said = fleet.run("saline-run", &[function, "--out", "raw"]);
        said.expect(0).stdout
    };
    let reboot = |fleet: &Fleet, words: &[&str]| {
        let said = fleet.saline(&[&["m1"], words].concat()).expect(0);
        assert_eq!(said.stdout, "m1:\n    True\n");
    };
    reboot(&fleet, &["system.reboot"]);
    assert_eq!(fleet.minions.remove("m1").unwrap().terminate(), Some(0));
    fleet
        .master()
        .log
        .wait_for("minion m1 says goodbye: its machine reboots", 1);
    assert_eq!(
        raw(&fleet, "manage.status"),
        "{'up': ['m2'], 'down': [], 'planned': {'m1': 'rebooting (planned)'}}\n"
    );
    assert_eq!(raw(&fleet, "manage.down"), "[]\n");
    let events = fleet
        .run("saline-run", &["event.read", "--out", "json"])
        .expect(0);
    assert!(
        events.stdout.contains("\"m1\": \"reboot\""),
        "{}",
        events.stdout
    );

    // It is back, and leaves again after the plan was cancelled, or with one for later.
    start_with_harmless_shutdown(&mut fleet);
    assert_eq!(
        raw(&fleet, "manage.status"),
        "{'up': ['m1', 'm2'], 'down': []}\n"
    );
    reboot(&fleet, &["system.shutdown_abort"]);
    assert_eq!(fleet.minions.remove("m1").unwrap().terminate(), Some(0));
    assert_eq!(
        raw(&fleet, "manage.status"),
        "{'up': ['m2'], 'down': ['m1']}\n"
    );
    start_with_harmless_shutdown(&mut fleet);
    reboot(&fleet, &["system.shutdown", "at_time=30"]);
    assert_eq!(fleet.minions.remove("m1").unwrap().terminate(), Some(0));
    assert_eq!(raw(&fleet, "manage.down"), "['m1']\n");
}

#[test]
fn a_transport_holds_as_many_connections_as_its_section_says() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\ntcp: {connections: 1}\n");
    fleet.start_master();
    fleet
        .master()
        .log
        .wait_for("room for about 1 minions over tcp", 1);
    fleet.start_minion("first");
    fleet.minions["first"].log.wait_for("subscribed", 1);
    fleet.start_minion("second");
    fleet.minions["second"]
        .log
        .wait_for("the server holds as many connections as it may", 1);
    let present = |fleet: &Fleet| {
        let said = fleet.run("saline-run", &["manage.present", "--out", "json"]);
        serde_json::from_str::<serde_json::Value>(&said.expect(0).stdout).unwrap()
    };
    assert_eq!(present(&fleet), serde_json::json!(["first"]));
    assert_eq!(fleet.minions.get_mut("first").unwrap().terminate(), Some(0));
    fleet.minions["second"].log.wait_for("subscribed", 1);
    assert_eq!(present(&fleet), serde_json::json!(["second"]));
}
