use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use super::Jail;
use crate::InnerPath;

#[test]
fn a_file_gets_its_name_when_it_is_complete() {
    let jail = Jail::new();
    let path = InnerPath::parse("new/folders/file").unwrap();
    let mut new = jail.root.store(&path, ".file.part").unwrap();
    new.file().write_all(b"half").unwrap();
    assert!(!jail.path("new/folders/file").exists());
    // A later process goes on.
    drop(new);
    let mut new = jail.root.store(&path, ".file.part").unwrap();
    let mut before = String::new();
    new.file().read_to_string(&mut before).unwrap();
    assert_eq!(before, "half");
    new.file().write_all(b" and half").unwrap();
    new.complete(0o750, true).unwrap();
    assert_eq!(
        jail.read("new/folders/file"),
        Ok("half and half".to_owned())
    );
    let mode = jail
        .path("new/folders/file")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o750);
    assert!(!jail.path("new/folders/.file.part").exists());
    jail.root
        .store(&path, ".file.part")
        .unwrap()
        .discard()
        .unwrap();
    assert!(!jail.path("new/folders/.file.part").exists());
    jail.root.remove(&path).unwrap();
    jail.root.remove(&path).unwrap();
    assert!(!jail.path("new/folders/file").exists());
}

#[test]
fn no_link_is_followed_when_something_is_stored() {
    let jail = Jail::new();
    jail.link("..", "out");
    jail.link("folder", "inside");
    for path in ["out/file", "inside/file", "file/below"] {
        let path = InnerPath::parse(path).unwrap();
        let error = jail.root.store(&path, ".part").unwrap_err().to_string();
        assert!(error.ends_with(" is not a folder"), "{path}: {error}");
    }
    jail.link("../secret", "folder/.part");
    let path = InnerPath::parse("folder/file").unwrap();
    jail.root.store(&path, ".part").unwrap_err();
    // A link that has the name is replaced, and what it leads to stays.
    jail.link("../../secret", "folder/file");
    let new = jail.root.store(&path, ".other").unwrap();
    new.complete(0o600, false).unwrap();
    assert_eq!(jail.read("folder/file"), Ok(String::new()));
    let secret = std::fs::read_to_string(jail.all.path().join("secret")).unwrap();
    assert_eq!(secret, "secret");
    for name in ["", "..", "a/b"] {
        jail.root.store(&path, name).unwrap_err();
    }
    jail.root.store(&InnerPath::root(), ".part").unwrap_err();
}

#[test]
fn a_folder_is_removed_with_what_is_below_it_and_nothing_that_links_lead_to() {
    let jail = Jail::new();
    for path in ["gone/a/b/file", "gone/other", "kept/file"] {
        let path = InnerPath::parse(path).unwrap();
        let new = jail.root.store(&path, ".part").unwrap();
        new.complete(0o600, false).unwrap();
    }
    std::os::unix::fs::symlink(jail.path("kept"), jail.path("gone/a/link")).unwrap();
    let gone = InnerPath::parse("gone").unwrap();
    jail.root.remove_folder(&gone).unwrap();
    assert!(!jail.path("gone").exists());
    assert!(jail.path("kept/file").exists());
    // Again, and below a folder that is gone too.
    jail.root.remove_folder(&gone).unwrap();
    let below = InnerPath::parse("gone/a").unwrap();
    jail.root.remove_folder(&below).unwrap();
    let file = InnerPath::parse("kept/file").unwrap();
    assert!(jail.root.remove_folder(&file).is_err());
    assert!(jail.path("kept/file").exists());
}
