//! Files that are swapped while they are opened and read.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, Mode, OFlags, mknodat};
use saline_testing::SwappedNames;

use super::Jail;
use crate::InnerPath;
use crate::resolve::by_openat2;
use crate::walk;

/// How often a file is opened while it is swapped.
const OPENED: usize = 3_000;

#[test]
fn a_file_that_is_swapped_for_a_link_is_never_read_outside() {
    let jail = Jail::new();
    jail.link("../secret", "other");
    let swapping = SwappedNames::new(jail.path("file"), jail.path("other"));
    let (mut read, mut refused) = (0, 0);
    // On a busy machine the other thread may stand still for long.
    while read + refused < OPENED || read == 0 || refused == 0 {
        match jail.read("file") {
            Ok(content) => {
                assert_eq!(content, "content");
                read += 1;
            }
            Err(error) => {
                assert!(error.contains("leads out"), "{error}");
                refused += 1;
            }
        }
        assert!(read + refused < 10_000 * OPENED, "nothing is swapped");
    }
    drop(swapping);
}

#[test]
fn a_folder_that_is_swapped_for_a_link_is_never_left() {
    let jail = Jail::new();
    std::fs::create_dir(jail.all.path().join("outside")).unwrap();
    std::fs::write(jail.all.path().join("outside/inner"), "secret").unwrap();
    symlink("../outside", jail.path("other")).unwrap();
    let swapping = SwappedNames::new(jail.path("folder"), jail.path("other"));
    let path = InnerPath::parse("folder/inner").unwrap();
    for _ in 0..OPENED {
        if let Ok(file) = jail.root.open_file(&path) {
            let mut content = [0; 5];
            file.read_at(&mut content, 0).unwrap();
            assert_eq!(&content, b"inner");
        }
        for open in [by_openat2, walk_from] {
            if let Ok(file) = open(&jail.root.folder, path.as_str(), OFlags::RDONLY) {
                let mut content = [0; 5];
                rustix::io::read(&file, &mut content).unwrap();
                assert_eq!(&content, b"inner");
            }
        }
    }
    drop(swapping);
}

fn walk_from(
    root: &std::os::fd::OwnedFd,
    path: &str,
    flags: OFlags,
) -> Result<std::os::fd::OwnedFd, rustix::io::Errno> {
    use std::os::fd::AsFd;
    walk::open_beneath(root.as_fd(), path, flags)
}

#[test]
fn a_file_that_is_swapped_for_a_pipe_never_makes_the_reader_wait() {
    let jail = Jail::new();
    let pipe = jail.path("pipe");
    mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let swapping = SwappedNames::new(jail.path("file"), pipe);
    for _ in 0..OPENED {
        match jail.read("file") {
            Ok(content) => assert_eq!(content, "content"),
            Err(error) => assert_eq!(error, "it is neither a file nor a folder"),
        }
    }
    drop(swapping);
}

#[test]
fn a_file_that_is_written_or_replaced_has_another_version() {
    let jail = Jail::new();
    let path = InnerPath::parse("file").unwrap();
    let file = jail.root.open_file(&path).unwrap();
    assert_eq!(file.version_now().unwrap(), file.version());
    std::fs::write(jail.path("new"), "another").unwrap();
    std::fs::rename(jail.path("new"), jail.path("file")).unwrap();
    let replaced = jail.root.open_file(&path).unwrap();
    assert_ne!(replaced.version(), file.version());
    std::fs::write(jail.path("file"), "longer than before").unwrap();
    assert_ne!(replaced.version_now().unwrap(), replaced.version());
}
