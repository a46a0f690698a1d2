//! The daemons as services: the check of their configuration, their health, and what they tell the service manager.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use rustix::process::Signal;
use saline_testing::{CommandOutput, Daemon, Fleet, TEST_TIMEOUT};

fn master(fleet: &Fleet, option: &str) -> CommandOutput {
    fleet.run("saline-master", &[option])
}

pub(crate) fn minion(fleet: &Fleet, id: &str, option: &str) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-minion"));
    command.arg("-c").arg(fleet.minion_config(id)).arg(option);
    CommandOutput::from(command.output().unwrap())
}

#[test]
fn a_check_names_the_mistake_and_makes_no_keys() {
    let fleet = Fleet::new("zeromq", "");
    fleet.write_master_config();
    let checked = master(&fleet, "--check").expect(0);
    assert!(
        checked.stdout.ends_with(" is valid\n"),
        "{}",
        checked.stdout
    );
    assert!(!fleet.path("master/etc").exists() && !fleet.path("master/run").exists());
    let file = fleet.config().join("master");
    let text = std::fs::read_to_string(&file).unwrap();
    for (line, named) in [
        ("interfce: x\n", "master:8:1"),
        ("user: nobody-of-this-name\n", "no such user"),
    ] {
        std::fs::write(&file, format!("{text}{line}")).unwrap();
        let checked = master(&fleet, "--check").expect(1);
        assert!(checked.stderr.contains(named), "{}", checked.stderr);
        assert_eq!(checked.stderr.lines().count(), 1, "{}", checked.stderr);
    }
    std::fs::write(&file, text).unwrap();
}

#[test]
fn what_the_configuration_names_and_the_machine_does_not_have_is_told() {
    let fleet = Fleet::new("tcp", "");
    fleet.write_master_config();
    let file = fleet.config().join("master");
    let text = std::fs::read_to_string(&file).unwrap();
    let checked = master(&fleet, "--check").expect(0);
    assert_eq!(checked.stderr, "");
    let at = |name: &str| fleet.path(name).display().to_string();
    let options = format!(
        "file_roots: {{base: [{}]}}\npillar_roots: {{base: [{}]}}\nreturner.local.file: /nosuch/returns.json\n\
         ext_pillar: [{{cmd_json: 'TOKEN=hidden {} %s'}}]\n",
        at("files"),
        at("pillar"),
        at("facts"),
    );
    std::fs::write(&file, format!("{text}{options}")).unwrap();
    // A command may have a secret in it, which others must not read.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let assigned = fleet.config().join("minions.d");
    std::fs::create_dir(&assigned).unwrap();
    std::fs::write(assigned.join("roles.conf"), "m1: {roles: [web]}\n").unwrap();
    let checked = master(&fleet, "--check").expect(0);
    for line in [
        format!(
            "file_roots, base: the folder {} does not exist: make it",
            at("files")
        ),
        format!(
            "pillar_roots, base: the folder {} does not exist: make it",
            at("pillar")
        ),
        format!(
            "ext_pillar, cmd_json: the program {} does not exist: install it",
            at("facts")
        ),
        format!("since there is no folder {}: make it", at("master/nosuch")),
        format!(
            "{} is not read, since its name does not end with .yaml: rename it to {}",
            assigned.join("roles.conf").display(),
            assigned.join("roles.yaml").display()
        ),
    ] {
        assert!(checked.stderr.contains(&line), "{line}\n{}", checked.stderr);
    }
    assert_eq!(checked.stderr.lines().count(), 5, "{}", checked.stderr);
    assert!(!checked.stderr.contains("hidden"), "{}", checked.stderr);
    for folder in ["files", "pillar", "master/nosuch"] {
        std::fs::create_dir_all(fleet.path(folder)).unwrap();
    }
    std::fs::write(fleet.path("facts"), "#!/bin/sh\n").unwrap();
    let only_runnable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(fleet.path("facts"), only_runnable).unwrap();
    std::fs::rename(assigned.join("roles.conf"), assigned.join("roles.yaml")).unwrap();
    let checked = master(&fleet, "--check").expect(0);
    assert_eq!(checked.stderr, "");
}

