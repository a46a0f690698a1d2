//! `saline-cp`: files of the master's machine on minions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use saline_testing::Fleet;

use crate::files::{content, fail, mode};

/// Returns a fleet of two minions, whose master has an audit file.
fn fleet() -> Fleet {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    for id in ["m1", "m2"] {
        fleet.start_minion(id);
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    fleet
}

/// Whether a file below a folder has these bytes in it.
fn is_in_a_file(folder: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => is_in_a_file(&path, bytes),
            kind if kind.is_file() => fs::read(&path)
                .unwrap()
                .windows(bytes.len())
                .any(|part| part == bytes),
            _ => false,
        }
    })
}

/// Whether no upload is left at the master and at the minion.
fn nothing_is_left(fleet: &Fleet) -> bool {
    let is_empty = |path: &str| {
        let found = fs::read_dir(fleet.path(path));
        found.is_ok_and(|mut entries| entries.next().is_none())
    };
    is_empty("master/var/cache/saline/master/uploads")
        && is_empty("m1/var/cache/saline/minion/files/__uploads__")
}

#[test]
fn a_file_is_copied_with_its_mode_and_leaves_nothing_behind() {
    let fleet = fleet();
    let source = fleet.path("app.conf");
    let secret = content(700_000);
    fs::write(&source, &secret).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o751)).unwrap();
    let dest = fleet.path("new/folder/renamed.conf");
    let (from, to) = (source.to_str().unwrap(), dest.to_str().unwrap());
    let said = fleet
        .run("saline-cp", &["-C", "-n", "m1", from, to])
        .expect(0);
    assert_eq!(
        said.stdout,
        format!("m1:\n    ----------\n    {to}:\n        True\n")
    );
    assert!(fs::read(&dest).unwrap() == secret);
    assert_eq!(mode(&dest), 0o751);
    assert!(nothing_is_left(&fleet));
    // Neither the store nor the events nor the log have the content or the id of the upload.
    let state = fleet.path("master/var");
    assert!(!is_in_a_file(&state, &secret[1000..1100]));
    let audit = fs::read_to_string(fleet.path("master/var/log/saline/master-audit.log")).unwrap();
    assert!(audit.contains("hand in files for minions"), "{audit}");
    assert!(
        audit.contains("1 file of 700000 bytes for cp.recv"),
        "{audit}"
    );
    assert!(audit.contains("cp.recv"), "{audit}");

    // In a folder that is there, the file keeps its name, and a file that is there its mode.
    let folder = fleet.path("new/folder");
    let kept = folder.join("app.conf");
    fs::write(&kept, "old").unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
    fleet
        .run("saline-cp", &["m1", from, folder.to_str().unwrap()])
        .expect(0);
    assert!(fs::read(&kept).unwrap() == secret);
    assert_eq!(mode(&kept), 0o600);
}

#[test]
fn folders_and_several_files_go_into_a_folder() {
    let fleet = fleet();
    let site = fleet.path("site");
    fs::create_dir_all(site.join("css/empty")).unwrap();
    fs::write(site.join("index.html"), "index").unwrap();
    fs::write(site.join("css/a.css"), "").unwrap();
    let other = fleet.path("other.txt");
    fs::write(&other, "other").unwrap();
    let dest = fleet.path("srv");
    let [site_path, other_path, to] =
        [&site, &other, &dest].map(|path| path.to_str().unwrap().to_owned());
    let call = [
        "-L",
        "m1",
        site_path.as_str(),
        other_path.as_str(),
        to.as_str(),
        "--out",
        "json",
    ];
    let said = fleet.run("saline-cp", &call).expect(0);
    let path = |name: &str| dest.join(name).to_str().unwrap().to_owned();
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    for (name, text) in [
        ("site/css/a.css", ""),
        ("site/index.html", "index"),
        ("other.txt", "other"),
    ] {
        assert_eq!(json["m1"][path(name)], true, "{json}");
        assert_eq!(fs::read_to_string(path(name)).unwrap(), text);
    }
    assert!(Path::new(&path("site/css/empty")).is_dir());
    assert!(nothing_is_left(&fleet));
}

#[test]
fn what_cannot_be_copied_is_said_and_an_upload_is_nobody_elses() {
    let fleet = fleet();
    let source = fleet.path("app.conf");
    fs::write(&source, "x").unwrap();
    let from = source.to_str().unwrap();
    let below_a_file = format!("{from}/below");
    let said = fleet
        .run("saline-cp", &["m1", from, &below_a_file])
        .expect(1);
    assert!(
        said.stdout
            .contains(&format!("{below_a_file}:\n        cannot ")),
        "{said:?}"
    );
    assert!(nothing_is_left(&fleet));
    let said = fleet
        .run("saline-cp", &["nobody", from, "/tmp/x"])
        .expect(2);
    assert!(
        said.stderr.contains("No minions match 'nobody'"),
        "{said:?}"
    );
    assert!(nothing_is_left(&fleet));
    let said = fleet
        .run("saline-cp", &["m1", "/absent", "/tmp/x"])
        .expect(1);
    assert!(
        said.stderr.contains("ERROR: cannot read /absent: "),
        "{said:?}"
    );
    let said = fleet.run("saline-cp", &["m1", from, "tmp/x"]).expect(64);
    assert!(said.stderr.contains("is not an absolute path"), "{said:?}");
    fleet.run("saline-cp", &["m1", from]).expect(42);
    let previewed = fleet
        .run("saline-cp", &["--preview-target", "m*"])
        .expect(0);
    assert_eq!(previewed.stdout, "- m1\n- m2\n");

    // Whoever does not know the id of an upload reaches none, and nobody lists them.
    let upload = fleet.path("master/var/cache/saline/master/uploads");
    let id = "0a".repeat(16);
    fs::create_dir_all(upload.join(&id)).unwrap();
    fs::write(upload.join(&id).join(".saline-push-x"), "unfinished").unwrap();
    for path in [
        format!("salt://{id}/0?saltenv=__uploads__"),
        format!("salt://{id}/.saline-push-x?saltenv=__uploads__"),
        format!("salt://{id}/./../{id}/0?saltenv=__uploads__"),
    ] {
        let said = fail(&fleet, &["cp.hash_file", &path]);
        assert!(
            said.contains("no such file") || said.contains("\"salt://"),
            "{said}"
        );
    }
    let said = fail(&fleet, &["cp.list_master", "__uploads__"]);
    assert!(said.contains("no such environment"), "{said}");
}
