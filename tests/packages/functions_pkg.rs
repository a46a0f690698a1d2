//! The functions of the module `pkg`, with apt and a repository of their own on a copy of this machine.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::built::which;
use crate::called::{call, fails, install, output};
use crate::machine::Machine;

/// The packages of the repository: their names, versions and fields, and what their scripts run after they are unpacked.
const REPOSITORY: [(&str, &str, &str, &str); 5] = [
    ("saline-lib", "1.0", "", "true"),
    ("saline-lib", "2.0-1", "", "true"),
    ("saline-tool", "1:1.0~rc1", "Depends: saline-lib\n", "true"),
    (
        "saline-broken",
        "1.0",
        "",
        "echo the script is broken; exit 3",
    ),
    ("saline-other", "0.1", "", "true"),
];

/// Makes a repository at `/repo` on the machine, the only one that its apt knows.
fn make_repository(machine: &Machine) {
    let built = tempfile::tempdir().unwrap();
    fs::create_dir(machine.root().join("repo")).unwrap();
    for (number, (name, version, fields, script)) in REPOSITORY.iter().enumerate() {
        let folder = built.path().join(number.to_string());
        fs::create_dir_all(folder.join("DEBIAN")).unwrap();
        fs::create_dir_all(folder.join("etc")).unwrap();
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\n{fields}Maintainer: T <t@example.org>\nDescription: a test\n"
        );
        fs::write(folder.join("DEBIAN/control"), control).unwrap();
        fs::write(
            folder.join("DEBIAN/conffiles"),
            format!("/etc/{name}.conf\n"),
        )
        .unwrap();
        fs::write(folder.join(format!("etc/{name}.conf")), version).unwrap();
        let postinst = folder.join("DEBIAN/postinst");
        fs::write(&postinst, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&postinst, mode).unwrap();
        let deb = machine.root().join(format!("repo/{number}.deb"));
        let mut build = Command::new("dpkg-deb");
        build.args(["-Znone", "--root-owner-group", "-b"]);
        let built = build.arg(&folder).arg(deb).output().unwrap();
        assert!(built.status.success(), "{built:?}");
    }
    let scan = "cd /repo && dpkg-scanpackages --multiversion . > Packages && rm -rf /etc/apt/sources.list.d";
    machine.run("sh", &["-c", scan]).expect(0);
    let source = "deb [trusted=yes] file:/repo ./\n";
    fs::write(machine.root().join("etc/apt/sources.list"), source).unwrap();
}

/// Calls a function that changes packages; before, with `test=True`, which must tell the same and change nothing.
#[track_caller]
fn changes(machine: &Machine, words: &[&str]) -> Value {
    let listed = call(machine, &["pkg.list_pkgs"]);
    let told = call(machine, &[words, &["test=True"]].concat());
    assert_eq!(listed, call(machine, &["pkg.list_pkgs"]), "{words:?}");
    let changed = call(machine, words);
    assert_eq!(told, changed, "{words:?}");
    changed
}

