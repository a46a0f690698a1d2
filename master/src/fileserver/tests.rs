//! A file server, asked as minions ask, honest and hostile ones.

mod bounds;
mod ignored;
mod races;
mod uploads;

use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;

use saline_config::MasterConfig;
use saline_messages::{FileKind, Part, SeenFile, TransferId};
use saline_protocol::transport::Clock;
use tempfile::TempDir;

use super::*;

struct Served {
    folder: TempDir,
    files: FileServer,
    context: Context,
}

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

impl Served {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut MasterConfig)) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        let mut config = MasterConfig::default();
        config.paths.cache_dir = folder.path().join("cache");
        config.files.roots = Some([("base".to_owned(), vec![folder.path().join("root")])].into());
        change(&mut config);
        let context = Context::default();
        let settings = LiveSettings::new(&config);
        Self {
            files: FileServer::new(&config, settings, &context),
            folder,
            context,
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join("root").join(below)
    }

    async fn ask(&self, minion: &str, request: FileRequest) -> MinionReply {
        self.files.answer(&id(minion), request).await
    }

    async fn look(&self, path: &str) -> MinionReply {
        self.ask("m1", FileRequest::Look(place(path))).await
    }

    async fn seen(&self, path: &str) -> SeenFile {
        match self.look(path).await {
            MinionReply::Files(FileReply::Seen(seen)) => seen,
            other => panic!("{other:?}"),
        }
    }

    async fn part(&self, path: &str, seen: SeenFile, offset: u64, bytes: u32) -> MinionReply {
        let request = FileRequest::Part {
            place: place(path),
            transfer: seen.transfer,
            offset,
            bytes,
        };
        self.ask("m1", request).await
    }
}

fn place(path: &str) -> FilePlace {
    FilePlace {
        environment: "base".to_owned(),
        path: path.to_owned(),
    }
}

fn refused(why: FileRefusal) -> MinionReply {
    MinionReply::Files(FileReply::Refused(why))
}

#[tokio::test]
async fn a_file_is_seen_and_sent_in_parts() {
    let served = Served::new();
    std::fs::write(served.path("file"), b"0123456789").unwrap();
    let seen = served.seen("file").await;
    assert_eq!(
        (seen.size, seen.transfer),
        (10, TransferId::of(b"0123456789"))
    );
    let part = |offset, bytes: &[u8]| {
        MinionReply::Files(FileReply::Part(Part {
            transfer: seen.transfer,
            total: 10,
            offset,
            bytes: bytes.to_vec().into(),
        }))
    };
    assert_eq!(served.part("file", seen, 0, 4).await, part(0, b"0123"));
    assert_eq!(served.part("file", seen, 8, 4).await, part(8, b"89"));
    for behind in [10, 11, u64::MAX] {
        assert_eq!(
            served.part("file", seen, behind, u32::MAX).await,
            part(10, b"")
        );
    }
    std::fs::write(served.path("empty"), b"").unwrap();
    let empty = served.seen("empty").await;
    assert_eq!((empty.size, empty.transfer), (0, TransferId::of(b"")));
}

#[tokio::test]
async fn a_file_that_is_written_or_replaced_is_noticed() {
    let served = Served::new();
    std::fs::write(served.path("file"), b"one").unwrap();
    let seen = served.seen("file").await;
    let changed = MinionReply::Files(FileReply::Changed);
    std::fs::write(served.path("new"), b"two").unwrap();
    std::fs::rename(served.path("new"), served.path("file")).unwrap();
    assert_eq!(served.part("file", seen, 0, 9).await, changed);
    let seen = served.seen("file").await;
    assert_eq!(seen.transfer, TransferId::of(b"two"));
    // Written so shortly after it was read that its times may be the same: it is looked at again.
    std::fs::write(served.path("file"), b"six").unwrap();
    assert_eq!(served.seen("file").await.transfer, TransferId::of(b"six"));
    // An id that no file has, and a part before any look.
    let never = SeenFile {
        transfer: TransferId([0; 32]),
        ..seen
    };
    assert_eq!(served.part("file", never, 0, 9).await, changed);
}

