use std::os::unix::fs::symlink;

use super::*;

const YES: Value = Value::Bool(true);

fn paths(files: &Files, answer: &Value) -> Vec<String> {
    let Some(Value::List(paths)) = answer.get("paths") else {
        panic!("{answer:?}")
    };
    paths
        .iter()
        .map(|path| files.shown(path.as_str().unwrap()))
        .collect()
}

#[test]
fn files_are_found_by_what_they_are() {
    let files = Files::new();
    std::fs::create_dir_all(files.path("a/b")).unwrap();
    files.file("a/One.log", "12345");
    files.file("a/b/two.LOG", "");
    symlink("/", files.path("a/root")).unwrap();
    let find = |named: &[(&str, Value)]| {
        paths(&files, &files.done("find", files.folder.path(), &[], named))
    };
    assert_eq!(
        find(&[]),
        [
            "FOLDER",
            "FOLDER/a",
            "FOLDER/a/One.log",
            "FOLDER/a/b",
            "FOLDER/a/b/two.LOG",
            "FOLDER/a/root"
        ]
    );
    assert_eq!(find(&[("name", "*.log".into())]), ["FOLDER/a/One.log"]);
    assert_eq!(
        find(&[("iname", "*.LOG".into()), ("size", "0".into())]),
        ["FOLDER/a/b/two.LOG"]
    );
    assert_eq!(find(&[("regex", "/b/".into())]), ["FOLDER/a/b/two.LOG"]);
    assert_eq!(find(&[("iregex", "one".into())]), ["FOLDER/a/One.log"]);
    assert_eq!(find(&[("type", "l".into())]), ["FOLDER/a/root"]);
    assert_eq!(
        find(&[
            ("type", "d".into()),
            ("maxdepth", Value::Int(1)),
            ("mindepth", Value::Int(1))
        ]),
        ["FOLDER/a"]
    );
    assert_eq!(find(&[("mtime", "+1h".into())]), [""; 0]);
    assert_eq!(
        find(&[("size", "+5".into()), ("type", "f".into())]),
        ["FOLDER/a/One.log"]
    );
    let cut = files.done(
        "find",
        files.folder.path(),
        &[],
        &[("limit", Value::Int(2))],
    );
    assert_eq!((paths(&files, &cut).len(), cut.get("cut")), (2, Some(&YES)));
    assert!(
        files
            .refused("find", &files.path("none"), &[], &[])
            .contains("No such file")
    );
}

#[test]
fn lines_are_found_and_the_answer_says_that_it_was_cut() {
    let files = Files::new();
    let path = files.file("log", "Error 1\nfine\nerror 2\nerrors\n");
    let lines = |positional: &[&str], named: &[(&str, Value)]| {
        files.call("grep", &path, positional, named).value
    };
    let all = lines(&["error", "-i", "-n", "-w"], &[]);
    assert_eq!(
        all.get("lines"),
        Some(&Value::texts(["1:Error 1", "3:error 2"]))
    );
    assert_eq!(all.get("cut"), None);
    let cut = lines(&["rror"], &[("limit", Value::Int(1))]);
    assert_eq!(cut.get("count"), Some(&Value::Int(3)));
    assert_eq!(cut.get("lines"), Some(&Value::texts(["Error 1"])));
    assert_eq!(cut.get("cut"), Some(&YES));
    assert_eq!(
        lines(&["error", "-v", "-c"], &[]),
        Value::map([("count", 2_i64)].map(|(k, n)| (k, Value::Int(n))))
    );
    assert_eq!(files.call("grep", &path, &["nothing"], &[]).retcode, 1);
    assert!(
        files
            .refused("grep", &path, &["x", "-r"], &[])
            .contains("one of -i")
    );
    assert_eq!(files.done("contains", &path, &["r 2\ne"], &[]), YES);
    assert_eq!(
        files.done("contains", &path, &["."], &[]),
        Value::Bool(false)
    );
}

#[test]
fn a_path_is_told_by_type_access_status_and_hash() {
    let files = Files::new();
    let path = files.file("f", "abc");
    let missing = files.path("missing");
    let no = Value::Bool(false);
    assert_eq!(files.done("file_exists", &path, &[], &[]), YES);
    assert_eq!(files.done("file_exists", files.folder.path(), &[], &[]), no);
    assert_eq!(files.done("file_exists", &missing, &[], &[]), no);
    assert_eq!(
        files.done("directory_exists", files.folder.path(), &[], &[]),
        YES
    );
    assert_eq!(files.done("access", &path, &["r"], &[]), YES);
    assert_eq!(files.done("access", &path, &["x"], &[]), no);
    assert_eq!(files.done("access", &missing, &["f"], &[]), no);
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(files.done("get_hash", &path, &[], &[]), sha256.into());
    assert_eq!(
        files.done("get_hash", &path, &["sha1"], &[]),
        "a9993e364706816aba3e25717850c26c9cd0d89d".into()
    );
    assert!(
        files
            .refused("get_hash", &path, &["md5"], &[])
            .contains("one of sha1")
    );
    let stats = files.done("stats", &path, &[], &[("hash_type", "sha256".into())]);
    assert_eq!(stats.get("type"), Some(&"file".into()));
    assert_eq!(stats.get("size"), Some(&Value::Int(3)));
    assert_eq!(stats.get("sum"), Some(&sha256.into()));
    symlink("f", files.path("link")).unwrap();
    let link = [("follow_symlinks", no)];
    let stats = files.done("stats", &files.path("link"), &[], &link);
    assert_eq!(stats.get("type"), Some(&"link".into()));
}
