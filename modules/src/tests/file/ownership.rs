use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

#[test]
fn the_mode_is_set_told_and_followed_through_links() {
    let files = Files::new();
    let path = files.file("f", "");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let link = files.path("link");
    symlink("f", &link).unwrap();
    assert_eq!(files.done("get_mode", &link, &[], &[]), "0644".into());
    let told = files.done("set_mode", &link, &["0600"], &[TEST]);
    assert!(is_changed(&told));
    assert_eq!(files.done("get_mode", &path, &[], &[]), "0644".into());
    // A number of the command line has no leading zero.
    let answer = files
        .bench
        .call(
            "file.set_mode",
            &[link.to_str().unwrap().into(), Value::Int(4750)],
            &[],
        )
        .value;
    assert_eq!(answer.get("old"), Some(&"0644".into()));
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o4750);
    assert!(!is_changed(&files.done("set_mode", &path, &["4750"], &[])));
    assert!(
        files
            .refused("set_mode", &path, &["888"], &[])
            .contains("an octal number")
    );
}

#[test]
fn the_owner_is_set_by_name_or_number() {
    let files = Files::new();
    let path = files.file("f", "");
    let nobody = files.refused("chown", &path, &["no-such-user", ""], &[]);
    assert!(nobody.contains("a user that this machine has"), "{nobody}");
    if !saline_private_files::is_root() {
        eprintln!("skipped: only root can change an owner");
        return;
    }
    assert!(is_changed(&files.done(
        "chown",
        &path,
        &["daemon", "daemon"],
        &[TEST]
    )));
    assert_eq!(path.metadata().unwrap().uid(), 0);
    files.done("chown", &path, &["daemon", ""], &[]);
    let found = path.metadata().unwrap();
    assert_ne!(found.uid(), 0);
    assert_eq!(found.gid(), 0);
    let answer = files.done("chown", &path, &["4711", "4712"], &[]);
    let new = answer.get("new").unwrap();
    assert_eq!(new.get("user"), Some(&"4711".into()));
    let found = path.metadata().unwrap();
    assert_eq!((found.uid(), found.gid()), (4711, 4712));
    // A file that is changed stays theirs.
    files.done("append", &path, &["x"], &[]);
    let found = path.metadata().unwrap();
    assert_eq!((found.uid(), found.gid()), (4711, 4712));
    let folder = files.path("made");
    let owner = [("user", Value::Int(4711)), ("mode", "0700".into())];
    files.done("mkdir", &folder, &[], &owner);
    assert_eq!(folder.metadata().unwrap().uid(), 4711);
}
