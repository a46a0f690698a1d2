use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

#[test]
fn lines_are_written_appended_and_prepended_and_a_test_changes_nothing() {
    let files = Files::new();
    let path = files.path("motd");
    let told = files.done("write", &path, &["one", "two"], &[TEST]);
    assert!(is_changed(&told) && !path.exists());
    let answer = files.done("write", &path, &["one", "two"], &[]);
    insta::assert_snapshot!(files.diff(&answer), @r"
    --- /dev/null
    +++ FOLDER/motd
    @@ -0,0 +1,2 @@
    +one
    +two
    ");
    assert!(!is_changed(&files.done(
        "write",
        &path,
        &["one", "two"],
        &[]
    )));
    files.file("motd", "one\ntwo");
    let answer = files.done("append", &path, &["three"], &[]);
    insta::assert_snapshot!(files.diff(&answer), @r"
    --- FOLDER/motd
    +++ FOLDER/motd
    @@ -1,2 +1,3 @@
     one
    -two
    \ No newline at end of file
    +two
    +three
    ");
    let list = ("args", Value::texts(["zero"]));
    files.done("prepend", &path, &[], std::slice::from_ref(&list));
    assert_eq!(read(&path), "zero\none\ntwo\nthree\n");
    let both = files.refused("write", &path, &["a"], &[list]);
    assert!(both.contains("not both"), "{both}");
    assert_eq!(files.names(), ["motd"]);
}

#[test]
fn a_changed_file_keeps_its_mode_and_extended_attributes() {
    let files = Files::new();
    let path = files.file("secret", "a\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4640)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let has_attributes = rustix::fs::setxattr(&path, "user.note", b"kept", flags).is_ok();
    let inode = path.metadata().unwrap().ino();
    files.done("append", &path, &["b"], &[]);
    let now = path.metadata().unwrap();
    assert_eq!(now.mode() & 0o7777, 0o4640);
    assert_ne!(now.ino(), inode, "it was written in place");
    if has_attributes {
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(&path, "user.note", &mut value).unwrap();
        assert_eq!(&value[..length], b"kept");
    }
    assert_eq!(files.names(), ["secret"]);
}

#[test]
fn a_link_is_followed_and_stays_a_link() {
    let files = Files::new();
    let path = files.file("real", "a\n");
    let link = files.path("link");
    symlink("real", &link).unwrap();
    files.done("append", &link, &["b"], &[]);
    assert_eq!(read(&path), "a\nb\n");
    assert!(link.is_symlink());
    symlink("loop", files.path("loop")).unwrap();
    let refused = files.refused("append", &files.path("loop"), &["b"], &[]);
    assert!(refused.contains("too many links"), "{refused}");
}

#[test]
fn a_foreign_link_in_a_shared_folder_is_not_followed() {
    let files = Files::new();
    if !saline_private_files::is_root() {
        eprintln!("skipped: only root can make the link of somebody else");
        return;
    }
    let target = files.file("target", "a\n");
    let shared = files.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
    let link = shared.join("link");
    symlink(&target, &link).unwrap();
    files.done("append", &link, &["own"], &[]);
    std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
    let refused = files.refused("append", &link, &["theirs"], &[]);
    assert!(refused.contains("somebody else"), "{refused}");
    assert_eq!(read(&target), "a\nown\n");
}

#[test]
fn what_is_no_regular_file_and_no_absolute_path_is_refused() {
    let files = Files::new();
    let refused = files.refused("read", Path::new("etc/hosts"), &[], &[]);
    assert!(
        refused.contains("read() expects an absolute path as 'path', not \"etc/hosts\""),
        "{refused}"
    );
    let folder = files.refused("write", files.folder.path(), &["a"], &[]);
    assert!(folder.contains("it is a folder"), "{folder}");
    let device = files.refused("append", Path::new("/dev/null"), &["a"], &[]);
    assert!(device.contains("it is a device"), "{device}");
    let missing = files.refused("write", &files.path("none/x"), &["a"], &[]);
    assert!(missing.contains("No such file"), "{missing}");
}

#[test]
fn a_file_is_read_whole_or_its_last_lines() {
    let files = Files::new();
    let path = files.file("log", "1\n2\n3\n4\n");
    let tail = |lines: i64| files.done("tail", &path, &[], &[("lines", Value::Int(lines))]);
    assert_eq!(files.done("read", &path, &[], &[]), "1\n2\n3\n4\n".into());
    assert_eq!(tail(2), "3\n4".into());
    assert_eq!(tail(9), "1\n2\n3\n4".into());
    assert_eq!(tail(0), "".into());
    let binary = files.file("binary", [0xff, 0, 1]);
    assert_eq!(
        files.done("read", &binary, &[], &[]),
        Value::Bytes(vec![0xff, 0, 1])
    );
}

#[test]
fn a_diff_is_bounded_and_can_be_left_out() {
    let files = Files::new();
    let long = "a line that is written many times\n".repeat(10_000);
    let path = files.path("long");
    let answer = files.done("write", &path, &[&long], &[]);
    let diff = files.diff(&answer);
    assert!(
        diff.len() < 66_000 && diff.ends_with("are shown)\n"),
        "{}",
        diff.len()
    );
    let silent = ("show_changes", Value::Bool(false));
    assert_eq!(
        files.done("write", &path, &["x"], &[silent]).get("diff"),
        None
    );
    let binary = files.file("binary", [0, 1, 2]);
    let answer = files.done("append", &binary, &["x"], &[]);
    assert_eq!(
        files.diff(&answer),
        "(no diff: the file is binary; 3 bytes before, 6 bytes after)\n"
    );
}

#[test]
fn touch_creates_a_file_and_sets_its_times() {
    let files = Files::new();
    let path = files.path("flag");
    files.done("touch", &path, &[], &[TEST]);
    assert!(!path.exists());
    files.done("touch", &path, &[], &[("mtime", Value::Int(1000))]);
    assert_eq!(path.metadata().unwrap().mtime(), 1000);
    files.done("touch", &path, &[], &[]);
    assert!(path.metadata().unwrap().mtime() > 1_600_000_000);
}