#[tokio::test]
async fn nothing_outside_of_the_roots_is_served() {
    let served = Served::new();
    std::fs::write(served.folder.path().join("secret"), b"s").unwrap();
    symlink("../secret", served.path("out")).unwrap();
    symlink("/etc/passwd", served.path("passwd")).unwrap();
    let pipe = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, served.path("pipe"), pipe, mode, 0).unwrap();
    for (path, why) in [
        ("../secret", FileRefusal::BadPath),
        ("/etc/passwd", FileRefusal::BadPath),
        ("a/../../secret", FileRefusal::BadPath),
        ("a\0b", FileRefusal::BadPath),
        (&"a".repeat(10_000), FileRefusal::BadPath),
        ("out", FileRefusal::BadPath),
        ("passwd", FileRefusal::BadPath),
        ("pipe", FileRefusal::NoFile),
        ("", FileRefusal::NoFile),
        ("absent", FileRefusal::NoFile),
    ] {
        assert_eq!(served.look(path).await, refused(why), "{path:?}");
        let nothing = SeenFile {
            size: 1,
            mode: 0,
            transfer: TransferId([0; 32]),
        };
        assert_eq!(
            served.part(path, nothing, 0, 1).await,
            refused(why),
            "{path:?}"
        );
        let below = FileRequest::List {
            environment: "base".to_owned(),
            below: path.to_owned(),
            after: None,
            bytes: 1_000,
        };
        let listed = served.ask("m1", below).await;
        assert!(
            path.is_empty() || matches!(listed, MinionReply::Files(FileReply::Refused(_))),
            "{path:?}"
        );
    }
    for environment in ["", "absent", "..", "base/../base", &"b".repeat(100_000)] {
        let place = FilePlace {
            environment: environment.to_owned(),
            path: "out".to_owned(),
        };
        let looked = served.ask("m1", FileRequest::Look(place)).await;
        assert_eq!(looked, refused(FileRefusal::NoEnvironment));
    }
}

#[tokio::test]
async fn a_huge_file_without_blocks_is_refused_at_once() {
    let served = Served::new();
    let file = std::fs::File::create(served.path("huge")).unwrap();
    if file.set_len(1 << 40).is_err() {
        eprintln!("skipped: this file system has no files of a tebibyte");
        return;
    }
    assert_eq!(served.look("huge").await, refused(FileRefusal::TooLarge));
    assert_eq!(served.files.figures().hashed(), 0);
}

#[tokio::test]
async fn a_listing_goes_page_by_page_over_all_roots() {
    let served = Served::with(|config| {
        let roots = config
            .files
            .roots
            .as_mut()
            .unwrap()
            .get_mut("base")
            .unwrap();
        let second = roots[0].with_file_name("second");
        std::fs::create_dir_all(second.join("a")).unwrap();
        std::fs::write(second.join("a/two"), "").unwrap();
        std::fs::write(second.join("both"), "").unwrap();
        roots.push(second);
    });
    std::fs::create_dir(served.path("a")).unwrap();
    for name in ["a/one", "a-b", "both", "z"] {
        std::fs::write(served.path(name), "").unwrap();
    }
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let request = FileRequest::List {
            environment: "base".to_owned(),
            below: String::new(),
            after: after.clone(),
            bytes: 1,
        };
        let MinionReply::Files(FileReply::Listed(page)) = served.ask("m1", request).await else {
            panic!("no page");
        };
        assert_eq!(page.entries.len(), 1, "a page has one entry at least");
        let entry = page.entries.into_iter().next().unwrap();
        after = Some(entry.path.clone());
        found.push((entry.path, entry.kind));
        if !page.more {
            break;
        }
    }
    let (file, folder) = (FileKind::File, FileKind::Folder);
    let expected = [
        ("a", folder),
        ("a/one", file),
        ("a/two", file),
        ("a-b", file),
        ("both", file),
        ("z", file),
    ];
    assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[tokio::test]
