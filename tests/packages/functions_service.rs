//! The functions of the modules `service` and `system`, with a systemd of their own on a copy of this machine.

use std::fs;

use serde_json::json;

use crate::called::{call, fails, install};
use crate::machine::Machine;

/// The units of the test.
const UNITS: [(&str, &str); 4] = [
    (
        "saline-good.service",
        "[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "saline-ends.service",
        "[Service]\nExecStart=/bin/sh -c 'echo no disk to work with >&2; exit 3'\n",
    ),
    (
        "saline-again.service",
        "[Service]\nRestart=always\nRestartSec=1h\nExecStart=/bin/sh -c 'exit 0'\n",
    ),
    (
        "saline-once.service",
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'exit 4'\n",
    ),
];

#[test]
fn services_are_started_watched_enabled_and_masked() {
    let machine = match Machine::boot() {
        Ok(machine) => machine,
        Err(why) => return println!("skipped: {why}"),
    };
    install(&machine);
    for (name, text) in UNITS {
        let folder = machine.root().join("etc/systemd/system");
        fs::write(folder.join(name), text).unwrap();
    }
    machine.run("systemctl", &["daemon-reload"]).expect(0);
    let yes = |words: &[&str]| assert_eq!(call(&machine, words), true, "{words:?}");
    let no = |words: &[&str]| assert_eq!(call(&machine, words), false, "{words:?}");

    no(&["service.status", "saline-good"]);
    yes(&["service.available", "saline-good"]);
    yes(&["service.missing", "saline-none"]);
    let told = call(&machine, &["service.start", "saline-good", "test=True"]);
    assert_eq!(
        told,
        json!({"saline-good.service": {"old": "inactive", "new": "active"}})
    );
    no(&["service.status", "saline-good"]);
    yes(&["service.start", "saline-good", "watch=1"]);
    yes(&["service.status", "saline-good.service"]);
    assert_eq!(
        call(&machine, &["service.start", "saline-good", "test=True"]),
        json!({})
    );
    let matching = call(&machine, &["service.status", "saline-[ge]*"]);
    assert_eq!(matching, json!({"saline-ends": false, "saline-good": true}));
    let running = call(&machine, &["service.get_running"]);
    assert!(
        running.as_array().unwrap().contains(&json!("saline-good")),
        "{running}"
    );
    let all = call(&machine, &["service.get_all"]);
    assert!(
        all.as_array().unwrap().contains(&json!("saline-ends")),
        "{all}"
    );
    let shown = call(&machine, &["service.show", "saline-good"]);
    assert_eq!(shown["Id"], "saline-good.service");
    let pid = shown["MainPID"].as_u64().unwrap();
    assert_eq!(shown["ExecStart"][0][0], "/bin/sleep");
    yes(&["service.reload", "saline-good"]);
    assert_eq!(
        call(&machine, &["service.show", "saline-good"])["MainPID"],
        pid
    );
    yes(&["service.restart", "saline-good", "watch=0"]);
    assert_ne!(
        call(&machine, &["service.show", "saline-good"])["MainPID"],
        pid
    );
    yes(&["service.stop", "saline-good"]);
    no(&["service.status", "saline-good"]);

    // A service that fails soon after its start is a failure, with the reason from its journal.
    let failed = fails(&machine, &["service.start", "saline-ends"]);
    assert_eq!(failed["result"], false);
    assert!(
        failed["journal"]
            .to_string()
            .contains("no disk to work with"),
        "{failed}"
    );
    let comment = failed["comment"].as_str().unwrap();
    assert!(
        comment.contains("failed") && comment.contains("exit-code"),
        "{comment}"
    );
    let again = fails(&machine, &["service.restart", "saline-again"]);
    assert!(
        again["comment"].as_str().unwrap().contains("auto-restart"),
        "{again}"
    );
    let once = fails(&machine, &["service.start", "saline-once"]);
    assert!(
        once["comment"].as_str().unwrap().contains("exit-code"),
        "{once}"
    );
    let unknown = fails(&machine, &["service.start", "saline-none"]);
    assert!(unknown.to_string().contains("not found"), "{unknown}");

    no(&["service.enabled", "saline-good"]);
    let told = call(&machine, &["service.enable", "saline-good", "test=True"]);
    assert_eq!(
        told,
        json!({"saline-good.service": {"old": "disabled", "new": "enabled"}})
    );
    yes(&["service.disabled", "saline-good"]);
    yes(&["service.enable", "saline-good"]);
    yes(&["service.enabled", "saline-good"]);
    let enabled = call(&machine, &["service.get_enabled"]);
    assert!(
        enabled.as_array().unwrap().contains(&json!("saline-good")),
        "{enabled}"
    );
    yes(&["service.disable", "saline-good"]);
    no(&["service.enabled", "saline-good"]);
    // The files of the test are where masks would be.
    yes(&["service.mask", "saline-absent"]);
    yes(&["service.masked", "saline-absent"]);
    fails(&machine, &["service.start", "saline-absent"]);
    yes(&["service.unmask", "saline-absent"]);
    no(&["service.masked", "saline-absent"]);

    // A shutdown is planned and cancelled.
    no(&["system.reboot_required"]);
    fs::write(machine.root().join("run/reboot-required"), "").unwrap();
    yes(&["system.reboot_required"]);
    let told = call(&machine, &["system.reboot", "at_time=600", "test=True"]);
    assert_eq!(told, json!({"action": "reboot", "at_time": "+600"}));
    let planned = machine.root().join("run/systemd/shutdown/scheduled");
    assert!(!planned.exists());
    yes(&["system.reboot", "at_time=600"]);
    assert!(
        fs::read_to_string(&planned)
            .unwrap()
            .contains("MODE=reboot")
    );
    yes(&["system.shutdown_abort"]);
    assert!(!planned.exists());

    // Without D-Bus, the answer says so.
    machine
        .run("systemctl", &["stop", "dbus.socket", "dbus.service"])
        .expect(0);
    let lost = fails(&machine, &["service.status", "saline-good"]);
    assert!(lost.to_string().contains("Is dbus installed"), "{lost}");
}
