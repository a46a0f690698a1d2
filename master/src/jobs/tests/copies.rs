//! Copies and checks of a store that is in use.

use std::path::Path;

use saline_messages::{Known, MasterTime};

use super::reconcile::{reconcile, start};
use super::*;

const DAY: MasterTime = 86_400_000;
const HOUR: MasterTime = 3_600_000;

async fn busy_store(place: &Place) -> (JobStore, Vec<Job>) {
    let store = place.open();
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let job = job(&store);
        publish(
            &store,
            &job,
            &[
                ("a", MinionJobState::Offered),
                ("b", MinionJobState::Offered),
            ],
        )
        .await;
        let verdict = answer(&store, "a", &job.jid, &Value::from("out")).await;
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
        jobs.push(job);
    }
    (store, jobs)
}

#[tokio::test]
async fn backups_at_once_do_not_delete_each_other() {
    let place = Place::new();
    let (store, _jobs) = busy_store(&place).await;
    let all = tokio::join!(
        store.back_up(jobs_alone),
        store.back_up(jobs_alone),
        store.back_up(jobs_alone),
        store.back_up(jobs_alone)
    );
    for backup in [all.0, all.1, all.2, all.3] {
        let backup = backup.unwrap();
        let files = std::fs::read_dir(&backup.folder).unwrap();
        let sizes: Vec<u64> = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .collect();
        let found = (sizes.len() as u64, sizes.iter().sum());
        assert_eq!(found, (backup.files, backup.bytes), "{}", backup.folder);
    }
}

#[tokio::test]
async fn a_backup_is_a_store_of_what_was_committed() {
    let place = Place::new();
    let (store, jobs) = busy_store(&place).await;
    let backup = store.back_up(jobs_alone).await.unwrap();
    assert_eq!(backup.files, 2, "a partition, and the minions");
    let verdict = answer(&store, "b", &jobs[0].jid, &Value::Null).await;
    assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);

    let files = std::fs::read_dir(&backup.folder).unwrap();
    let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
    assert_eq!(sizes.sum::<u64>(), backup.bytes);
    let copy = JobStore::open(settings(backup.folder.into()), MasterClock::new(Clock)).unwrap();
    for job in &jobs {
        assert_eq!(copy.job(&job.jid).await.unwrap().unwrap().job, *job);
        let all = [
            (id("a"), MinionJobState::Returned),
            (id("b"), MinionJobState::Offered),
        ];
        assert_eq!(states(&copy, &job.jid).await, all);
    }
    // A copy that was not finished is gone after the next one.
    let unfinished = place.settings.folder.with_file_name("backups/1.unfinished");
    std::fs::create_dir(&unfinished).unwrap();
    store.back_up(jobs_alone).await.unwrap();
    assert!(!unfinished.exists());
}

/// Has the store go on from a copy of it.
fn put_back(place: &Place, store: JobStore, copy: &str) -> JobStore {
    drop(store);
    let folder = &place.settings.folder;
    std::fs::rename(folder, folder.with_extension("away")).unwrap();
    std::fs::rename(copy, folder).unwrap();
    place.open()
}

#[tokio::test]
async fn with_a_copy_nobody_knows_what_a_minion_had_lost_that_was_started_again_since() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let backup = store.back_up(jobs_alone).await.unwrap();
    let copies = [
        store.back_up(jobs_alone).await.unwrap().folder,
        backup.folder,
    ];
    // The minion runs it and returns; its disk is put back to before, which this store notices and the next one cannot.
    answer(&store, "a", &job.jid, &Value::Null).await.unwrap();
    let store = put_back(&place, store, &copies[0]);
    let asked = reconcile(&store, &start(2, Some(1)), Known::No).await;
    assert_eq!(asked, std::slice::from_ref(&job.jid));
    assert_eq!(
        states(&store, &job.jid).await[0].1,
        MinionJobState::MayHaveRun
    );
    // It has reconciled, so that the next start is like any other.
    let later = super::job(&store);
    publish(&store, &later, &[("a", MinionJobState::Offered)]).await;
    drop(store);
    let store = place.open();
    assert_eq!(reconcile(&store, &start(3, Some(2)), Known::No).await, []);
    assert_eq!(
        states(&store, &later.jid).await[0].1,
        MinionJobState::Offered
    );
    drop(store);

    // One that has run since before the copy was made knows what it has begun.
    std::fs::remove_dir_all(place.settings.folder.with_extension("away")).unwrap();
    let store = put_back(&place, place.open(), &copies[1]);
    assert_eq!(reconcile(&store, &start(1, None), Known::No).await, []);
    assert_eq!(states(&store, &job.jid).await[0].1, MinionJobState::Offered);
}

