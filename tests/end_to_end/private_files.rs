//! What the daemons write is for their own user alone, and no secret is in what they log or tell.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use saline_testing::{Fleet, TEST_TIMEOUT};

saline_testing::over_each_transport!(every_file_is_private);

/// Returns every file and folder in `folder` and below with its mode.
fn everything(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let found = entry.metadata().unwrap();
        all.push((entry.path(), found.permissions().mode() & 0o7777));
        if found.is_dir() {
            all.extend(everything(&entry.path()));
        }
    }
    all
}

fn every_file_is_private(transport: &'static str) {
    let options = "auto_accept: True\npidfile: /run/saline/master/pid\n";
    let mut fleet = Fleet::new(transport, options);
    fleet.start_master();
    fleet.start_minion_with("m1", "pidfile: /run/saline/minion/pid\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let begun = fleet.path("begun");
    let line = format!("touch {}; exec sleep 600", begun.display());
    fleet.saline(&["m1", "cmd.run", &line, "--async"]).expect(0);
    fleet.run("saline-run", &["store.backup"]).expect(0);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !begun.exists() {
        assert!(Instant::now() < deadline, "the command does not begin");
        std::thread::yield_now();
    }
    let mut names = Vec::new();
    for root in ["master", "m1"] {
        for (path, mode) in everything(&fleet.path(root)) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // Public keys are for everybody, as far as the folder lets them.
            let public = ["identity.pub", "master.pub"].contains(&name.as_str());
            // The daemons of a machine, and users who are named in `publisher_acl` later, enter the folders above their own.
            let above = [
                "etc/saline/pki",
                "var/cache/saline",
                "var/lib/saline",
                "run/saline",
            ];
            let root = fleet.path(root);
            let mut above = above.iter().flat_map(|above| Path::new(above).ancestors());
            let entered = above.any(|above| root.join(above) == path);
            let others = match (public, entered) {
                (true, _) => 0o022,
                (_, true) => 0o066,
                _ => 0o077,
            };
            assert_eq!(mode & others, 0, "{} has mode {mode:o}", path.display());
            names.push(name);
        }
    }
    for name in [
        "identity.key",
        "noise.key",
        ".root_key",
        "pid",
        "minions.sqlite",
        "grains.sqlite",
        "reserve",
        "backups",
        "jobs",
        "job",
        "control",
    ] {
        assert!(
            names.iter().any(|found| found == name),
            "no {name} in {names:?}"
        );
    }
}

#[test]
fn no_secret_is_logged_or_told() {
    let canary = "canary-5bb1f0";
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let mut listener = fleet
        .command("saline-run", &["state.event"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let errors = saline_testing::Log::follow(listener.stderr.take().unwrap());
    let events = saline_testing::Log::follow(listener.stdout.take().unwrap());
    while events.text().is_empty() {
        fleet.saline(&["m1", "test.ping"]).expect(0);
    }
    // A function that exists and one that does not, a command that fails, and named arguments.
    fleet.saline(&["m1", "test.echo", canary]).expect(0);
    fleet.saline(&["m1", "nosuch.function", canary]).expect(1);
    let failing = format!("echo {canary} >&2; exit 3");
    fleet.saline(&["m1", "cmd.run", &failing]).expect(1);
    let option = format!("password={canary}");
    fleet.saline(&["m1", "test.arg", &option]).expect(0);
    events.wait_for("password", 2);
    listener.kill().unwrap();
    listener.wait().unwrap();
    let minion = fleet.minions.remove("m1").unwrap();
    let master = fleet.master.take().unwrap();
    // The arguments of a job are in its events. In no log they are, though the level is one below the
    // default's.
    for (who, log) in [("master", &master.log), ("minion", &minion.log)] {
        assert!(!log.text().contains(canary), "{who}: {}", log.text());
    }
    assert_eq!(errors.text(), "");
    assert!(events.text().contains(canary), "{}", events.text());

    let mut keys = 0;
    for root in ["master", "m1"] {
        for (path, _) in everything(&fleet.path(root)) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if ![".root_key", "identity.key", "noise.key"].contains(&name) {
                continue;
            }
            keys += 1;
            let pem = std::fs::read_to_string(&path).unwrap();
            // Behind the prefix that all keys of a kind share.
            let body = pem.lines().nth(1).unwrap();
            let secret = &body[body.len() - 40..];
            for (who, log) in [
                ("the bus", &events),
                ("master", &master.log),
                ("minion", &minion.log),
            ] {
                assert!(
                    !log.text().contains(secret),
                    "{who} tells {}",
                    path.display()
                );
            }
        }
    }
    assert_eq!(keys, 5);
}
