//! Minions are chosen by their ids, by their grains and addresses, and by what the master says of them: nodegroups, and
//! what is assigned to them.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::process::Signal;
use saline_testing::Fleet;

const MASTER: &str = "auto_accept: True
nodegroups:
  web: G@role:web
  named: [m1, m2]
  others: 'N@named and not N@web'
  assigned: 'A@roles:db or m1'
";

/// Minions say other things of themselves.
const ASSIGNED: &str = "
'm[12]':
  roles: [web]
  attributes: {site: berlin}
m3: {roles: [db], attributes: {site: paris}}
m4: {roles: [db]}
";

/// Writes a file of `minions.d`.
fn assign(fleet: &Fleet, file: &str, text: &str) -> PathBuf {
    let path = fleet.config().join("minions.d").join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// Starts a master and three minions with differing grains, and waits until it knows them.
fn fleet(transport: &'static str) -> Fleet {
    let mut fleet = Fleet::new(transport, MASTER);
    assign(&fleet, "fleet.yaml", ASSIGNED);
    fleet.start_master();
    let long = format!("grains: {{role: web, long: {}}}\n", "a".repeat(200));
    for (id, grains) in [
        ("m1", long.as_str()),
        ("m2", "grains: {role: [db, cache]}\n"),
        ("m3", "grains: {role: Web, tier: {front: 'fe80::1'}}\n"),
    ] {
        fleet.start_minion_with(id, grains);
    }
    for id in ["m1", "m2", "m3"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
        let known = format!("minion {id} reported its grains");
        fleet.master().log.wait_for(&known, 1);
    }
    fleet
}

/// Returns the minions that answer a ping with this target.
fn answering(fleet: &Fleet, target: &[&str]) -> BTreeSet<String> {
    let words = [target, &["test.ping", "--out", "json", "--static"]].concat();
    let said = fleet.saline(&words).expect(0);
    assert_eq!(said.stderr, "");
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    json.as_object().unwrap().keys().cloned().collect()
}

saline_testing::over_each_transport!(minions_are_chosen_by_their_grains);

fn minions_are_chosen_by_their_grains(transport: &'static str) {
    let fleet = fleet(transport);
    let set = |ids: &[&str]| {
        ids.iter()
            .map(|id| (*id).to_owned())
            .collect::<BTreeSet<_>>()
    };
    for (target, expected) in [
        (vec!["-G", "role:web"], set(&["m1", "m3"])),
        (vec!["-G", "role:c*"], set(&["m2"])),
        (vec!["-P", "role:(db|web)$"], set(&["m1", "m2", "m3"])),
        (
            vec!["-G", "tier|front|fe80::1", "--delimiter", "|"],
            set(&["m3"]),
        ),
        (vec!["-S", "127.0.0.0/8"], set(&["m1", "m2", "m3"])),
        (vec!["-E", "m(?!2)"], set(&["m1", "m3"])),
        (vec!["-N", "web"], set(&["m1", "m3"])),
        (vec!["-N", "others"], set(&["m2"])),
        (vec!["-A", "roles:web"], set(&["m1", "m2"])),
        (vec!["-A", "site:p*"], set(&["m3"])),
        (vec!["-C", "A@roles:web and G@role:web"], set(&["m1"])),
        (vec!["-C", "m* and not A@site:berlin"], set(&["m3"])),
        (vec!["-N", "assigned"], set(&["m1", "m3"])),
        (vec!["-C", "G@role:web and not m1"], set(&["m3"])),
        (
            vec!["-C", "( L@m1,m2 or E@m3 ) and not N@others"],
            set(&["m1", "m3"]),
        ),
    ] {
        assert_eq!(answering(&fleet, &target), expected, "{target:?}");
    }
    assert_eq!(answering(&fleet, &["*", "--subset", "2"]).len(), 2);
    assert_eq!(
        answering(&fleet, &["-G", "role:web", "--subset", "1"]).len(),
        1
    );

    let said = fleet
        .saline(&["-G", "role:web", "--preview-target"])
        .expect(0);
    assert_eq!(
        (said.stdout.as_str(), said.stderr.as_str()),
        ("- m1\n- m3\n", "")
    );
    let said = fleet.saline(&["-G", "role:nosuch", "test.ping"]).expect(2);
    assert!(
        said.stderr.contains("No minions match 'role:nosuch'"),
        "{said:?}"
    );
    fleet.saline(&["-A", "roles:mail", "test.ping"]).expect(2);
    let said = fleet.saline(&["-N", "nosuch", "test.ping"]).expect(2);
    assert!(said.stderr.contains("no nodegroup \"nosuch\""), "{said:?}");
    let said = fleet
        .saline(&["-P", "long:(?:a|aa)+(?!b)c", "test.ping"])
        .expect(2);
    assert_eq!(
        said.stderr,
        "ERROR: the target was given up at minion m1: the regular expression takes too many steps: make it simpler\n"
    );
    let said = fleet
        .saline(&["-C", "G@os:Debian and", "test.ping"])
        .expect(64);
    assert_eq!(
        said.stderr,
        "saline: error: the target is malformed: expected a term after `and`\n  G@os:Debian and\n                 ^\n"
    );
}

#[test]
fn a_minion_that_is_away_keeps_its_grains_until_its_key_is_deleted() {
    let mut fleet = fleet("tcp");
    fleet.minions.remove("m2").unwrap().terminate();
    fleet.master.take().unwrap().terminate();
    fleet.start_master();
    let said = fleet
        .saline(&[
            "-G",
            "role:db",
            "test.ping",
            "--ttl",
            "10m",
            "--async",
            "--out",
            "json",
        ])
        .expect(0);
    let said: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let jid = said["jid"].as_str().unwrap();
    fleet.start_minion_with("m2", "grains: {role: [db, cache]}\n");
    fleet
        .master()
        .log
        .wait_for(&format!("job {jid}: minion m2 returned"), 1);

    // It changed while it was away, which the master learns when it is back.
    fleet.minions.remove("m2").unwrap().terminate();
    fleet.start_minion_with("m2", "grains: {role: mail}\n");
    fleet
        .master()
        .log
        .wait_for("minion m2 reported its grains", 2);
    fleet
        .saline(&["-G", "role:db", "--preview-target"])
        .expect(2);
    let said = fleet
        .saline(&["-G", "role:mail", "--preview-target"])
        .expect(0);
    assert_eq!(said.stdout, "- m2\n");

    // Without its key it is nobody, and what comes back under its id is not known.
    fleet.minions.remove("m2").unwrap().terminate();
    fleet.run("saline-key", &["-y", "-d", "m2"]).expect(0);
    fleet
        .saline(&["-G", "role:mail", "--preview-target"])
        .expect(2);
}

#[test]
fn minions_without_known_grains_are_asked_only_where_that_is_wanted() {
    let fleet = fleet("tcp");
    for id in ["m1", "m2"] {
        fleet.run("saline-run", &["cache.clear_all", id]).expect(0);
    }
    let unknown = "WARNING: the master does not know the grains of 2 minions (m1, m2)";
    let left_out =
        format!("{unknown}: the target does not include them; --include-unknown asks them too\n");
    let web = ["-G", "role:web", "test.ping", "--out", "txt"];
    let said = fleet.saline(&web).expect(0);
    assert_eq!(
        (said.stdout.as_str(), said.stderr),
        ("m3: True\n", left_out.clone())
    );
    let not_web = ["-C", "m* and not G@role:web", "test.ping", "--out", "txt"];
    let said = fleet.saline(&not_web).expect(2);
    assert!(said.stderr.starts_with(&left_out), "{said:?}");
    let said = fleet
        .saline(&["-G", "role:web", "--preview-target"])
        .expect(0);
    assert_eq!((said.stdout.as_str(), said.stderr), ("- m3\n", left_out));

    // Each decides by its own grains then: m2 has another role.
    let asked = fleet
        .saline(&[&web[..], &["--include-unknown"]].concat())
        .expect(0);
    let answered: BTreeSet<&str> = asked.stdout.lines().collect();
    assert_eq!(answered, BTreeSet::from(["m1: True", "m3: True"]));
    assert!(
        asked.stderr.starts_with(&format!(
            "{unknown}: they got the job and decide themselves\n"
        )),
        "{asked:?}"
    );
    let preview = ["-G", "role:web", "--preview-target", "--include-unknown"];
    assert_eq!(
        fleet.saline(&preview).expect(0).stdout,
        "- m1\n- m2\n- m3\n"
    );
}

#[test]
fn what_is_assigned_is_read_again_on_sighup() {
    let fleet = fleet("tcp");
    let mail = ["-A", "roles:mail"];
    fleet
        .saline(&[&mail[..], &["--preview-target"]].concat())
        .expect(2);
    let path = assign(&fleet, "mail.yaml", "m2: {roles: mail}\n");
    fleet.master().signal(Signal::HUP);
    fleet.master().log.wait_for("changed: minions.d", 1);
    assert_eq!(answering(&fleet, &mail), BTreeSet::from(["m2".to_owned()]));

    // What is wrong, or not root's alone, changes nothing.
    std::fs::write(&path, "m2: {roles: mail, attributes: {site: paris}}\n").unwrap();
    fleet.master().signal(Signal::HUP);
    let said = fleet.master().log.wait_for("configuration not reloaded", 1);
    assert!(said.contains("attribute \"site\" of minion m2"), "{said}");
    std::fs::write(&path, "m1: {roles: mail}\n").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    fleet.master().signal(Signal::HUP);
    let said = fleet.master().log.wait_for("configuration not reloaded", 2);
    assert!(said.contains("others can change "), "{said}");
    assert_eq!(answering(&fleet, &mail), BTreeSet::from(["m2".to_owned()]));
}

#[test]
fn the_master_chooses_by_pillar_and_no_minion_learns_what_was_searched_for() {
    let mut fleet = Fleet::new(
        "tcp",
        "auto_accept: True\nnodegroups: {gold: 'I@tier:gold'}\n",
    );
    let write = |name: &str, text: &str| {
        let path = fleet.path("master").join("srv/pillar").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("top.sls", "base: {'m[12]': [gold], 'm3': [broken]}\n");
    write("gold.sls", "tier: gold\ntoken: s3cr3t-{{ grains.id }}\n");
    write("broken.sls", "tier: {{ nothing }}\n");
    fleet.start_master();
    // One says that it has the value.
    for id in ["m1", "m2", "m3", "m4"] {
        fleet.start_minion_with(id, "grains: {tier: gold, token: s3cr3t-m1}\n");
    }
    for id in ["m1", "m2", "m3", "m4"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    let preview = |options: &[&str]| {
        let preview = ["--preview-target", "--out", "json"];
        fleet.run("saline", &[options, &preview].concat())
    };
    let ids = |options: &[&str]| -> Vec<String> {
        let said = preview(options).expect(0);
        assert!(
            said.stderr
                .contains("the master has no pillar of 1 minion (m3)"),
            "{said:?}"
        );
        assert!(!said.stderr.contains("s3cr3t"), "{said:?}");
        serde_json::from_str(&said.stdout).unwrap()
    };
    assert_eq!(ids(&["-I", "tier:g*"]), ["m1", "m2"]);
    assert_eq!(ids(&["-J", "tier:(gold|silver)$"]), ["m1", "m2"]);
    assert_eq!(ids(&["-I", "--delimiter", "|", "tier|gold"]), ["m1", "m2"]);
    assert_eq!(ids(&["-N", "gold"]), ["m1", "m2"]);
    assert_eq!(ids(&["-C", "not I@tier:gold"]), ["m4"]);
    assert_eq!(
        ids(&["-C", "G@tier:gold and not I@token:s3cr3t-m1"]),
        ["m2", "m4"]
    );

    let ran = [
        "-I",
        "token:s3cr3t-m1",
        "test.ping",
        "--out",
        "json",
        "--static",
    ];
    let ran = fleet.run("saline", &ran).expect(0);
    let returned: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(returned, serde_json::json!({"m1": true}));
    let mixed = [
        "-C",
        "I@token:s3cr3t-m* and G@tier:gold",
        "test.ping",
        "--out",
        "json",
        "--static",
    ];
    let mixed = fleet.run("saline", &mixed).expect(0);
    let returned: serde_json::Value = serde_json::from_str(&mixed.stdout).unwrap();
    assert_eq!(returned, serde_json::json!({"m1": true, "m2": true}));
    let jobs = fleet
        .run("saline-run", &["jobs.list_jobs"])
        .expect(0)
        .stdout;
    assert!(!jobs.contains("s3cr3t"), "{jobs}");
    for id in ["m1", "m2", "m4"] {
        assert!(!fleet.minions[id].log.text().contains("s3cr3t"));
    }
    assert!(!fleet.master().log.text().contains("s3cr3t"));
}
