use std::os::unix::fs::PermissionsExt;

use super::*;

const MINION: (&str, Value) = ("backup", Value::Bool(true));

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn what_is_overwritten_is_kept_listed_restored_and_removed() {
    let files = Files::new();
    let path = files.file("conf", "one\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    for line in ["two", "three"] {
        files.done("write", &path, &[line], &[("backup", "minion".into())]);
    }
    let listed = files.done("list_backups", &path, &[], &[]);
    let location = |number: &str| {
        let entry = listed.get(number).unwrap();
        PathBuf::from(entry.get("Location").and_then(Value::as_str).unwrap())
    };
    assert_eq!(
        (read(&location("0")), read(&location("1"))),
        ("two\n".into(), "one\n".into())
    );
    let kept = files.bench.folder.path().join("file_backup");
    assert!(location("0").starts_with(&kept));
    assert_eq!((mode(&kept), mode(&location("0"))), (0o700, 0o640));
    assert_eq!(listed.get("2"), None);

    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let one = [("backup_id", Value::Int(1))];
    assert!(is_changed(&files.done(
        "restore_backup",
        &path,
        &[],
        &[one[0].clone(), TEST]
    )));
    assert_eq!(read(&path), "three\n");
    files.done("restore_backup", &path, &[], &one);
    assert_eq!((read(&path), mode(&path)), ("one\n".to_owned(), 0o640));
    // What was there before is now the newest backup.
    let newest = files.done("list_backups", &path, &[], &[("limit", Value::Int(1))]);
    let entry = newest.get("0").unwrap();
    assert_eq!(
        read(Path::new(entry.get("Location").unwrap().as_str().unwrap())),
        "three\n"
    );
    assert_eq!(newest.get("1"), None);

    files.done("delete_backup", &path, &[], &[("backup_id", Value::Int(0))]);
    assert!(!Path::new(entry.get("Location").unwrap().as_str().unwrap()).exists());
    let none = files.refused("delete_backup", &path, &[], &[("backup_id", Value::Int(9))]);
    assert!(
        none.starts_with("ERROR: there is no backup 9 of FOLDER/conf: there are 2"),
        "{none}"
    );
}

#[test]
fn a_removed_file_comes_back() {
    let files = Files::new();
    let path = files.file("conf", "one\n");
    files.done("remove", &path, &[], &[MINION]);
    assert!(!path.exists());
    files.done(
        "restore_backup",
        &path,
        &[],
        &[("backup_id", Value::Int(0))],
    );
    assert_eq!(read(&path), "one\n");
    let master = files.refused("write", &path, &["x"], &[("backup", "master".into())]);
    assert!(master.contains("expects 'minion' or False"), "{master}");
}