async fn ten_thousand_requests_at_once_are_all_answered_and_bounded() {
    let served = Served::new();
    std::fs::write(served.path("file"), vec![7; 300_000]).unwrap();
    let seen = served.seen("file").await;
    let mut asked = Vec::new();
    for number in 0..10_000_u64 {
        let request = FileRequest::Part {
            place: place("file"),
            transfer: seen.transfer,
            offset: number % 300_000,
            bytes: 64,
        };
        let files = served.files.clone();
        let (sender, answer) = tokio::sync::oneshot::channel();
        served.context.spawn(async move {
            let _ = sender.send(files.answer(&id("m1"), request).await);
        });
        asked.push(answer);
    }
    for answer in asked {
        match answer.await.unwrap() {
            MinionReply::Files(FileReply::Part(part)) => assert_eq!(part.bytes, [7; 64][..]),
            MinionReply::Busy { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn pushed(path: &str, whole: &[u8], offset: usize, length: usize) -> FileRequest {
    FileRequest::Push {
        path: path.to_owned(),
        part: Part {
            transfer: TransferId::of(whole),
            total: whole.len() as u64,
            offset: offset as u64,
            bytes: whole[offset..offset + length].to_vec().into(),
        },
    }
}

fn received(bytes: u64) -> MinionReply {
    MinionReply::Files(FileReply::Received(bytes))
}

#[tokio::test]
async fn a_pushed_file_is_stored_when_it_is_whole() {
    let served = Served::with(|config| {
        config.files.receive = true;
        config.files.receive_max = 100;
    });
    let whole = b"0123456789";
    let stored = served.folder.path().join("cache/minions/m1/files/logs/x");
    let ask = |request| served.ask("m1", request);
    assert_eq!(ask(pushed("logs/x", whole, 0, 4)).await, received(4));
    // Sent again, and one that overtook another: nothing changes.
    assert_eq!(ask(pushed("logs/x", whole, 0, 4)).await, received(4));
    assert_eq!(ask(pushed("logs/x", whole, 8, 2)).await, received(4));
    assert!(!stored.exists());
    assert_eq!(ask(pushed("logs/x", whole, 4, 6)).await, received(10));
    assert_eq!(std::fs::read(&stored).unwrap(), whole);
    // Other bytes than were announced.
    let FileRequest::Push { path, mut part } = pushed("logs/y", whole, 0, 10) else {
        unreachable!()
    };
    part.bytes = [&whole[..9], b"!"].concat().into();
    assert_eq!(ask(FileRequest::Push { path, part }).await, received(0));
    assert!(!stored.with_file_name("y").exists());
    assert_eq!(ask(pushed("empty", b"", 0, 0)).await, received(0));
    assert!(stored.parent().unwrap().with_file_name("empty").exists());
    // It is beneath the minion's own root, of a bounded size.
    for path in ["../m2/files/x", "/etc/x", "a/../../x", ""] {
        assert_eq!(
            ask(pushed(path, whole, 0, 10)).await,
            refused(FileRefusal::BadPath),
            "{path:?}"
        );
    }
    assert_eq!(
        ask(pushed("logs/x/below", whole, 0, 10)).await,
        refused(FileRefusal::BadPath)
    );
    assert_eq!(
        ask(pushed("large", &[0; 101], 0, 1)).await,
        refused(FileRefusal::TooLarge)
    );
    for number in 0..9 {
        let whole = vec![number; 100];
        let path = format!("many/{number}");
        assert_eq!(ask(pushed(&path, &whole, 0, 100)).await, received(100));
    }
    let last = ask(pushed("many/last", &[9; 100], 0, 100)).await;
    assert_eq!(last, refused(FileRefusal::NoRoom));
    // What another minion handed in does not count.
    let other = served
        .ask("m2", pushed("many/last", &[9; 100], 0, 100))
        .await;
    assert_eq!(other, received(100));
}

#[tokio::test]
async fn nothing_is_taken_unless_the_master_was_told_to() {
    let served = Served::new();
    let answer = served.ask("m1", pushed("x", b"1", 0, 1)).await;
    assert_eq!(answer, refused(FileRefusal::NotTaken));
}

#[tokio::test]
async fn a_file_that_is_overwritten_while_it_is_sent_never_comes_mixed() {
    let served = Served::new();
    let (size, file) = (200_000, served.path("file"));
    std::fs::write(&file, vec![0; size]).unwrap();
    let writer = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    for round in 1..20_u8 {
        let seen = served.seen("file").await;
        let mut bytes = Vec::new();
        let mut was_changed = false;
        while bytes.len() < size {
            if bytes.len() > size / 2 && !was_changed {
                writer.write_all_at(&vec![round; size], 0).unwrap();
                was_changed = true;
            }
            match served.part("file", seen, bytes.len() as u64, 50_000).await {
                MinionReply::Files(FileReply::Part(part)) => bytes.extend(part.bytes),
                MinionReply::Files(FileReply::Changed) => break,
                other => panic!("{other:?}"),
            }
        }
        // In the same tick of the clock it may go unnoticed here; the minion notices it by the hash.
        assert!(
            bytes.len() < size || TransferId::of(&bytes) != seen.transfer,
            "round {round}"
        );
    }
}