/// Opens a store whose master's time is a day ahead of the clock, and makes a copy of it. Returns a job of after the copy.
async fn copied_ahead(place: &Place) -> (JobStore, String, Job) {
    let clock = MasterClock::new(Clock);
    clock.rise_above(clock.now() + DAY);
    let store = JobStore::open(place.settings.clone(), clock).unwrap();
    let backup = store.back_up(jobs_alone).await.unwrap();
    let since = job(&store);
    publish(&store, &since, &[("a", MinionJobState::Offered)]).await;
    (store, backup.folder, since)
}

#[tokio::test]
async fn a_copy_whose_master_was_ahead_of_the_clock_gives_no_jid_again() {
    let place = Place::new();
    let (store, copy, since) = copied_ahead(&place).await;
    let reached = store.now();
    let mut store = put_back(&place, store, &copy);
    // Nothing is stored meanwhile, and the next start is not behind the first one.
    for _ in 0..2 {
        assert!((reached..reached + 60_000).contains(&store.now()));
        assert!(store.next_jid() > since.jid);
        drop(store);
        store = place.open();
    }
}

#[tokio::test]
async fn a_copy_that_is_newer_than_the_clock_gives_no_jid_of_the_next_hour_again() {
    let place = Place::new();
    let (store, copy, _) = copied_ahead(&place).await;
    let made = store.now();
    // As if the clock had been right, and had been set back by a day since.
    let file = Path::new(&copy).join("minions.sqlite");
    let connection = rusqlite::Connection::open(file).unwrap();
    let changed = connection.execute("UPDATE copies SET ahead = 0", []);
    assert_eq!(changed.unwrap(), 1);
    drop(connection);
    let mut store = put_back(&place, store, &copy);
    for _ in 0..2 {
        let after = store.now() - made;
        assert!((HOUR - 60_000..HOUR + 60_000).contains(&after), "{after}");
        drop(store);
        store = place.open();
    }
    // Once it is set back, it stays so.
    let later = job(&store);
    publish(&store, &later, &[("a", MinionJobState::Offered)]).await;
    answer(&store, "a", &later.jid, &Value::Null).await.unwrap();
    store.order_set_back().await.unwrap();
    store.close().await;
    drop(store);
    for _ in 0..2 {
        let store = place.open();
        assert!(store.clock.ahead() < 1_000);
        drop(store);
    }
}

#[tokio::test]
async fn a_copy_hands_out_nothing_that_its_master_may_have_handed_out_since() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let offers = [
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Queued),
        ("c", MinionJobState::Waiting),
    ];
    publish(&store, &job, &offers).await;
    let mut over = super::job(&store);
    over.expires = over.created;
    publish(&store, &over, &offers).await;
    let cancelled = super::job(&store);
    publish(&store, &cancelled, &offers).await;
    store.cancel(&cancelled.jid).await.unwrap();
    while store.now() <= over.expires {
        tokio::task::yield_now().await;
    }
    let backup = store.back_up(jobs_alone).await.unwrap();
    assert_eq!(states(&store, &job.jid).await[1].1, MinionJobState::Queued);
    drop(store);
    std::fs::rename(
        &place.settings.folder,
        place.settings.folder.with_extension("away"),
    )
    .unwrap();
    std::fs::rename(backup.folder, &place.settings.folder).unwrap();

    let store = place.open();
    let restored = [
        (id("a"), MinionJobState::Offered),
        (id("b"), MinionJobState::MayHaveRun),
        (id("c"), MinionJobState::MayHaveRun),
    ];
    assert_eq!(states(&store, &job.jid).await, restored);
    assert_eq!(
        states(&store, &over.jid).await[1].1,
        MinionJobState::Expired
    );
    let ended = &states(&store, &cancelled.jid).await[1..];
    assert!(
        ended
            .iter()
            .all(|(_, state)| *state == MinionJobState::Cancelled)
    );
    for minion in ["b", "c"] {
        assert!(!store.claim(&id(minion), &job.jid).await.unwrap());
    }
    // It had run, and says so when it is back.
    let verdict = answer(&store, "b", &job.jid, &Value::Null).await;
    assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
}