#[test]
fn a_command_of_the_pillar_finds_its_program_in_the_folders_that_the_check_looks_in() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let programs = fleet.path("programs");
    std::fs::create_dir(&programs).unwrap();
    let program = programs.join("saline-test-facts");
    std::fs::write(&program, "#!/bin/sh\necho '{\"a\": 1}'\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let absent = "ext_pillar, cmd_json: there is no program saline-test-facts in /usr/local/sbin:";
    // Whoever checks may have other folders than whoever starts.
    let check = |fleet: &Fleet, path: &std::path::Path| {
        fleet.write_master_config();
        let mut command = fleet.master_command();
        command.arg("--check").env("PATH", path);
        CommandOutput::from(command.output().unwrap())
            .expect(0)
            .stderr
    };
    fleet.master_options += "ext_pillar: [{cmd_json: saline-test-facts}]\n";
    for path in [programs.as_path(), "/nosuch".as_ref()] {
        let told = check(&fleet, path);
        assert!(told.contains(absent), "{told}");
    }
    let mut command = fleet.master_command();
    command.env("PATH", &programs);
    fleet.start_master_by(command);
    fleet.master().log.wait_for(absent, 1);
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let shown = fleet.run("saline-run", &["pillar.show_pillar", "m1", "unmask=True"]);
    let shown = shown.stdout + &shown.stderr;
    assert!(shown.contains("saline-test-facts: not found"), "{shown}");
    fleet.kill_master();
    // What both find, and what says by itself where it is.
    fleet.master_options = format!(
        "auto_accept: True\next_pillar:\n- cmd_json: env cat /dev/null && echo {{}}\n- cmd_json: PATH={} saline-test-facts\n",
        programs.display()
    );
    let told = check(&fleet, "/nosuch".as_ref());
    assert!(!told.contains("there is no program"), "{told}");
    let mut command = fleet.master_command();
    command.env("PATH", "/nosuch");
    fleet.start_master_by(command);
    let shown = fleet.run("saline-run", &["pillar.show_pillar", "m1", "unmask=True"]);
    let shown = shown.expect(0);
    assert!(shown.stdout.contains("a:\n    1"), "{}", shown.stdout);
}

#[test]
fn a_check_reads_the_keys_beside_a_running_daemon() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    master(&fleet, "--check").expect(0);
    minion(&fleet, "m1", "--check").expect(0);
    for key in ["master/etc/saline/pki/master", "m1/etc/saline/pki/minion"] {
        std::fs::write(fleet.path(key).join("identity.key"), "no key").unwrap();
    }
    let checked = master(&fleet, "--check").expect(1);
    assert!(
        checked.stderr.contains("identity.key"),
        "{}",
        checked.stderr
    );
    let checked = minion(&fleet, "m1", "--check").expect(1);
    assert!(
        checked.stderr.contains("identity.key"),
        "{}",
        checked.stderr
    );
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

#[test]
fn a_check_reads_every_key_of_a_master_and_looks_at_the_place_of_its_pid_file() {
    let fleet = Fleet::with_minions("tcp", &[]);
    let pki = fleet.path("master/etc/saline/pki/master");
    for file in ["noise.key", "identity.successors", "identity.next.key"] {
        let path = pki.join(file);
        let before = std::fs::read(&path).ok();
        std::fs::write(&path, "no key").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let checked = master(&fleet, "--check").expect(1);
        assert!(checked.stderr.contains(file), "{}", checked.stderr);
        match before {
            Some(before) => std::fs::write(&path, before).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
    }
    // Not even root can create anything below a file.
    let below = fleet.config().join("master/pid").display().to_string();
    let checked = fleet.run("saline-master", &["--check", "--pid-file", &below]);
    let checked = checked.expect(1);
    assert!(
        checked.stderr.contains("cannot write the pid file /"),
        "{}",
        checked.stderr
    );
    master(&fleet, "--check").expect(0);
}

#[test]
fn health_tells_who_is_there_and_what_is_wrong() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let health = |output: CommandOutput| -> serde_json::Value {
        serde_json::from_str(&output.stdout).unwrap()
    };
    let told = health(master(&fleet, "--health").expect(0));
    assert_eq!(told["healthy"], true);
    assert_eq!(told["pid"], fleet.master().pid());
    assert_eq!(
        (&told["minions_present"], &told["keys_accepted"]),
        (&1.into(), &1.into())
    );
    assert!(told["store_bytes"].as_u64() > Some(0), "{told}");
    let told = health(minion(&fleet, "m1", "--health").expect(0));
    assert_eq!(
        (&told["id"], &told["jobs_running"]),
        (&"m1".into(), &0.into())
    );

    fleet.kill_master();
    let without = master(&fleet, "--health").expect(2);
    assert!(
        without.stderr.contains("the daemon does not run"),
        "{}",
        without.stderr
    );
    fleet.minions["m1"].log.wait_for("is down", 1);
    let output = minion(&fleet, "m1", "--health").expect(1);
    assert!(
        output
            .stderr
            .contains("its connection to the master at tcp://127.0.0.1:"),
        "{}",
        output.stderr
    );
    assert_eq!(health(output)["healthy"], false);
}

