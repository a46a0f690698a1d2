//! What minions may cost: the files that they hand in, in every form in which they can be sent, and the requests that wait.

use std::path::Path;

use saline_protocol::transport::{Clock, Limits};
use tokio::task::JoinSet;

use super::*;
use crate::fileserver::hash_askers::COMES_AGAIN;
use crate::fileserver::pushed::ABANDONED;

/// The largest file that a minion may hand in.
const LARGEST: usize = 100;

/// How many of the largest files a minion may hand in.
const MAX_LARGEST_FILES: u8 = 10;

fn receiving() -> Served {
    Served::with(|config| {
        config.files.receive = true;
        config.files.receive_max = LARGEST as u64;
    })
}

fn of_minion(served: &Served, id: &str) -> PathBuf {
    let minions = served.folder.path().join("cache/minions");
    minions.join(id).join("files")
}

/// Returns the files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found
}

#[tokio::test]
async fn a_part_that_does_not_begin_a_file_makes_none() {
    let served = receiving();
    for number in 0..2 * MAX_LARGEST_FILES {
        let (path, whole) = (format!("late/{number}"), [number; LARGEST]);
        let later = pushed(&path, &whole, 1, LARGEST - 1);
        assert_eq!(served.ask("m1", later).await, received(0));
    }
    assert_eq!(
        files_below(&of_minion(&served, "m1")),
        Vec::<PathBuf>::new()
    );
}

#[tokio::test]
async fn a_file_that_was_begun_counts_as_the_largest_and_stays_until_it_is_abandoned() {
    let served = receiving();
    let whole = |number: u8| [number; LARGEST];
    let path = |number: u8| format!("begun/{number}");
    let begin = async |number| {
        let first = pushed(&path(number), &whole(number), 0, 1);
        served.ask("m1", first).await
    };
    for number in 0..MAX_LARGEST_FILES {
        assert_eq!(begin(number).await, received(1));
    }
    assert_eq!(begin(MAX_LARGEST_FILES).await, refused(FileRefusal::NoRoom));
    // None of them had to go for another one.
    let rest = pushed(&path(0), &whole(0), 1, LARGEST - 1);
    assert_eq!(served.ask("m1", rest).await, received(LARGEST as u64));
    let folder = of_minion(&served, "m1");
    let begun = || {
        let files = files_below(&folder).into_iter();
        files.filter(|file| file.to_string_lossy().contains("saline-push"))
    };
    assert_eq!(begun().count(), usize::from(MAX_LARGEST_FILES) - 1);
    assert_eq!(begin(MAX_LARGEST_FILES).await, refused(FileRefusal::NoRoom));

    let long_ago = Clock.wall() - Duration::from_secs(ABANDONED.unsigned_abs() + 60);
    let abandoned = begun().next().unwrap();
    let file = std::fs::File::options().write(true).open(&abandoned);
    file.unwrap().set_modified(long_ago).unwrap();
    assert_eq!(begin(MAX_LARGEST_FILES).await, received(1));
    assert!(!abandoned.exists());
}

