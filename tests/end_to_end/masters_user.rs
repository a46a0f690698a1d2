//! A master that runs as a user of its own, and root who gives it orders.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use saline_testing::{Daemon, Fleet, Programs};

/// The user and the group `nobody`.
pub const NOBODY: u32 = 65_534;

/// Starts the master as `nobody`, from a copy of its program, since that user may not reach the original.
fn start_master(fleet: &mut Fleet, program: &PathBuf) -> u16 {
    let mut command = Command::new(program);
    command
        .arg("-c")
        .arg(fleet.config())
        .uid(NOBODY)
        .gid(NOBODY);
    let master = Daemon::spawn(&mut command);
    master.log.wait_for(" is up", 1);
    let line = master.log.wait_for("requests on tcp://127.0.0.1:", 1);
    fleet.master = Some(master);
    line.rsplit(':').next().unwrap().trim().parse().unwrap()
}

/// Makes the folder of a master that runs as another user, who may read its configuration. Returns a copy of the program that this
/// user may run.
fn give_to_nobody(fleet: &Fleet) -> PathBuf {
    fs::set_permissions(fleet.root(), fs::Permissions::from_mode(0o755)).unwrap();
    fleet.write_master_config();
    let folder = fleet.path("master");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let program = fleet.path("saline-master");
    Programs::copy(env!("CARGO_BIN_EXE_saline-master"), &program).unwrap();
    program
}

#[test]
fn root_gives_orders_to_a_master_that_runs_as_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let mut fleet = Fleet::new("tcp", "");
    let program = give_to_nobody(&fleet);
    let port = start_master(&mut fleet, &program);
    fleet.use_port(port);
    for id in ["m1", "m2"] {
        fleet.start_minion(id);
        fleet
            .master()
            .log
            .wait_for(&format!("the key of minion {id} "), 1);
    }

    // Through the running master.
    fleet.run("saline-key", &["-y", "-a", "m1"]).expect(0);
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let pinged = fleet.saline(&["*", "test.ping"]).expect(0);
    assert_eq!(pinged.stdout, "m1:\n    True\n");

    // Without it: what is written belongs to the master's user.
    fleet.master.take().unwrap().terminate();
    fleet.run("saline-key", &["-y", "-a", "m2"]).expect(0);
    let accepted = fleet.path("master/etc/saline/pki/master/minions");
    for id in ["m1", "m2"] {
        assert_eq!(
            fs::metadata(accepted.join(id)).unwrap().uid(),
            NOBODY,
            "{id}"
        );
    }
    fleet.write_master_config();
    start_master(&mut fleet, &program);
    fleet.minions["m1"].log.wait_for("subscribed", 2);
    fleet.minions["m2"].log.wait_for("subscribed", 1);

    // A file that the master may not read stops nothing, and can be deleted.
    let foreign = accepted.join("m3");
    fs::copy(accepted.join("m1"), &foreign).unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o600)).unwrap();
    fleet.saline(&["m1", "test.ping"]).expect(0);
    let listed = fleet.run("saline-key", &["-L"]).expect(0);
    assert!(listed.stdout.contains("m1\nm2\nm3\n"), "{}", listed.stdout);
    assert!(
        listed
            .stderr
            .contains("minions/m3 cannot be read by the master"),
        "{}",
        listed.stderr
    );
    fleet.run("saline-key", &["-y", "-d", "m3"]).expect(0);
    assert!(!foreign.exists());
}

#[test]
fn authorities_that_the_masters_user_may_not_read_are_told_with_what_to_do() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let mut fleet = Fleet::new("tcp", "event_return: http\n");
    let authorities = fleet.path("authorities.pem");
    fs::write(&authorities, "").unwrap();
    fs::set_permissions(&authorities, fs::Permissions::from_mode(0o600)).unwrap();
    let authorities = authorities.display().to_string();
    // They are read once somebody is there who could show a certificate.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    fleet.master_options += &format!(
        "returner.http.url: https://127.0.0.1:{port}/\nreturner.http.sslrootcert: {authorities}\n"
    );
    let program = give_to_nobody(&fleet);
    start_master(&mut fleet, &program);
    fleet.run("saline-run", &["event.send", "my/x"]).expect(0);
    let told = format!(
        "(sslrootcert) cannot be read from {authorities}: the user that the master runs as may not; let that user read the file"
    );
    fleet.master().log.wait_for(&told, 1);
}

/// Returns a line of `/proc/PID/status`, without its name.
pub fn status(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_master_that_root_starts_goes_on_as_its_user_without_any_right_of_roots() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let fleet = Fleet::new("tcp", "user: nobody\nauto_accept: True\n");
    fs::set_permissions(fleet.root(), fs::Permissions::from_mode(0o755)).unwrap();
    fleet.write_master_config();
    let file = fleet.config().join("master");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();

    let checked = fleet.run("saline-master", &["--check"]).expect(0);
    assert!(
        checked.stderr.contains("SIGHUP will change nothing"),
        "{}",
        checked.stderr
    );
    for made in ["etc", "var", "run"] {
        assert!(!fleet.path("master").join(made).exists(), "{made}");
    }
    // The master would not be root any more when it binds its ports.
    let file = fleet.config().join("master");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}tcp: {{ret_port: 7}}\n")).unwrap();
    let checked = fleet.run("saline-master", &["--check"]).expect(1);
    assert!(
        checked.stderr.contains("cannot bind port 7: "),
        "{}",
        checked.stderr
    );
    fs::write(&file, text).unwrap();

    let mut master = Daemon::spawn(&mut fleet.master_command());
    master.log.wait_for(" is up", 1);
    master.log.wait_for("SIGHUP will change nothing", 1);
    for set in ["Uid", "Gid"] {
        assert_eq!(
            status(master.pid(), set),
            vec![NOBODY.to_string(); 4].join(" "),
            "{set}"
        );
    }
    assert_eq!(status(master.pid(), "Groups"), NOBODY.to_string());
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status(master.pid(), set), "0000000000000000", "{set}");
    }
    for made in [
        "etc/saline/pki/master/identity.key",
        "var/lib/saline/master/jobs",
        "run/saline/master/health.ipc",
    ] {
        let made = fleet.path("master").join(made);
        assert_eq!(
            fs::metadata(&made).unwrap().uid(),
            NOBODY,
            "{}",
            made.display()
        );
    }
    fleet.run("saline-run", &["audit.tail", "1"]).expect(0);
    fleet.run("saline-master", &["--health"]).expect(0);
    assert_eq!(master.terminate(), Some(0));

    // What root owns is named, with what to do.
    let state = fleet.path("master/var/lib/saline/master");
    chown(&state, Some(0), Some(0)).unwrap();
    let mut refused = Daemon::spawn(&mut fleet.master_command());
    assert_eq!(refused.wait(), Some(1));
    let line = refused.log.wait_for("chown -R nobody: ", 1);
    assert!(
        line.trim().ends_with("master/var/lib/saline/master"),
        "{line}"
    );
}
