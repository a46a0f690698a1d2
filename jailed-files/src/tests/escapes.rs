use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, Mode, mknodat};

use super::Jail;

const LEADS_OUT: &str = "a link on the way leads out of the root, and is not followed";

#[test]
fn links_that_stay_inside_are_followed_and_others_are_not() {
    let jail = Jail::new();
    jail.link("file", "link");
    jail.link("../file", "folder/up");
    jail.link("folder", "to_folder");
    jail.link("link", "twice");
    for path in ["link", "folder/up", "twice", "to_folder/up"] {
        assert_eq!(jail.read(path), Ok("content".to_owned()), "{path}");
    }
    jail.link("../secret", "out");
    jail.link(jail.path("file"), "absolute");
    jail.link("/etc", "etc");
    jail.link("../../root/file", "folder/out_and_in");
    jail.link("/proc/self/root", "magic");
    jail.link("..", "parent");
    for path in [
        "out",
        "absolute",
        "etc/passwd",
        "folder/out_and_in",
        "magic/etc/passwd",
        "parent/secret",
        "parent/root/file",
    ] {
        assert_eq!(jail.read(path), Err(LEADS_OUT.to_owned()), "{path}");
    }
    jail.link("circle", "circle");
    let too_many = "there are too many links on the way".to_owned();
    assert_eq!(jail.read("circle"), Err(too_many));
}

#[test]
fn what_is_no_regular_file_is_refused_without_being_opened() {
    let jail = Jail::new();
    let pipe = jail.path("pipe");
    mknodat(
        CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(jail.path("socket")).unwrap();
    jail.link("pipe", "to_pipe");
    let special = Err("it is neither a file nor a folder".to_owned());
    for path in ["pipe", "to_pipe", "socket"] {
        assert_eq!(jail.read(path), special, "{path}");
    }
    let device = rustix::fs::makedev(1, 3);
    let made = mknodat(
        CWD,
        jail.path("null"),
        rustix::fs::FileType::CharacterDevice,
        Mode::RUSR,
        device,
    );
    // Root alone makes devices.
    if made.is_ok() {
        assert_eq!(jail.read("null"), special);
    }
    let folder = Err("it is a folder, and no file".to_owned());
    assert_eq!(jail.read("folder"), folder);
    assert_eq!(jail.read(""), folder);
}

#[test]
fn what_is_not_there_is_said() {
    let jail = Jail::new();
    for path in [
        "absent",
        "absent/file",
        "file/below",
        "file/",
        "folder/absent",
    ] {
        match jail.read(path) {
            // The slash is left out of an inner path.
            Ok(content) => assert_eq!((path, content.as_str()), ("file/", "content")),
            Err(error) => assert_eq!(error, "there is no such file", "{path}"),
        }
    }
}

#[test]
fn names_in_other_encodings_are_not_listed_and_do_no_harm() {
    let jail = Jail::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    std::fs::write(jail.path("").join(name), "latin 1").unwrap();
    std::fs::write(jail.path("new\nline"), "two").unwrap();
    let limits = crate::ListingLimits {
        entries: 10,
        bytes: 1_000,
    };
    let root = crate::InnerPath::root();
    let listing = jail.root.list(&root, limits, |_| true).unwrap().unwrap();
    let paths: Vec<&str> = listing.after(None).map(|entry| entry.path).collect();
    assert_eq!(paths, ["file", "folder", "folder/inner", "new\nline"]);
    assert_eq!(listing.skipped, 1);
    assert_eq!(jail.read("new\nline"), Ok("two".to_owned()));
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let jail = Jail::new();
    std::fs::write(jail.path("large"), "x".repeat(1_001)).unwrap();
    assert_eq!(
        jail.read("large"),
        Err("it has more than 1000 bytes".to_owned())
    );
    std::fs::write(jail.path("large"), "x".repeat(1_000)).unwrap();
    assert_eq!(jail.read("large").unwrap().len(), 1_000);
}