#[test]
fn a_daemon_that_has_hung_is_told_from_one_that_does_not_run() {
    let fleet = Fleet::with_minions("tcp", &[]);
    fleet.master().signal(Signal::STOP);
    let asked = master(&fleet, "--health").expect(2);
    fleet.master().signal(Signal::CONT);
    assert!(
        asked.stderr.contains("the daemon has hung"),
        "{}",
        asked.stderr
    );
    master(&fleet, "--health").expect(0);
}

/// A socket as a service manager has it.
struct Manager(UnixDatagram);

impl Manager {
    fn listen(fleet: &Fleet) -> (Self, std::path::PathBuf) {
        let path = fleet.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        (Self(socket), path)
    }

    /// Waits for what the daemon tells beside that it is alive.
    fn next(&self) -> String {
        loop {
            let told = self.any();
            if told != "WATCHDOG=1" {
                return told;
            }
        }
    }

    fn any(&self) -> String {
        let mut buffer = [0; 4096];
        let read = self.0.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..read]).trim().to_owned()
    }
}

/// Starts a daemon under a service manager, and follows it until it has ended.
fn is_followed(fleet: &Fleet, mut command: Command) {
    let (manager, path) = Manager::listen(fleet);
    command
        .env("NOTIFY_SOCKET", path)
        .env("WATCHDOG_USEC", "400000");
    let mut daemon = Daemon::spawn(&mut command);
    assert_eq!(manager.next(), "READY=1", "{}", daemon.log.text());
    for _ in 0..2 {
        assert_eq!(manager.any(), "WATCHDOG=1");
    }
    daemon.signal(Signal::HUP);
    let reloading = manager.next();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(manager.next(), "READY=1");
    daemon.signal(Signal::TERM);
    assert_eq!(manager.next(), "STOPPING=1");
    assert_eq!(daemon.wait(), Some(0));
}

#[test]
fn the_service_manager_follows_a_master() {
    let fleet = Fleet::new("tcp", "");
    fleet.write_master_config();
    is_followed(&fleet, fleet.master_command());
}

#[test]
fn the_service_manager_follows_a_minion() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    assert_eq!(fleet.minions.get_mut("m1").unwrap().terminate(), Some(0));
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-minion"));
    command.arg("-c").arg(fleet.minion_config("m1"));
    is_followed(&fleet, command);
}

/// Runs a program whose standard error output is the journal, and returns what the journal gets.
fn said_to_journal(fleet: &Fleet, mut command: Command) -> String {
    let path = fleet.path("journal");
    let journal = File::create(&path).unwrap();
    let found = journal.metadata().unwrap();
    // A service knows its journal by device and inode, whatever it is.
    let stream = format!("{}:{}", found.dev(), found.ino());
    command.env("JOURNAL_STREAM", stream).stderr(journal);
    command.output().unwrap();
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_journal_gets_the_priority_of_what_keeps_a_daemon_from_starting() {
    let wrong = "schedule: {a: {function: manage.upp, hours: 1}}\n";
    let mut fleet = Fleet::new("tcp", &format!("auto_accept: True\n{wrong}"));
    fleet.write_master_config();
    let mut check = fleet.master_command();
    check.arg("--check");
    let said = said_to_journal(&fleet, check);
    assert!(
        said.starts_with("<4>saline-master: job \"a\" of the schedule: "),
        "{said}"
    );
    fleet.start_master();
    let second = said_to_journal(&fleet, fleet.master_command());
    assert!(second.starts_with("<3>saline-master: "), "{second}");
    fleet.start_minion("m1");
    // The first minion has locked its folder by then. Without that the second one could lock it, and would not end.
    fleet.minions["m1"]
        .log
        .wait_for("the master has sent the pillar", 1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-minion"));
    command.arg("-c").arg(fleet.minion_config("m1"));
    let second = said_to_journal(&fleet, command);
    assert!(second.starts_with("<3>saline-minion: "), "{second}");
}
