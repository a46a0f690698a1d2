//! `minions.d/*.yaml`: what is assigned to minions, and why a file of it is refused.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use insta::assert_snapshot;
use saline_config::{Loaded, MasterConfig};
use saline_data::Value;

use crate::folder::{SCHEMES, folder};

/// Reads the configuration of a master with what it assigns, or returns the error without the folder's name.
fn read(folder: &Path) -> Result<Loaded<MasterConfig>, String> {
    let read = MasterConfig::load(folder, SCHEMES).and_then(|mut loaded| {
        loaded.read_assignments(folder)?;
        Ok(loaded)
    });
    let without_folder = |error: String| error.replace(&format!("{}/", folder.display()), "");
    read.map_err(|error| without_folder(error.to_string()))
}

/// Returns why these files are refused; nothing when they are not.
fn refused(files: &[(&str, &str)]) -> String {
    let read = read(folder(files).path());
    read.err().unwrap_or_default()
}

#[test]
fn minions_have_the_roles_and_attributes_of_all_files() {
    let dir = folder(&[
        ("master", "trusted_grains: [os, kernel]\n"),
        (
            "minions.d/a.yaml",
            "web*:\n  roles: [web, frontend]\n  attributes: {site: berlin, tier: 1, racks: [a, b]}\ndb1: {roles: db}\n",
        ),
        ("minions.d/b.yaml", "'*': {attributes: {managed: True}}\n"),
        ("minions.d/c.yaml", "# nothing\n"),
        ("minions.d/README", "no YAML: ["),
    ]);
    let loaded = read(dir.path()).unwrap();
    let assigned = |id| loaded.config.assignments.of(id).unwrap();
    let managed = ("managed", Value::Bool(true));
    assert_eq!(
        assigned("web7"),
        Value::map([
            managed.clone(),
            ("racks", Value::texts(["a", "b"])),
            ("roles", Value::texts(["frontend", "web"])),
            ("site", Value::from("berlin")),
            ("tier", Value::Int(1)),
        ])
    );
    let db = Value::map([managed.clone(), ("roles", Value::texts(["db"]))]);
    assert_eq!(assigned("db1"), db);
    assert_eq!(assigned("mail"), Value::map([managed]));
    let trusted: Vec<_> = loaded.config.trusted_grains.iter().collect();
    assert_eq!(trusted, ["kernel", "os"]);
    let nothing = read(folder(&[]).path()).unwrap();
    assert_eq!(nothing.config, MasterConfig::default());
}

#[test]
fn a_master_that_accepts_everybody_is_warned_of() {
    let warnings = |main: &str, assigned: &str| {
        let dir = folder(&[("master", main), ("minions.d/a.yaml", assigned)]);
        let loaded = read(dir.path()).unwrap();
        let warnings = loaded.warnings.join(" | ");
        warnings.replace(&format!("{}/", dir.path().display()), "")
    };
    let assigned = "web*: {roles: web}\n";
    assert_snapshot!(warnings("auto_accept: True\n", assigned), @"minions.d assigns roles and attributes to ids, and with auto_accept, autosign_file or open_mode a stranger takes an id that it wants: accept keys by hand where it matters who has them");
    assert_eq!(warnings("open_mode: True\n", assigned).lines().count(), 1);
    assert_eq!(warnings("auto_accept: True\n", "# nothing\n"), "");
    assert_eq!(warnings("", assigned), "");
}

