//! What the kept events promise: committed is kept, bounded by sources, and every loss is told once.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use saline_protocol::transport::Clock;

use super::*;

/// The bytes from which sources lose their oldest events, in these tests.
const MAX_BYTES: u64 = 4_000;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("events")
    }

    fn open(&self) -> EventStore {
        open(&self.folder())
    }
}

fn open(folder: &Path) -> EventStore {
    EventStore::open(folder, MAX_BYTES, MasterClock::new(Clock)).unwrap()
}

fn filter(globs: &[&str]) -> TagFilter {
    let globs: Vec<_> = globs.iter().map(|glob| (*glob).to_owned()).collect();
    TagFilter::compile(&globs).unwrap()
}

fn in_force(folder: &Path, globs: &[&str]) -> DurableEvents {
    let settings = DurableSettings {
        folder: folder.to_owned(),
        filter: filter(globs),
        returned: None,
        is_followed: false,
        reacted: TagFilter::default(),
        most_bytes: MAX_BYTES,
    };
    DurableEvents::open(settings, MasterClock::new(Clock)).unwrap()
}

async fn keep(store: &EventStore, source: &str, event: &str) {
    let event = Bytes::copy_from_slice(event.as_bytes());
    store.keep(source.to_owned(), vec![event]).await.unwrap();
}

/// Returns all events as texts; a gap as the number of lost events.
async fn all(store: &EventStore) -> Vec<Result<String, u64>> {
    texts(store.page(0, usize::MAX).await.unwrap())
}

fn texts(page: EventPage) -> Vec<Result<String, u64>> {
    let events = page.events.into_iter().map(|kept| kept.event);
    let text = |event: Vec<u8>| String::from_utf8(event).unwrap();
    events.map(|event| event.map(text)).collect()
}

/// Copies the files as they are now: what a crash would leave of them at least.
fn copy_of(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

#[tokio::test]
async fn what_was_kept_is_there_after_a_crash_and_numbers_go_on() {
    let place = Place::new();
    let store = place.open();
    keep(&store, "minion a", "one").await;
    keep(&store, "master", "two").await;
    let cursor = EventCursor {
        event: store.page(0, 1).await.unwrap().events[0].number,
        receipt: 7,
    };
    assert!(store.acknowledge("x".to_owned(), cursor).await.unwrap());
    // The store is open still, and nothing of it was closed.
    let crashed = copy_of(&place.folder());
    let store = open(crashed.path());
    assert_eq!(store.cursor("x".to_owned()).await.unwrap(), cursor);
    keep(&store, "minion a", "three").await;
    let rest = store.page(cursor.event, usize::MAX).await.unwrap();
    assert_eq!(texts(rest), [Ok("two".to_owned()), Ok("three".to_owned())]);
}

#[tokio::test]
async fn a_cursor_never_goes_back_and_consumers_are_bounded() {
    let place = Place::new();
    let store = place.open();
    let at = |event, receipt| EventCursor { event, receipt };
    for (given, kept) in [
        (at(5, 1), at(5, 1)),
        (at(3, 2), at(5, 2)),
        (at(0, 0), at(5, 2)),
    ] {
        assert!(store.acknowledge("x".to_owned(), given).await.unwrap());
        assert_eq!(store.cursor("x".to_owned()).await.unwrap(), kept);
    }
    for number in 1..MAX_CONSUMERS {
        let name = format!("consumer {number}");
        assert!(store.acknowledge(name, at(1, 1)).await.unwrap());
    }
    assert!(
        !store
            .acknowledge("late".to_owned(), at(1, 1))
            .await
            .unwrap()
    );
    assert!(store.acknowledge("x".to_owned(), at(9, 9)).await.unwrap());
    for name in [String::new(), "x".repeat(MAX_NAME + 1)] {
        assert!(!store.acknowledge(name, at(1, 1)).await.unwrap());
    }
}

#[tokio::test]
async fn a_source_that_has_most_loses_its_oldest_and_nobody_else_loses_any() {
    let place = Place::new();
    let store = place.open();
    keep(&store, "minion b", "b0").await;
    for number in 0..100 {
        keep(&store, "minion a", &format!("a{number}")).await;
    }
    keep(&store, "minion b", "b1").await;
    let events = all(&store).await;
    let lost: u64 = events.iter().filter_map(|event| event.as_ref().err()).sum();
    let left = |of: char| {
        events
            .iter()
            .flatten()
            .filter(|text| text.starts_with(of))
            .count()
    };
    assert_eq!(left('b'), 2);
    assert!(lost > 0 && left('a') as u64 + lost == 100, "{events:?}");
    assert_eq!(
        (&events[0], &events[1]),
        (&Ok("b0".to_owned()), &Err(lost)),
        "the gap stands where they were"
    );
    assert_eq!(events[2], Ok(format!("a{lost}")));
}

#[tokio::test]
async fn a_loss_is_told_once_to_a_consumer_that_reads_on() {
    let place = Place::new();
    let store = place.open();
    let (mut told, mut read, mut after) = (0, 0, 0);
    for round in 0..10 {
        for number in 0..60 {
            keep(&store, "minion a", &format!("a {round} {number}")).await;
        }
        for kept in store.page(after, usize::MAX).await.unwrap().events {
            after = kept.number;
            match kept.event {
                Ok(_) => read += 1,
                Err(lost) => told += lost,
            }
        }
        let cursor = EventCursor {
            event: after,
            receipt: 0,
        };
        assert!(store.acknowledge("x".to_owned(), cursor).await.unwrap());
    }
    assert!(told > 100, "{told}");
    assert_eq!(told + read, 600);
    let all = store.page(0, usize::MAX).await.unwrap().events;
    let gaps = all.iter().filter(|kept| kept.event.is_err()).count();
    assert!(gaps <= 2, "{gaps} gaps are left where nobody reads");
}

#[tokio::test]
async fn what_is_too_old_goes_and_is_counted() {
    let place = Place::new();
    let store = place.open();
    for number in 0..5 {
        keep(&store, "minion a", &number.to_string()).await;
    }
    let numbers: Vec<_> = store.page(0, usize::MAX).await.unwrap().events;
    store.remove_older(numbers[3].number).await.unwrap();
    assert_eq!(
        all(&store).await,
        [Err(3), Ok("3".to_owned()), Ok("4".to_owned())]
    );
    let before = log_of(&place.folder());
    store.remove_older(numbers[3].number).await.unwrap();
    assert_eq!(
        log_of(&place.folder()),
        before,
        "there is nothing to remove"
    );
    store.remove_older(i64::MAX).await.unwrap();
    assert_eq!(all(&store).await, [Err(5)]);
}

/// Returns the length of the write-ahead log, which grows with every transaction.
fn log_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let logs = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with("-wal"));
    logs.map(|entry| entry.metadata().unwrap().len()).sum()
}

