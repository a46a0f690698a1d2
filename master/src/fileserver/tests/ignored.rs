//! Files that `file_ignore_regex` and `file_ignore_glob` leave out.

use super::*;

#[tokio::test]
async fn what_is_ignored_in_a_folder_is_ignored_at_a_root_too() {
    let served = Served::with(|config| {
        config.files.ignore_regex = vec![r"/\.git($|/)".to_owned()];
        config.files.ignore_glob = vec!["*/.svn/*".to_owned()];
    });
    for folder in [".git", "sub/.git", ".svn", "sub/.svn"] {
        std::fs::create_dir_all(served.path(folder)).unwrap();
        std::fs::write(served.path(folder).join("config"), "a password").unwrap();
    }
    for kept in [".gitignore", "a.git", "sub/x"] {
        std::fs::write(served.path(kept), "").unwrap();
        served.seen(kept).await;
    }
    for ignored in [
        ".git/config",
        "sub/.git/config",
        ".svn/config",
        "sub/.svn/config",
    ] {
        assert_eq!(
            served.look(ignored).await,
            refused(FileRefusal::NoFile),
            "{ignored}"
        );
    }
    let request = FileRequest::List {
        environment: "base".to_owned(),
        below: String::new(),
        after: None,
        bytes: 100_000,
    };
    let MinionReply::Files(FileReply::Listed(page)) = served.ask("m1", request).await else {
        panic!("no page");
    };
    let files = page
        .entries
        .iter()
        .filter(|entry| entry.kind == FileKind::File);
    let files: Vec<&str> = files.map(|entry| entry.path.as_str()).collect();
    assert_eq!(files, [".gitignore", "a.git", "sub/x"]);
}