#[tokio::test]
async fn a_path_that_is_too_deep_to_be_counted_is_refused() {
    let served = receiving();
    let path = |parts: usize| vec!["d"; parts].join("/");
    let deepest = served.ask("m1", pushed(&path(32), b"1", 0, 1)).await;
    assert_eq!(deepest, received(1));
    for parts in [33, 64, 65, 100] {
        let refusal = served.ask("m1", pushed(&path(parts), b"2", 0, 1)).await;
        assert_eq!(refusal, refused(FileRefusal::BadPath), "{parts}");
    }
    assert_eq!(files_below(&of_minion(&served, "m1")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_leave_a_transports_places_to_heartbeats_and_returns() {
    let served = Served::new();
    std::fs::write(served.path("file"), [7; LARGEST]).unwrap();
    let seen = served.seen("file").await;
    let part = |id: String| {
        let files = served.files.clone();
        let request = FileRequest::Part {
            place: place("file"),
            transfer: seen.transfer,
            offset: 0,
            bytes: 64,
        };
        async move { files.answer(&super::id(&id), request).await }
    };
    // Nothing that is sent has room from now on.
    let first = id("m0");
    let all_room = served.files.window.room_for(&first, usize::MAX).await;
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..MOST_AT_ONCE {
        waiting.spawn(part(format!("m{}", number / 8)));
    }
    // Each gets its turn at least once.
    for _ in 0..MOST_AT_ONCE {
        tokio::task::yield_now().await;
    }
    assert!(waiting.try_join_next().is_none(), "all of them wait");
    let began = Clock.now();
    let another = part("another".to_owned()).await;
    assert_eq!(another, MinionReply::busy(BUSY));
    assert_eq!(Clock.now(), began, "it waited too");
    let handed_out = Limits::default().requests_unanswered;
    assert!(MOST_AT_ONCE <= handed_out / 4, "of {handed_out} places");

    drop(all_room);
    let answers = waiting.join_all().await;
    let parts = answers
        .iter()
        .filter(|answer| matches!(answer, MinionReply::Files(FileReply::Part(_))));
    assert!(parts.count() > 0);
    let now = part("another".to_owned()).await;
    assert!(
        matches!(now, MinionReply::Files(FileReply::Part(_))),
        "{now:?}"
    );
}

#[tokio::test]
async fn a_folder_with_too_many_files_has_no_room() {
    let served = receiving();
    let folder = of_minion(&served, "m1");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..=10_000 {
        std::fs::File::create(folder.join(number.to_string())).unwrap();
    }
    let one = pushed("one", b"x", 0, 1);
    assert_eq!(served.ask("m1", one).await, refused(FileRefusal::NoRoom));
}

#[tokio::test]
async fn a_large_file_of_another_minion_comes_between_those_of_one() {
    let served = Arc::new(Served::new());
    for number in 0..4 {
        let file = std::fs::File::create(served.path(&format!("large{number}"))).unwrap();
        file.set_len(5 << 20).unwrap();
    }
    let hashing = Arc::clone(&served.files.reader.hashing);
    let turn = hashing.acquire_owned().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let look = |minion: &'static str, number: usize| {
        let (served, order) = (Arc::clone(&served), Arc::clone(&order));
        async move {
            let request = FileRequest::Look(place(&format!("large{number}")));
            let reply = served.ask(minion, request).await;
            assert!(matches!(reply, MinionReply::Files(FileReply::Seen(_))));
            order.lock().unwrap().push(minion);
        }
    };
    // Who has asked for a hash waits for its turn, without anything in between.
    let wait_for = async |files: usize| {
        while served.files.reader.askers.asked_files() < files {
            tokio::task::yield_now().await;
        }
    };
    // A task each: they go on in the order in which they are woken, however late.
    let mut looks = JoinSet::new();
    for number in 0..3 {
        looks.spawn(look("m1", number));
    }
    wait_for(3).await;
    looks.spawn(look("m2", 3));
    wait_for(4).await;
    drop(turn);
    looks.join_all().await;
    let order = order.lock().unwrap();
    let place = order.iter().position(|minion| *minion == "m2");
    // Its turn is the second. An answer may come a little later than the hash; behind all others it would come without turns.
    assert!(place < Some(3), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hash_for_which_no_minion_comes_again_is_given_up() {
    let served = Served::new();
    for (name, size) in [("huge", 16 << 30), ("large", 5 << 20)] {
        let file = std::fs::File::create(served.path(name)).unwrap();
        file.set_len(size).unwrap();
    }
    let hashing = &served.files.reader.hashing;
    let begins = async {
        while hashing.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        reply = served.look("huge") => panic!("{reply:?}"),
        () = begins => {}
    }
    // The minion has gone. One that comes again in time finds the hash further on.
    tokio::time::advance(COMES_AGAIN / 2).await;
    assert_eq!(hashing.available_permits(), 0);
    tokio::time::advance(COMES_AGAIN / 2).await;
    assert_eq!(served.seen("large").await.size, 5 << 20);
    assert_eq!(served.files.figures().hashed(), 5 << 20, "nobody waited");
}
