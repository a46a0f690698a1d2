//! The units of the packages, under a systemd of their own.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;

use saline_testing::{CommandOutput, Log, Process};

use crate::built::{PACKAGES, Packages};
use crate::machine::Machine;

const MINION: &str = "id: m1\nmaster: 127.0.0.1\nacceptance_wait_time: 0.2\n";

/// Where the API listens.
const LISTENER: &str = "{port: 8000, host: 127.0.0.1}";

/// Follows the lines of the units in the journal.
fn journal(machine: &Machine) -> (Process, Arc<Log>) {
    let units = [
        "-f",
        "-n",
        "all",
        "-o",
        "cat",
        "-u",
        "saline-master",
        "-u",
        "saline-minion",
        "-u",
        "saline-api",
    ];
    let mut follow = machine.command("journalctl", &units);
    // With its own group, so that nothing of it is left.
    let mut child = follow
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let lines = child.stdout.take().unwrap();
    (Process::from(child), Log::follow(lines))
}

#[test]
fn units_start_reload_upgrade_and_are_restarted_by_the_watchdog() {
    let (packages, machine) = match (Packages::build(), Machine::boot()) {
        (Ok(packages), Ok(machine)) => (packages, machine),
        (Err(why), _) | (_, Err(why)) => return println!("skipped: {why}"),
    };
    let path = |inside: &str| machine.root().join(inside);
    let systemctl = |arguments: &[&str]| machine.run("systemctl", arguments);
    let pid = |unit: &str| {
        let shown = systemctl(&["show", "--property=MainPID", "--value", unit]).expect(0);
        shown.stdout.trim().parse::<u32>().unwrap()
    };
    fs::create_dir_all(path("etc/saline/minion.d")).unwrap();
    fs::write(path("etc/saline/minion.d/local.conf"), MINION).unwrap();
    let first = packages.copy_to(&machine, "first");
    machine
        .run("dpkg", &["--install", "--recursive", &first])
        .expect(0);
    for unit in ["saline-master", "saline-minion"] {
        systemctl(&["is-active", unit]).expect(0);
    }
    let (mut follower, log) = journal(&machine);
    log.wait_for("the key of minion m1 ", 1);
    let user = machine
        .run("ps", &["-o", "user=", "-C", "saline-master"])
        .expect(0);
    assert_eq!(user.stdout.trim(), "saline");
    machine.run("saline-key", &["-y", "-a", "m1"]).expect(0);
    // Nothing of the minion's unit restricts commands.
    let asked = "ulimit -n; grep NoNewPrivs /proc/self/status; mount -t tmpfs none /mnt && umount /mnt && echo mounted";
    let ran = machine.run("saline", &["m1", "cmd.run", asked]).expect(0);
    assert_eq!(
        ran.stdout,
        "m1:\n    1024\n    NoNewPrivs:\t0\n    mounted\n"
    );

    // A reload says what is wrong before anything is told to the daemon.
    let master = path("etc/saline/master.d/local.conf");
    fs::write(&master, "job_ttl: 61\n").unwrap();
    systemctl(&["reload", "saline-master", "saline-minion"]).expect(0);
    log.wait_for("changed: job_ttl", 1);
    fs::write(&master, "job_tll: 62\n").unwrap();
    systemctl(&["reload", "saline-master"]).expect(1);
    log.wait_for("did you mean \"job_ttl\"?", 1);
    fs::remove_file(&master).unwrap();
    machine.run("saline", &["m1", "test.ping"]).expect(0);

    // Beside the master the API has the master's user.
    let api_is_well = || {
        let user = machine.run("ps", &["-o", "user=", "-C", "saline-api"]);
        assert_eq!(user.stdout.trim(), "saline");
        machine.run("saline-api", &["--health"]).expect(0);
    };
    assert_ne!(systemctl(&["is-enabled", "saline-api"]).code, Some(0));
    let beside = path("etc/saline/master.d/api.conf");
    fs::write(&beside, format!("rest_cherrypy: {LISTENER}\n")).unwrap();
    systemctl(&["start", "saline-api"]).expect(0);
    api_is_well();
    systemctl(&["stop", "saline-api"]).expect(0);
    fs::remove_file(&beside).unwrap();

    // With a file of its own it makes its key, and is let in.
    let sample = path("usr/share/doc/saline-api/examples/api");
    fs::copy(sample, path("etc/saline/api")).unwrap();
    let own = format!("id: web\nmaster: 127.0.0.1\nrest_cherrypy: {LISTENER}\n");
    fs::write(path("etc/saline/api.d/local.conf"), own).unwrap();
    systemctl(&["start", "saline-api"]).expect(0);
    let told = log.wait_for("--accept-operator ", 1);
    let (_, told) = told.split_once("--accept-operator ").unwrap();
    let fingerprint = told.split_whitespace().next().unwrap();
    let accept = ["--accept-operator", fingerprint, "--api"];
    machine.run("saline-key", &accept).expect(0);
    api_is_well();
    systemctl(&["reload", "saline-api"]).expect(0);
    systemctl(&["restart", "saline-api"]).expect(0);
    api_is_well();

    // A job that runs goes on while the packages are upgraded.
    machine.run("mkfifo", &["/end"]).expect(0);
    let mut job = machine.command("saline", &["-t", "30", "m1", "cmd.run", "cat /end"]);
    let job = job
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Opens when the command has.
    let mut end = OpenOptions::new().write(true).open(path("end")).unwrap();
    let (before, minion) = (pid("saline-master"), pid("saline-minion"));
    let second = packages.copy_to(&machine, "second");
    // A job that upgrades its own minion, and the master beside it, outlives both, and returns what it installed.
    let debs = PACKAGES.map(|package| format!("{second}/{package}.deb"));
    let sources = format!("sources=[{}]", debs.join(", "));
    let words = ["-t", "60", "m1", "pkg.install", &sources, "--out", "json"];
    let upgraded = machine.run("saline", &words).expect(0);
    let upgraded: serde_json::Value = serde_json::from_str(&upgraded.stdout).unwrap();
    let versions = &upgraded["m1"]["saline-minion"];
    let ends = |which: &str, end: &str| versions[which].as_str().unwrap().ends_with(end);
    assert!(ends("old", "-1") && ends("new", "-2"), "{upgraded}");
    assert_ne!(pid("saline-master"), before);
    assert_ne!(pid("saline-minion"), minion);
    end.write_all(b"it went on\n").unwrap();
    drop(end);
    let job = CommandOutput::from(job.wait_with_output().unwrap()).expect(0);
    assert_eq!(job.stdout, "m1:\n    it went on\n");

    // A daemon that gets no turn any more is ended and started again.
    for unit in ["saline-master", "saline-minion"] {
        let folder = path(&format!("run/systemd/system/{unit}.service.d"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(
            folder.join("soon.conf"),
            "[Service]\nWatchdogSec=1\nRestartSec=0\n",
        )
        .unwrap();
        systemctl(&["daemon-reload"]).expect(0);
        systemctl(&["restart", unit]).expect(0);
        systemctl(&["kill", "--signal=STOP", unit]).expect(0);
        log.wait_for(&format!("{unit}.service: Watchdog timeout"), 1);
        log.wait_for(&format!("{unit}.service: Scheduled restart job"), 1);
        // Waits for the start.
        systemctl(&["start", unit]).expect(0);
        machine.run(unit, &["--check"]).expect(0);
    }
    machine.run("saline-master", &["--health"]).expect(0);
    api_is_well();
    systemctl(&["stop", "saline-master", "saline-minion"]).expect(0);
    machine.run("saline-master", &["--health"]).expect(2);
    follower.kill();
}
