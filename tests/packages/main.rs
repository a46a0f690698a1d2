//! The packages for Debian: built, installed, upgraded while a job runs, and purged, on a copy of this machine that only the
//! test sees; and the functions of a minion that change packages and services, on such a copy. Each is skipped, with the
//! reason, where that cannot be done: without root, dpkg or cargo-deb.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod built;
mod called;
mod functions_pkg;
mod functions_service;
mod machine;
mod services;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use saline_testing::Daemon;

use built::Packages;
use machine::Machine;

/// The options that the test gives a machine of its own.
const MINION: &str = "id: m1\nmaster: 127.0.0.1\nacceptance_wait_time: 0.2\n";

fn start(machine: &Machine, program: &str, line: &str) -> Daemon {
    let daemon = Daemon::spawn(&mut machine.command(program, &["-l", "info"]));
    daemon.log.wait_for(line, 1);
    daemon
}

#[test]
fn packages_are_installed_upgraded_while_a_job_runs_and_purged() {
    let (packages, machine) = match (Packages::build(), Machine::start()) {
        (Ok(packages), Ok(machine)) => (packages, machine),
        (Err(why), _) | (_, Err(why)) => return println!("skipped: {why}"),
    };
    let path = |inside: &str| machine.root().join(inside);

    // A new machine.
    let first = packages.copy_to(&machine, "first");
    machine
        .run("dpkg", &["--install", "--recursive", &first])
        .expect(0);
    for (program, file) in [("saline-master", "master"), ("saline-minion", "minion")] {
        let checked = machine.run(program, &["--check"]).expect(0);
        assert_eq!(checked.stderr, "", "{program}");
        let sample = fs::read(built::source(&format!("packaging/etc/{file}"))).unwrap();
        assert_eq!(
            fs::read(path(&format!("etc/saline/{file}"))).unwrap(),
            sample
        );
        let wanted = format!("etc/systemd/system/multi-user.target.wants/{program}.service");
        assert!(
            path(&wanted).symlink_metadata().is_ok(),
            "{program} is enabled"
        );
        machine
            .run(
                "systemd-analyze",
                &["verify", "--man=no", &format!("{program}.service")],
            )
            .expect(0);
    }
    // The API is started by who has said where it listens, and that its master is on another host.
    let wanted = "etc/systemd/system/multi-user.target.wants/saline-api.service";
    assert!(path(wanted).symlink_metadata().is_err());
    let verified = ["verify", "--man=no", "saline-api.service"];
    machine.run("systemd-analyze", &verified).expect(0);
    assert!(!path("etc/saline/api").exists());
    let sample = path("usr/share/doc/saline-api/examples/api");
    fs::copy(sample, path("etc/saline/api")).unwrap();
    let checked = machine.run("saline-api", &["--check"]).expect(1);
    assert!(
        checked.stderr.contains("rest_cherrypy is not set"),
        "{checked:?}"
    );
    let own = "id: web\nmaster: 127.0.0.1\nrest_cherrypy: {port: 8000, host: 127.0.0.1}\n";
    fs::write(path("etc/saline/api.d/local.conf"), own).unwrap();
    let checked = machine.run("saline-api", &["--check"]).expect(0);
    assert_eq!(checked.stderr, "");
    fs::write(path("etc/saline/minion.d/local.conf"), MINION).unwrap();
    let mut master = start(&machine, "/usr/bin/saline-master", " is up");
    let mut minion = start(
        &machine,
        "/usr/bin/saline-minion",
        "its key's fingerprint is",
    );
    master.log.wait_for("the key of minion m1 ", 1);
    machine.run("saline-key", &["-y", "-a", "m1"]).expect(0);
    minion.log.wait_for("subscribed", 1);
    let mut api = start(&machine, "/usr/bin/saline-api", "--accept-operator ");
    machine.run("saline", &["*", "test.ping"]).expect(0);
    let key = path("etc/saline/pki/master/identity.key");
    let owner = fs::metadata(&key).unwrap().uid();
    assert_ne!(owner, 0, "the packaged master runs as its own user");
    let key_of_api = path("etc/saline/pki/api/identity.key");
    assert_eq!(fs::metadata(&key_of_api).unwrap().uid(), owner);
    assert_eq!(
        fs::metadata(path("var/lib/saline/master/jobs"))
            .unwrap()
            .uid(),
        owner
    );

    // An upgrade while a command runs: changed files of the configuration stay, the job returns.
    let changed = fs::read_to_string(path("etc/saline/master")).unwrap() + "\njob_ttl: 61\n";
    fs::write(path("etc/saline/master"), &changed).unwrap();
    machine.run("mkfifo", &["/end"]).expect(0);
    let mut job = machine.command("saline", &["-t", "30", "m1", "cmd.run", "cat /end"]);
    let job = job
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    minion.log.wait_for("cmd.run", 1);
    let second = packages.copy_to(&machine, "second");
    machine
        .run("dpkg", &["--install", "--recursive", &second])
        .expect(0);
    for package in built::PACKAGES {
        let asked = ["--show", "--showformat=${Status} ${Version}", package];
        let shown = machine.run("dpkg-query", &asked).expect(0).stdout;
        assert!(
            shown.starts_with("install ok installed ") && shown.ends_with("-2"),
            "{shown}"
        );
    }
    assert_eq!(
        fs::read_to_string(path("etc/saline/master")).unwrap(),
        changed
    );
    // As the package does where systemd runs.
    assert_eq!(master.terminate(), Some(0));
    master = start(&machine, "/usr/bin/saline-master", " is up");
    minion.log.wait_for("subscribed", 2);
    fs::write(path("end"), "it went on\n").unwrap();
    let job = saline_testing::CommandOutput::from(job.wait_with_output().unwrap()).expect(0);
    assert_eq!(job.stdout, "m1:\n    it went on\n");
    assert_eq!(minion.terminate(), Some(0));
    minion = start(&machine, "/usr/bin/saline-minion", "subscribed");
    machine.run("saline", &["m1", "test.ping"]).expect(0);
    assert_eq!((minion.terminate(), master.terminate()), (Some(0), Some(0)));
    assert_eq!(api.terminate(), Some(0));

    // Removed: what an operator wrote stays. Purged: keys stay, unless they are named.
    machine
        .run("dpkg", &["--remove", "saline-master", "saline-minion"])
        .expect(0);
    assert!(path("etc/saline/master").exists() && path("var/lib/saline/minion/spool.log").exists());
    assert!(!path("usr/bin/saline-master").exists() && !path("usr/bin/saline-minion").exists());
    let purged = machine.run("dpkg", &["--purge", "saline-master"]).expect(0);
    assert!(
        purged
            .stdout
            .contains("The keys in /etc/saline/pki/master stay."),
        "{}",
        purged.stdout
    );
    assert!(key.exists() && path("etc/saline/pki/master/minions/m1").exists());
    assert!(!path("var/lib/saline/master").exists() && !path("etc/saline/master").exists());
    let purged = machine.run("dpkg", &["--purge", "saline-api"]).expect(0);
    assert!(
        purged
            .stdout
            .contains("The key in /etc/saline/pki/api stays."),
        "{}",
        purged.stdout
    );
    assert!(key_of_api.exists() && !path("etc/saline/api").exists());
    let mut purge = machine.command("dpkg", &["--purge", "saline-minion", "saline-common"]);
    let purged = purge.env("SALINE_PURGE_KEYS", "minion").output().unwrap();
    saline_testing::CommandOutput::from(purged).expect(0);
    assert!(!path("etc/saline/pki/minion").exists() && !path("var/lib/saline/minion").exists());
    assert!(!path("usr/bin/saline-exec").exists() && !path("usr/bin/saline-render").exists());
    assert!(key.exists(), "the keys of the other package are not named");
}
