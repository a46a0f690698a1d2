//! The walk gives the answers of `openat2`, in trees of files, folders and links that nobody thought of.

use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::Root;
use crate::resolve::by_openat2;
use crate::walk;

/// What the tree has under a name of `["a", "b", "c", "d/a", "d/b"]`.
#[derive(Debug, Clone)]
enum Thing {
    Absent,
    File,
    Folder,
    Link(String),
}

fn thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        1 => Just(Thing::Absent),
        2 => Just(Thing::File),
        1 => Just(Thing::Folder),
        6 => target().prop_map(Thing::Link),
    ]
}

fn target() -> impl Strategy<Value = String> {
    let component = prop_oneof![
        Just("a"),
        Just("b"),
        Just("c"),
        Just("d"),
        Just(".."),
        Just("."),
        Just("")
    ];
    let components = prop::collection::vec(component, 1..5).prop_map(|parts| parts.join("/"));
    components.prop_filter("links are not empty", |target| !target.is_empty())
}

fn identity(opened: Result<std::os::fd::OwnedFd, Errno>) -> Result<u64, Errno> {
    fstat(&opened?).map(|found| found.st_ino)
}

proptest! {
    #[test]
    fn the_walk_answers_as_openat2(
        things in prop::collection::vec(thing(), 5),
        paths in prop::collection::vec(target(), 1..10),
    ) {
        let all = TempDir::new().unwrap();
        let base = all.path().join("root");
        std::fs::create_dir_all(base.join("d")).unwrap();
        for (thing, name) in things.iter().zip(["a", "b", "c", "d/a", "d/b"]) {
            let path = base.join(name);
            match thing {
                Thing::Absent => {}
                Thing::File => std::fs::write(path, name).unwrap(),
                Thing::Folder => std::fs::create_dir(path).unwrap(),
                Thing::Link(target) => symlink(target, path).unwrap(),
            }
        }
        let root = Root::open(&base).unwrap();
        if matches!(by_openat2(&root.folder, ".", OFlags::PATH), Err(Errno::NOSYS | Errno::PERM)) {
            eprintln!("skipped: this system has no openat2");
            return Ok(());
        }
        for path in paths.iter().filter(|path| !path.starts_with('/')) {
            let expected = identity(by_openat2(&root.folder, path, OFlags::PATH));
            // Other tests rename all the time, and the kernel then gives no answer about `..`.
            if expected == Err(Errno::AGAIN) {
                continue;
            }
            let walked = identity(walk::open_beneath(root.folder.as_fd(), path, OFlags::PATH));
            prop_assert_eq!(walked, expected, "{}", path);
        }
    }
}
