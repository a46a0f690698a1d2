//! Keys: accepted, rejected, deleted, denied; and masters that are not the trusted one.

use saline_testing::Fleet;

saline_testing::over_each_transport!(
    a_rejected_key_waits_and_a_deleted_one_starts_again,
    deleting_an_accepted_key_ends_its_session_at_once,
    another_key_under_the_same_id_is_denied,
    rejecting_the_key_of_an_impostor_keeps_the_good_minion,
    keys_that_were_all_removed_by_hand_are_revoked_by_deleting_all,
    a_master_with_another_key_is_refused_with_what_to_do,
    a_wrong_master_finger_is_refused,
);

fn key(fleet: &Fleet, arguments: &[&str]) -> saline_testing::CommandOutput {
    fleet.run("saline-key", arguments)
}

fn a_rejected_key_waits_and_a_deleted_one_starts_again(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.master().log.wait_for("the key of minion m1 ", 1);
    key(&fleet, &["-y", "-r", "m1"]).expect(0);
    fleet.minions["m1"].log.wait_for("rejected", 1);
    let listed = key(&fleet, &["-L", "--out", "json"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(json["minions_rejected"], serde_json::json!(["m1"]));
    key(&fleet, &["-y", "-d", "m1"]).expect(0);
    // It comes back by itself, as one that nobody has decided about.
    fleet.master().log.wait_for("the key of minion m1 ", 2);
    key(&fleet, &["-y", "-A"]).expect(0);
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

fn deleting_an_accepted_key_ends_its_session_at_once(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    for id in ["gone", "stays"] {
        fleet.start_minion(id);
        fleet
            .master()
            .log
            .wait_for(&format!("the key of minion {id} "), 1);
    }
    key(&fleet, &["-y", "-A"]).expect(0);
    for id in ["gone", "stays"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    key(&fleet, &["-y", "-d", "gone"]).expect(0);
    fleet
        .master()
        .log
        .wait_for("group key was rotated and sent to 1 minion", 1);
    let said = fleet.saline(&["*", "test.ping"]).expect(0);
    assert_eq!(said.stdout, "stays:\n    True\n");
    let said = key(&fleet, &["--rotate-aes-key"]).expect(0);
    assert!(said.stdout.contains("was rotated"), "{said:?}");
    let log = &fleet.master().log;
    log.wait_for("group key was rotated and sent to 1 minion", 2);
    fleet.saline(&["*", "test.ping"]).expect(0);
    // Told in band: the one that stayed did not authenticate again.
    assert_eq!(fleet.master().log.count("minion stays is connected"), 1);
}

#[test]
fn a_minion_with_generated_keys_is_known_before_it_runs() {
    let mut fleet = Fleet::new("tcp", "");
    fleet.start_master();
    let made = fleet.path("made");
    std::fs::create_dir(&made).unwrap();
    let folder = made.display().to_string();
    key(&fleet, &["--gen-keys", "m1", "--gen-keys-dir", &folder]).expect(0);
    let pki = fleet.path("m1/etc/saline/pki/minion");
    std::fs::create_dir_all(&pki).unwrap();
    std::fs::copy(made.join("m1.pem"), pki.join("identity.key")).unwrap();
    let accepted = fleet.path("master/etc/saline/pki/master/minions/m1");
    std::fs::copy(made.join("m1.pub"), accepted).unwrap();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

#[test]
fn where_minions_are_is_shown_beside_their_keys_to_people() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let names = key(&fleet, &["-L"]).expect(0).stdout;
    assert!(names.starts_with("Accepted Keys:\nm1\n"), "{names}");
    let beside = |fleet: &Fleet, words: &[&str]| {
        let listed = key(fleet, words).expect(0).stdout;
        let line = listed.lines().find(|line| line.starts_with("m1"));
        line.unwrap().to_owned()
    };
    let shown = beside(&fleet, &["-L", "-v"]);
    assert!(
        shown.starts_with("m1  (127.0.0.1, heard ") && shown.ends_with(" s ago)"),
        "{shown}"
    );
    let shown = beside(&fleet, &["-f", "m1", "-v"]);
    assert!(shown.contains("  (127.0.0.1, heard "), "{shown}");
    // Also of a minion that has stopped.
    assert_eq!(fleet.minions.get_mut("m1").unwrap().terminate(), Some(0));
    let shown = beside(&fleet, &["-L", "-v"]);
    assert!(shown.contains("127.0.0.1, heard "), "{shown}");
    fleet.kill_master();
    fleet.start_master();
    let shown = beside(&fleet, &["-L", "-v"]);
    assert_eq!(shown, "m1  (not heard since the master's start)");
}

#[test]
fn what_is_no_key_is_no_minion_and_is_told_once() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let folder = fleet.path("master/etc/saline/pki/master/minions");
    std::fs::create_dir(folder.join("backup")).unwrap();
    std::fs::write(folder.join("notes"), "no key").unwrap();
    std::fs::write(folder.join("m1.rpmsave~"), "no id").unwrap();
    let log = &fleet.master().log;
    for round in 0..3 {
        let status = fleet.run("saline-run", &["manage.status", "--out", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status.expect(0).stdout).unwrap();
        let expected = serde_json::json!({"up": ["m1"], "down": []});
        assert_eq!(status, expected, "round {round}");
        fleet.saline(&["*", "test.ping"]).expect(0);
    }
    for name in ["backup", "notes", "m1.rpmsave~"] {
        log.wait_for(&format!("/{name} is skipped: "), 1);
        assert_eq!(log.count(&format!("/{name} is skipped: ")), 1, "{name}");
    }
    let listed = key(&fleet, &["-L"]).expect(0);
    assert!(!listed.stdout.contains("backup"), "{}", listed.stdout);
    assert!(
        listed.stderr.contains("saline-key -d notes"),
        "{}",
        listed.stderr
    );
}

fn another_key_under_the_same_id_is_denied(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1"]);
    fleet.minions.remove("m1");
    std::fs::remove_dir_all(fleet.path("m1/etc/saline/pki")).unwrap();
    fleet.start_minion("m1");
    fleet.minions["m1"]
        .log
        .wait_for("another key is known under its id", 1);
    let listed = key(&fleet, &["-l", "den"]).expect(0);
    assert_eq!(listed.stdout, "Denied Keys:\nm1\n");
    // The one that was accepted still is.
    let listed = key(&fleet, &["-l", "acc"]).expect(0);
    assert_eq!(listed.stdout, "Accepted Keys:\nm1\n");
}

/// Returns the fingerprint that a line of a refused minion ends with.
fn fingerprint_in(line: &str) -> &str {
    line.rsplit(' ').next().unwrap()
}

fn rejecting_the_key_of_an_impostor_keeps_the_good_minion(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["web1"]);
    let impostor = fleet.spawn_minion("web1", "impostor", "");
    let said = impostor
        .log
        .wait_for("another key is known under its id", 1);
    let bad = fingerprint_in(&said).to_owned();
    let advice = format!("saline-key -a web1 --include-denied --finger {bad}");
    assert!(said.contains(&advice), "{said}");
    key(&fleet, &["-y", "-r", "web1", "--include-denied"]).expect(0);
    let said = impostor.log.wait_for("is rejected", 1);
    let advice = format!("saline-key -a web1 --include-rejected --finger {bad}");
    assert!(said.contains(&advice), "{said}");
    // The good one is there, and comes back.
    fleet.saline(&["web1", "test.ping"]).expect(0);
    drop(fleet.minions.remove("web1"));
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    fleet.saline(&["web1", "test.ping"]).expect(0);
    assert_eq!(fleet.minions["web1"].log.count("is rejected"), 0);

    // Nobody is let in with the fingerprint of another machine.
    let listed = key(&fleet, &["-f", "web1", "--out", "json"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let good = json["minions"]["web1"].as_str().unwrap();
    let wrong = ["-y", "-a", "web1", "--include-rejected", "--finger", good];
    let refused = key(&fleet, &wrong).expect(1);
    assert!(
        refused.stderr.contains("is accepted already"),
        "{refused:?}"
    );

    // The impostor's key is deleted alone, and its next one is denied as before.
    key(&fleet, &["-y", "-d", "web1", "--finger", &bad]).expect(0);
    fleet.master().log.wait_for("is denied", 2);
    key(&fleet, &["-y", "-d", "web1", "--only-denied"]).expect(0);
    fleet.saline(&["web1", "test.ping"]).expect(0);
}

fn keys_that_were_all_removed_by_hand_are_revoked_by_deleting_all(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1", "m2"]);
    let folder = fleet.path("master/etc/saline/pki/master/minions");
    std::fs::rename(&folder, folder.with_file_name("aside")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let log = &fleet.master().log;
    let said = log.wait_for("all 2 accepted keys are missing", 1);
    assert!(said.contains("saline-key -D"), "{said}");
    let listed = key(&fleet, &["-L"]).expect(0);
    assert!(listed.stderr.contains("saline-key -D"), "{listed:?}");
    let deleted = key(&fleet, &["-y", "-D"]).expect(0);
    assert!(
        deleted.stdout.contains("Key for minion m2 deleted."),
        "{deleted:?}"
    );
    log.wait_for("group key was rotated", 1);
    // Their sessions have ended: they are new to the master, which accepts every key here.
    for id in ["m1", "m2"] {
        log.wait_for(&format!("minion {id} is connected"), 2);
    }
    assert_eq!(key(&fleet, &["-L"]).expect(0).stderr, "");
}

fn a_master_with_another_key_is_refused_with_what_to_do(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1"]);
    fleet.kill_master();
    std::fs::remove_dir_all(fleet.path("master/etc/saline/pki")).unwrap();
    fleet.start_master();
    let line = fleet.minions["m1"]
        .log
        .wait_for("has another key than the one", 1);
    assert!(line.contains("master.pub"), "{line}");
    fleet.saline(&["*", "test.ping"]).expect(2);
}

fn a_wrong_master_finger_is_refused(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "auto_accept: True\n");
    fleet.start_master();
    let finger = ["ab"; 32].join(":");
    fleet.start_minion_with("m1", &format!("master_finger: '{finger}'\n"));
    let line = fleet.minions["m1"].log.wait_for(&finger, 1);
    assert!(line.contains("master_finger"), "{line}");
    fleet.saline(&["*", "test.ping"]).expect(2);
}

/// Returns the fingerprint of a minion's key, as the machine itself tells it.
fn finger_on_its_machine(fleet: &Fleet, id: &str) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_saline-call"));
    command.arg("-c").arg(fleet.minion_config(id));
    command.args(["--local", "key.finger", "--out", "newline_values_only"]);
    let said = saline_testing::CommandOutput::from(command.output().unwrap()).expect(0);
    said.stdout.trim().to_owned()
}

#[test]
fn a_list_accepts_the_keys_that_it_names_and_no_others() {
    let mut fleet = Fleet::new("tcp", "");
    fleet.start_master();
    for id in ["web1", "web2", "other"] {
        fleet.start_minion(id);
        let log = &fleet.master().log;
        log.wait_for(&format!("the key of minion {id} "), 1);
    }
    let (web1, web2) = (
        finger_on_its_machine(&fleet, "web1"),
        finger_on_its_machine(&fleet, "web2"),
    );
    let list = fleet.path("fleet.txt");
    let accept = |fleet: &Fleet, text: &str, more: &[&str]| {
        std::fs::write(&list, text).unwrap();
        let arguments = [&["-y", "--accept-list", list.to_str().unwrap()], more].concat();
        key(fleet, &arguments)
    };
    let listed = |fleet: &Fleet, state: &str| {
        let listed = key(fleet, &["-L", "--out", "json"]).expect(0).stdout;
        let mut json: serde_json::Value = serde_json::from_str(&listed).unwrap();
        json[state].take()
    };
    let malformed = accept(&fleet, &format!("web1 {web1}\nweb2 aa:bb\n"), &[]).expect(1);
    assert!(
        malformed
            .stderr
            .contains("line 2: not an id and a fingerprint")
            && malformed
                .stderr
                .contains("the list is malformed: nothing was changed"),
        "{malformed:?}"
    );
    // The key of another machine, and one that has not come.
    let text = format!("# the web servers\nweb1 {web1}\nweb2 {web1}\nweb3 {web2}\n");
    let shown = accept(&fleet, &text, &["--dry-run"]).expect(1);
    assert!(
        shown.stdout.contains("web1") && !shown.stdout.contains("web2"),
        "{shown:?}"
    );
    assert_eq!(listed(&fleet, "minions"), serde_json::json!([]));
    let said = accept(&fleet, &text, &[]).expect(1);
    let other = format!("line 3: web2: its unaccepted key has another fingerprint, {web2}");
    assert!(
        said.stderr.contains(&other)
            && said
                .stderr
                .contains("line 4: web3: no key has come under this id"),
        "{said:?}"
    );
    assert_eq!(listed(&fleet, "minions"), serde_json::json!(["web1"]));
    assert_eq!(
        listed(&fleet, "minions_pre"),
        serde_json::json!(["other", "web2"])
    );
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    // What saline-key prints of all keys is a list too: here with the right fingerprints.
    let printed = key(&fleet, &["-f", "web*"]).expect(0).stdout;
    accept(&fleet, &printed, &[]).expect(0);
    fleet.minions["web2"].log.wait_for("subscribed", 1);
    let again = accept(&fleet, &printed, &[]).expect(0);
    assert_eq!(again.stdout, "All keys on the list are accepted already.\n");
    assert_eq!(listed(&fleet, "minions_pre"), serde_json::json!(["other"]));
    fleet.saline(&["web*", "test.ping"]).expect(0);
}