#[tokio::test]
async fn a_check_counts_what_is_there_and_names_what_is_damaged() {
    let place = Place::new();
    let (store, jobs) = busy_store(&place).await;
    let checked = store.check().await.unwrap();
    assert_eq!((checked.files, checked.jobs, checked.returns), (1, 3, 3));
    assert_eq!(checked.problems, Vec::<String>::new());

    let file = &place.files()[0];
    let elsewhere = rusqlite::Connection::open(file).unwrap();
    let job = crate::jid::to_micros(&jobs[0].jid).unwrap();
    let damage = "UPDATE jobs SET states = x'05' WHERE jid = ?1";
    elsewhere.execute(damage, [job]).unwrap();
    elsewhere
        .execute("UPDATE returns SET jid = 7 WHERE jid = ?1", [job])
        .unwrap();
    let problems = store.check().await.unwrap().problems;
    let name = file.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        problems,
        [
            format!(
                "{name}: job {}: the store is damaged: expected a whole entry of a minion, \
                 found other bytes",
                jobs[0].jid
            ),
            format!("{name}: 1 returns have no job"),
        ]
    );
}

/// Writes other bytes over the middle of a file.
fn damage(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[100..middle] {
        *byte = 0xa5;
    }
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn one_damaged_old_file_is_set_aside_and_the_newest_or_a_second_one_is_not() {
    let mut place = Place::new();
    place.settings.max_bytes = Some(24 << 20);
    let store = place.open();
    let mut jobs = Vec::new();
    // The files are of 1 MiB.
    while place.files().len() < 4 {
        let job = job(&store);
        publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
        answer(&store, "a", &job.jid, &Value::Bytes(vec![1; 200_000]))
            .await
            .unwrap();
        jobs.push(job.jid);
    }
    store.close().await;
    drop(store);
    let files = place.files();

    damage(&files[1]);
    let store = place.open();
    assert_eq!(place.files().len(), 3, "it is not among them any more");
    let aside = files[1].with_extension("sqlite.damaged");
    assert!(aside.exists());
    let mut found = Vec::new();
    for jid in &jobs {
        found.push(store.job(jid).await.unwrap().is_some());
    }
    assert!(
        found[0] && found[found.len() - 1] && found.contains(&false),
        "{found:?}"
    );
    let next = job(&store);
    assert!(jobs.iter().all(|before| *before < next.jid));
    publish(&store, &next, &[("a", MinionJobState::Offered)]).await;
    store.close().await;
    drop(store);

    let refused = |place: &Place| {
        let opened = JobStore::open(place.settings.clone(), MasterClock::new(Clock));
        opened.err().unwrap().to_string()
    };
    damage(&files[2]);
    let said = refused(&place);
    assert!(said.contains(files[2].to_str().unwrap()), "{said}");
    assert!(files[2].exists(), "a second one stays");
    // With the first out of the way it is the second's turn, but never that of the newest.
    std::fs::remove_file(&aside).unwrap();
    place.open().close().await;
    std::fs::remove_file(files[2].with_extension("sqlite.damaged")).unwrap();
    let newest = place.files().pop().unwrap();
    damage(&newest);
    assert!(refused(&place).contains(newest.to_str().unwrap()));
    assert!(newest.exists());
}
