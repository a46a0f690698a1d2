//! Copies and checks of a store that is in use.

use super::*;

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
        store.back_up(),
        store.back_up(),
        store.back_up(),
        store.back_up()
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
    let backup = store.back_up().await.unwrap();
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
    store.back_up().await.unwrap();
    assert!(!unfinished.exists());
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
    let backup = store.back_up().await.unwrap();
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
    let job = crate::jobs::jid::to_micros(&jobs[0].jid).unwrap();
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