#[test]
fn mistakes_are_told_with_file_line_and_column() {
    let refused = |text: &str| refused(&[("minions.d/a.yaml", text)]);
    assert_snapshot!(refused("web*: {rolls: [web]}\n"), @r#"minions.d/a.yaml:1:8: unknown name "rolls": "web*" takes `roles: [web]` and `attributes: {site: berlin}`, or one of them"#);
    assert_snapshot!(refused("a: {}\nweb*: [web]\n"), @r#"minions.d/a.yaml:2:7: "web*" takes `roles: [web]` and `attributes: {site: berlin}`, or one of them"#);
    assert_snapshot!(refused("web*:\n  roles: [web, 1]\n"), @"minions.d/a.yaml:2:16: roles are texts: `roles: [web, frontend]`; one that looks like something else stands in quotes");
    assert_snapshot!(refused("web*:\n  attributes: {site: {x: 1}}\n"), @r#"minions.d/a.yaml:2:22: attribute "site" takes a text, a number, True or False, or a list of them"#);
    assert_snapshot!(refused("web*:\n  attributes: {roles: web}\n"), @r#"minions.d/a.yaml:2:16: an attribute cannot be called "roles": roles have that name"#);
    assert_snapshot!(refused("web*:\n  attributes: [site]\n"), @"minions.d/a.yaml:2:15: attributes are a mapping of names to values: `attributes: {site: berlin}`");
    assert_snapshot!(refused("a: {}\n'G@os:x': {}\n"), @r#"minions.d/a.yaml:2:1: "G@os:x" is not a valid glob of minion ids: ids have letters, digits, dots, dashes and underscores, and globs * ? [ ] { }"#);
    assert_snapshot!(refused("web*: [\n"), @"minions.d/a.yaml:1:7: unclosed bracket '['");
    assert_snapshot!(refused("web*: {}\nweb*: {}\n"), @r#"minions.d/a.yaml:2:1: "web*" occurs twice, first in line 1"#);
    assert_snapshot!(refused("- web\n"), @"minions.d/a.yaml:1:1: expected options, each as `name: value`");
}

#[test]
fn a_conflict_of_two_files_names_both_places() {
    let said = refused(&[
        ("minions.d/a.yaml", "web*: {attributes: {site: berlin}}\n"),
        (
            "minions.d/b.yaml",
            "web1:\n  attributes:\n    site: paris\n",
        ),
    ]);
    assert_snapshot!(said, @r#"minions.d/b.yaml:3:11: attribute "site" of minion web1 has another value here than at minions.d/a.yaml:1:27; a minion has one value of each attribute"#);
}

#[test]
fn what_others_can_change_is_refused() {
    let file = "minions.d/a.yaml";
    for open in [file, "minions.d", ""] {
        let dir = folder(&[(file, "web*: {roles: web}\n")]);
        assert!(read(dir.path()).is_ok());
        let path = dir.path().join(open);
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let mut loaded = match MasterConfig::load(dir.path(), SCHEMES) {
            Ok(loaded) => loaded,
            // Root refuses such a folder of the configuration in any case.
            Err(error) => {
                assert!(open.is_empty(), "{error}");
                continue;
            }
        };
        let refused = loaded.read_assignments(dir.path()).unwrap_err().to_string();
        assert!(refused.starts_with("others can change "), "{refused}");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_link_into_a_folder_that_others_can_change_is_refused() {
    let elsewhere = folder(&[("a.yaml", "web*: {roles: web}\n")]);
    for (name, to) in [
        ("minions.d/b.yaml", elsewhere.path().join("a.yaml")),
        ("minions.d", elsewhere.path().join("inner")),
    ] {
        std::fs::set_permissions(elsewhere.path(), Permissions::from_mode(0o755)).unwrap();
        let dir = folder(&[("master", "")]);
        let link = dir.path().join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::fs::create_dir_all(elsewhere.path().join("inner")).unwrap();
        std::fs::write(elsewhere.path().join("inner/c.yaml"), "db*: {roles: db}\n").unwrap();
        std::os::unix::fs::symlink(&to, &link).unwrap();
        assert!(read(dir.path()).is_ok());
        std::fs::set_permissions(elsewhere.path(), Permissions::from_mode(0o777)).unwrap();
        let refused = read(dir.path()).unwrap_err().to_string();
        let folder = elsewhere.path().canonicalize().unwrap();
        let led = format!("is a link into {}, which", folder.display());
        assert!(refused.starts_with(&format!("{name}, ")), "{refused}");
        assert!(refused.contains(&led), "{refused}");
    }
}

#[test]
fn changed_assignments_are_taken_over_by_a_running_master() {
    let dir = folder(&[("minions.d/a.yaml", "web*: {roles: web}\n")]);
    let before = read(dir.path()).unwrap();
    let changed = |before: &Loaded<MasterConfig>| -> Vec<_> {
        let changed = read(dir.path()).unwrap().changed_since(before).into_iter();
        changed
            .map(|option| (option.name, option.is_taken_over))
            .collect()
    };
    assert_eq!(changed(&before), []);
    std::fs::write(dir.path().join("minions.d/b.yaml"), "db*: {roles: db}\n").unwrap();
    assert_eq!(changed(&before), [("minions.d".to_owned(), true)]);
}