#[tokio::test]
async fn without_a_filter_no_store_is_created_until_one_is_taken_over() {
    let place = Place::new();
    let events = in_force(&place.folder(), &[]);
    assert!(events.store().is_none());
    events.set_filter(TagFilter::default());
    assert!(!place.folder().exists());
    events.set_filter(filter(&["salt/auth"]));
    let store = events.keeps("salt/auth").unwrap();
    assert!(events.keeps("salt/key").is_none());
    keep(store, "master", "one").await;
    events.set_filter(filter(&["salt/key"]));
    assert!(events.keeps("salt/auth").is_none());
    assert!(events.keeps("salt/key").is_some());
    // What was kept can be read also when nothing more is.
    events.set_filter(TagFilter::default());
    assert!(events.keeps("salt/key").is_none());
    assert_eq!(all(events.store().unwrap()).await, [Ok("one".to_owned())]);
    drop(events);
    let events = in_force(&place.folder(), &[]);
    assert_eq!(all(events.store().unwrap()).await, [Ok("one".to_owned())]);
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_keeps_nothing_and_is_opened_by_the_next_filter() {
    let place = Place::new();
    let events = in_force(&place.folder(), &[]);
    std::fs::write(place.folder(), "no folder").unwrap();
    events.set_filter(filter(&["*"]));
    assert!(events.keeps("salt/auth").is_none());
    std::fs::remove_file(place.folder()).unwrap();
    events.set_filter(filter(&["*"]));
    assert!(events.keeps("salt/auth").is_some());
}

#[test]
fn what_a_minion_fired_is_kept_by_the_tag_that_it_chose() {
    let place = Place::new();
    let events = in_force(&place.folder(), &["myco/*", "salt/auth"]);
    for (tag, is_kept) in [
        ("myco/deploy", true),
        ("salt/minion/web1/myco/deploy", true),
        ("salt/minion/web1/other", false),
        // A minion that fires `salt/…` does not pass for the master.
        ("salt/minion/web1/salt/auth", false),
    ] {
        assert_eq!(events.keeps(tag).is_some(), is_kept, "{tag}");
        assert_eq!(events.matches(tag), is_kept, "{tag}");
    }
}

#[test]
fn what_the_job_store_has_is_not_kept_once_more() {
    let place = Place::new();
    let events = in_force(&place.folder(), &["salt/*"]);
    for (tag, is_kept) in [
        ("salt/auth", true),
        ("salt/minion/web1/start", true),
        ("salt/job/20261121091409931549/new", false),
        ("salt/job/20261121091409931549/ret/web1", false),
        ("salt/batch/20261121091409931549/new", false),
        ("salt/run/20261121091409931549/ret", false),
        ("myco/deploy", false),
    ] {
        assert_eq!(events.keeps(tag).is_some(), is_kept, "{tag}");
    }
    assert!(events.matches("salt/job/20261121091409931549/ret/web1"));
}

#[test]
fn what_destinations_get_does_not_depend_on_the_reactor() {
    let place = Place::new();
    let durable = returning(&place.folder(), &[], &["*"]);
    for (tag, is_returned) in [
        ("salt/auth", true),
        ("salt/job/20261121091409931549/new", true),
        ("salt/job/20261121091409931549/ret/web1", true),
        ("salt/run/20261121091409931549/new", false),
        ("salt/run/20261121091409931549/ret", false),
    ] {
        assert_eq!(durable.returns(tag), is_returned, "{tag}");
        assert!(durable.matches(tag), "{tag}");
    }
}

#[test]
fn what_the_job_store_has_is_kept_once_more_for_a_destination_that_is_to_get_it() {
    let place = Place::new();
    let durable = returning(&place.folder(), &["salt/*"], &[]);
    for (tag, is_kept) in [
        ("salt/auth", true),
        ("salt/run/20261121091409931549/new", true),
        ("salt/run/20261121091409931549/ret", true),
        ("salt/batch/20261121091409931549/complete", true),
        ("salt/job/20261121091409931549/new", false),
        ("salt/job/20261121091409931549/ret/web1", false),
        ("salt/job/20261121091409931549/start/web1", false),
        ("myco/deploy", false),
    ] {
        assert_eq!(durable.keeps(tag).is_some(), is_kept, "{tag}");
    }
}

/// Opens events that destinations with this whitelist and the reactor get.
fn returning(folder: &Path, wanted: &[&str], reacted: &[&str]) -> DurableEvents {
    let settings = DurableSettings {
        folder: folder.to_owned(),
        filter: TagFilter::default(),
        returned: Some(ReturnedTags::new(filter(wanted), TagFilter::default())),
        is_followed: true,
        reacted: filter(reacted),
        most_bytes: MAX_BYTES,
    };
    DurableEvents::open(settings, MasterClock::new(Clock)).unwrap()
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_events_are_kept_in_another_one() {
    for (damage, from) in [("not SQLite", 0), ("an empty page", 1024)] {
        let place = Place::new();
        let store = place.open();
        let file = store.file;
        keep(&store, "master", "one").await;
        store.close().await;
        drop(store);
        let entries = std::fs::read_dir(place.folder()).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        let path = paths.find(|path| path.extension().is_some_and(|end| end == "sqlite"));
        let path = path.unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[from..].fill(0x55);
        std::fs::write(&path, &bytes).unwrap();
        let store = place.open();
        assert_ne!(store.file, file, "{damage}");
        let aside = path.with_extension("sqlite.damaged");
        assert_eq!(std::fs::read(aside).unwrap(), bytes, "{damage}");
        assert!(!path.exists(), "{damage}");
        keep(&store, "master", "two").await;
        assert_eq!(all(&store).await, [Ok("two".to_owned())], "{damage}");
        store.close().await;
        drop(store);
        assert_eq!(all(&place.open()).await, [Ok("two".to_owned())], "{damage}");
    }
}

#[tokio::test]
async fn what_a_full_disk_did_not_take_is_counted_at_its_place() {
    let place = Place::new();
    let store = place.open();
    keep(&store, "master", "before").await;
    store.limit_size(true).await;
    let large = Bytes::from(vec![b'x'; 64 * 1024]);
    for _ in 0..3 {
        let kept = store.keep("master".to_owned(), vec![large.clone()]).await;
        assert!(matches!(kept, Err(StoreError::Full)), "{kept:?}");
        store.note_lost();
    }
    store.limit_size(false).await;
    assert_eq!(store.untold.load(Ordering::Relaxed), 0, "it is told");
    keep(&store, "master", "after").await;
    let told = [Ok("before".to_owned()), Err(3), Ok("after".to_owned())];
    assert_eq!(all(&store).await, told);
    // Another loss has a place of its own, and is told also when nothing follows.
    store.note_lost();
    store.remove_older(0).await.unwrap();
    assert_eq!(all(&store).await, [&told[..], &[Err(1)]].concat());
    store.note_lost();
    store.close().await;
    drop(store);
    let told = [&told[..], &[Err(1), Err(1)]].concat();
    assert_eq!(all(&place.open()).await, told);
}

#[tokio::test]
async fn a_consumer_that_is_forgotten_begins_anew_and_leaves_its_place_to_others() {
    let place = Place::new();
    let store = place.open();
    let at = EventCursor {
        event: 5,
        receipt: 5,
    };
    for number in 0..MAX_CONSUMERS {
        let name = format!("c{number}");
        assert!(store.acknowledge(name, at).await.unwrap());
    }
    assert!(!store.acknowledge("late".to_owned(), at).await.unwrap());
    assert!(store.forget("c1".to_owned()).await.unwrap());
    assert!(!store.forget("c1".to_owned()).await.unwrap());
    let cursor = store.cursor("c1".to_owned()).await.unwrap();
    assert_eq!(cursor, EventCursor::default());
    assert!(store.acknowledge("late".to_owned(), at).await.unwrap());
    let known = store.consumers().await.unwrap();
    assert_eq!(known.len(), MAX_CONSUMERS);
    assert!(known.contains(&"late".to_owned()) && !known.contains(&"c1".to_owned()));
}

#[derive(Debug, Clone)]
enum Step {
    Keep(u8, usize),
    /// Removes everything before the row with this place.
    RemoveOlder(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_u8, 0..400_usize).prop_map(|(source, size)| Step::Keep(source, size)),
        1 => (0..40_usize).prop_map(Step::RemoveOlder),
    ]
}

proptest! {
    /// Whatever is kept and removed: the bound holds, the shares are those of the rows, no event is both there and
    /// counted as lost or neither, and events stay in their order.
    #[test]
    fn nothing_is_lost_that_is_not_counted(steps in prop::collection::vec(step(), 1..120)) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(tables::EVENTS.tables).unwrap();
        let (mut shares, mut kept) = (Shares::default(), 0_u64);
        for (at, step) in steps.into_iter().enumerate() {
            let number = i64::try_from(at).unwrap() + 1;
            let rows = tables::page(&connection, 0, usize::MAX).unwrap().0;
            match step {
                Step::Keep(source, size) => {
                    let source = format!("minion {source}");
                    let largest = shares.largest().map(str::to_owned);
                    let event = vec![b'x'; size];
                    tables::insert(&connection, &mut shares, MAX_BYTES, number, (&source, &event)).unwrap();
                    kept += 1;
                    // Only the source that had most, or has most now, may have lost something.
                    let after = tables::page(&connection, 0, usize::MAX).unwrap().0;
                    let lost = rows.iter().filter(|row| row.event.is_ok() && !after.contains(row));
                    for row in lost {
                        let of: String = connection
                            .query_row("SELECT source FROM events WHERE event IS NULL AND number >= ?1 ORDER BY number", [row.number], |row| row.get(0))
                            .unwrap();
                        prop_assert!(of == source || Some(&of) == largest.as_ref() || shares.total() <= MAX_BYTES);
                    }
                }
                Step::RemoveOlder(place) => {
                    let before = rows.get(place).map_or(number, |row| row.number);
                    while tables::remove_older(&connection, &mut shares, before).unwrap() {}
                }
            }
            prop_assert!(shares.total() <= MAX_BYTES);
            prop_assert_eq!(tables::shares(&connection).unwrap().total(), shares.total());
            let rows = tables::page(&connection, 0, usize::MAX).unwrap().0;
            let left = rows.iter().filter(|row| row.event.is_ok()).count() as u64;
            let lost: u64 = rows.iter().filter_map(|row| row.event.as_ref().err()).sum();
            prop_assert_eq!(left + lost, kept);
            prop_assert!(rows.is_sorted_by_key(|row| row.number));
            // Paged, it is the same.
            let (mut after, mut paged) = (0, Vec::new());
            loop {
                let (page, more) = tables::page(&connection, after, 500).unwrap();
                after = page.last().map_or(after, |row| row.number);
                paged.extend(page);
                if !more {
                    break;
                }
            }
            prop_assert_eq!(paged, rows);
        }
    }
}

#[tokio::test]
async fn a_copy_is_a_store_with_the_events_and_the_places_of_consumers() {
    let place = Place::new();
    let store = place.open();
    keep(&store, "m1", "first").await;
    let seen = EventCursor {
        event: store.last_number(),
        ..EventCursor::default()
    };
    assert!(store.acknowledge("billing".to_owned(), seen).await.unwrap());
    let folder = place.0.path().join("copy");
    let (files, bytes) = store.copy_into(folder.clone()).await.unwrap();
    assert!(files == 1 && bytes > 0);
    keep(&store, "m1", "second").await;
    let copy = open(&folder);
    assert_eq!(copy.page(i64::MIN, 1_000).await.unwrap().events.len(), 1);
    assert_eq!(copy.cursor("billing".to_owned()).await.unwrap(), seen);
    assert_eq!(store.page(i64::MIN, 1_000).await.unwrap().events.len(), 2);
}
