//! Files and folders that are swapped for links out of the root while they are served.

use saline_testing::SwappedNames;

use super::*;

/// How often each request is made while the names are swapped.
const ASKED: usize = 1_000;

/// What is in the root, and what is outside of it: of one size, so that only the hash tells them apart.
const INSIDE: &[u8] = b"inside";
const SECRET: &[u8] = b"secret";

/// Asks for a file over and over again. Nothing of what is outside may be told of it: no hash, no part and no name.
async fn is_never_left(served: &Served, path: &str) {
    let inside = SeenFile {
        size: INSIDE.len() as u64,
        mode: 0,
        transfer: TransferId::of(INSIDE),
    };
    let secret = SeenFile {
        transfer: TransferId::of(SECRET),
        ..inside
    };
    let (mut seen, mut refused, mut asked) = (0, 0, 0);
    // On a busy machine the other thread may stand still for long.
    while asked < ASKED || seen == 0 || refused == 0 {
        asked += 1;
        assert!(asked < 10_000 * ASKED, "nothing is swapped");
        match served.look(path).await {
            MinionReply::Files(FileReply::Seen(found)) => {
                assert_eq!(found.transfer, inside.transfer);
                seen += 1;
            }
            MinionReply::Files(FileReply::Refused(_)) => refused += 1,
            // A rename changes the version of the file that is read.
            MinionReply::Files(FileReply::Changed) | MinionReply::Busy { .. } => {}
            other => panic!("{other:?}"),
        }
        // Also for a minion that knows the hash of what is outside.
        for wanted in [inside, secret] {
            let answer = served.part(path, wanted, 0, 100).await;
            if let MinionReply::Files(FileReply::Part(part)) = answer {
                assert_eq!(part.bytes, INSIDE);
            }
        }
        let below = FileRequest::List {
            environment: "base".to_owned(),
            below: String::new(),
            after: None,
            bytes: 10_000,
        };
        let listed = format!("{:?}", served.ask("m1", below).await);
        assert!(!listed.contains("only-outside"), "{listed}");
    }
}

#[tokio::test]
async fn a_file_that_is_swapped_for_a_link_is_never_served_from_outside() {
    let served = Served::new();
    std::fs::write(served.folder.path().join("secret"), SECRET).unwrap();
    std::fs::write(served.path("file"), INSIDE).unwrap();
    symlink("../secret", served.path("other")).unwrap();
    let _swapping = SwappedNames::new(served.path("file"), served.path("other"));
    is_never_left(&served, "file").await;
}

#[tokio::test]
async fn a_folder_that_is_swapped_for_a_link_is_never_left() {
    let served = Served::new();
    let outside = served.folder.path().join("outside");
    for (folder, content) in [(&outside, SECRET), (&served.path("folder"), INSIDE)] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("file"), content).unwrap();
    }
    std::fs::write(outside.join("only-outside"), b"").unwrap();
    symlink(&outside, served.path("other")).unwrap();
    let _swapping = SwappedNames::new(served.path("folder"), served.path("other"));
    is_never_left(&served, "folder/file").await;
}