#[test]
fn packages_are_installed_held_upgraded_removed_and_purged() {
    if which("dpkg-scanpackages").is_none() {
        return println!("skipped: this machine has no dpkg-scanpackages");
    }
    let machine = match Machine::start() {
        Ok(machine) => machine,
        Err(why) => return println!("skipped: {why}"),
    };
    install(&machine);
    make_repository(&machine);
    let conf = machine.root().join("etc/saline-lib.conf");

    let fetched = call(&machine, &["pkg.refresh_db", "failhard=True"]);
    assert!(!fetched.as_object().unwrap().is_empty(), "{fetched}");
    let newest = call(
        &machine,
        &["pkg.latest_version", "saline-lib", "saline-none", "dpkg"],
    );
    assert_eq!(
        newest,
        json!({"saline-lib": "2.0-1", "saline-none": "", "dpkg": ""})
    );

    // A version that is not the newest, with a changed configuration file that stays.
    let one = changes(
        &machine,
        &["pkg.install", "saline-lib", "version='1.0'", "refresh=True"],
    );
    assert_eq!(one, json!({"saline-lib": {"old": "", "new": "1.0"}}));
    assert_eq!(call(&machine, &["pkg.version", "saline-lib"]), "1.0");
    assert_eq!(
        call(&machine, &["pkg.version", "dpkg", "saline-none"])["saline-none"],
        ""
    );
    assert_eq!(
        call(&machine, &["pkg.owner", "/etc/saline-lib.conf"]),
        "saline-lib"
    );
    let owners = call(&machine, &["pkg.owner", "/usr/bin/sh", "/nosuch/[a]*"]);
    assert_eq!(owners, json!({"/usr/bin/sh": "dash", "/nosuch/[a]*": ""}));
    fs::write(&conf, "changed").unwrap();
    assert_eq!(
        call(&machine, &["pkg.install", "saline-lib", "version='1.0'"]),
        json!({})
    );
    assert_eq!(
        call(&machine, &["pkg.upgrade_available", "saline-lib"]),
        true
    );
    assert_eq!(
        call(&machine, &["pkg.list_upgrades"]),
        json!({"saline-lib": "2.0-1"})
    );

    // On hold, nothing upgrades it unless it is told to.
    let held = fails(
        &machine,
        &["pkg.hold", "saline-lib,saline-none", "test=True"],
    );
    assert_eq!(
        held["saline-lib"]["changes"],
        json!({"old": "install", "new": "hold"})
    );
    assert_eq!(
        call(&machine, &["pkg.list_upgrades", "refresh=False"]),
        json!({"saline-lib": "2.0-1"})
    );
    fails(&machine, &["pkg.hold", "saline-lib,saline-none"]);
    assert_eq!(call(&machine, &["pkg.upgrade"]), json!({}));
    let refused = fails(&machine, &["pkg.install", "saline-lib"]);
    assert_eq!(refused["changes"], json!({}));
    assert!(
        refused["errors"].to_string().contains("Held packages"),
        "{refused}"
    );
    let upgraded = changes(
        &machine,
        &["pkg.install", "saline-lib", "update_holds=True"],
    );
    assert_eq!(
        upgraded,
        json!({"saline-lib": {"old": "1.0", "new": "2.0-1"}})
    );
    assert_eq!(fs::read_to_string(&conf).unwrap(), "changed");
    let unheld = call(&machine, &["pkg.unhold", "saline-lib"]);
    assert_eq!(
        unheld["saline-lib"]["changes"],
        json!({"old": "hold", "new": "install"})
    );
    let down = changes(
        &machine,
        &[
            "pkg.install",
            "pkgs=[{saline-lib: '1.0'}]",
            "force_conf_new=True",
        ],
    );
    assert_eq!(down, json!({"saline-lib": {"old": "2.0-1", "new": "1.0"}}));
    let up = changes(&machine, &["pkg.upgrade", "dist_upgrade=True"]);
    assert_eq!(up, json!({"saline-lib": {"old": "1.0", "new": "2.0-1"}}));

    // What depends on a package goes with it, and what nothing needs any more is found.
    let tool = changes(&machine, &["pkg.install", "saline-tool"]);
    assert_eq!(
        tool,
        json!({"saline-tool": {"old": "", "new": "1:1.0~rc1"}})
    );
    let both = json!({
        "saline-lib": {"old": "2.0-1", "new": ""},
        "saline-tool": {"old": "1:1.0~rc1", "new": ""},
    });
    assert_eq!(changes(&machine, &["pkg.remove", "saline-lib"]), both);
    assert!(conf.exists());
    assert_eq!(call(&machine, &["pkg.remove", "saline-lib"]), json!({}));
    let left = call(&machine, &["pkg.list_pkgs", "removed=True"]);
    assert_eq!(left["saline-lib"], "2.0-1");
    changes(&machine, &["pkg.purge", "saline-lib,saline-tool"]);
    assert!(!conf.exists());
    changes(&machine, &["pkg.install", "saline-tool"]);
    assert_eq!(
        call(&machine, &["pkg.autoremove", "list_only=True"])
            .as_array()
            .map(Vec::len),
        Some(0)
    );
    changes(&machine, &["pkg.remove", "saline-tool"]);
    let alone = changes(&machine, &["pkg.autoremove", "purge=True"]);
    assert_eq!(alone, json!({"saline-lib": {"old": "2.0-1", "new": ""}}));
    let file = ["pkg.install", "sources=[{saline-other: /repo/4.deb}]"];
    assert_eq!(
        changes(&machine, &file),
        json!({"saline-other": {"old": "", "new": "0.1"}})
    );
    let again = call(&machine, &["pkg.install", "saline-other", "reinstall=True"]);
    assert_eq!(again, json!({"saline-other": {"old": "0.1", "new": "0.1"}}));

    // A failure says what apt said, and what is there nevertheless.
    let broken = fails(&machine, &["pkg.install", "saline-broken"]);
    assert_eq!(
        broken["changes"],
        json!({"saline-broken": {"old": "", "new": "1.0"}})
    );
    assert!(
        broken["errors"]
            .to_string()
            .contains("the script is broken"),
        "{broken}"
    );
    changes(&machine, &["pkg.purge", "saline-broken"]);
    let unknown = fails(&machine, &["pkg.install", "saline-none"]);
    assert!(
        unknown["errors"]
            .to_string()
            .contains("Unable to locate package saline-none"),
        "{unknown}"
    );
    // apt takes such a name for a pattern, unless it is told not to.
    let pattern = fails(&machine, &["pkg.install", "saline.lib"]);
    assert_eq!(pattern["changes"], json!({}));

    // Nothing of a name reaches apt as an option.
    for name in [
        "-oDPkg::Pre-Invoke::=touch /hacked",
        "saline-other-",
        "/repo/0.deb",
        "saline-lib -y",
    ] {
        let refused = output(&machine, &["pkg.install", &format!("pkgs=['{name}']")]);
        assert_ne!(refused.code, Some(0), "{name}");
        assert!(
            refused.stdout.contains("the name of a package"),
            "{}",
            refused.stdout
        );
    }
    assert!(!machine.root().join("hacked").exists());
    assert_eq!(call(&machine, &["pkg.version", "saline-other"]), "0.1");
}
