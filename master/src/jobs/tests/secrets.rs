//! The values of secret arguments in the store.

use saline_messages::{ArgumentPlace, Secrets};

use super::*;

const VALUE: &str = "correct horse";

/// A publication with a secret argument, whose values are returned too.
fn with_secret(job: &mut Job, offers: &[(&str, MinionJobState)]) -> (NewJob, Secrets) {
    let mut arguments = job.arg.unpack().unwrap();
    let values = vec![(ArgumentPlace::named("password"), Value::from(VALUE))];
    let secrets = Secrets::set_apart(&mut arguments, values).unwrap().unwrap();
    job.arg = arguments.pack();
    let mut new = new(job, offers);
    new.job.secrets = Some(secrets.clone());
    (new, secrets)
}

async fn handed(store: &JobStore, minion: &str) -> Vec<Option<Secrets>> {
    let page = store
        .pending_jobs(&id(minion), None, store.now(), u64::MAX)
        .await;
    let jobs = page.unwrap().jobs.into_iter();
    jobs.map(|signed| signed.secrets).collect()
}

/// Returns the number of jobs whose secrets a partition has.
fn stored_in(partition: &std::path::Path) -> i64 {
    let connection = rusqlite::Connection::open(partition).unwrap();
    let count = "SELECT count(*) FROM job_secrets";
    connection.query_row(count, [], |row| row.get(0)).unwrap()
}

fn stored(place: &Place) -> i64 {
    let partitions = place.files();
    partitions
        .iter()
        .map(|partition| stored_in(partition))
        .sum()
}

#[tokio::test]
async fn the_values_are_handed_out_over_a_restart_and_go_with_the_last_open_state() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    let offers = [
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Offered),
    ];
    let (new, secrets) = with_secret(&mut job, &offers);
    assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
    assert_eq!(handed(&store, "a").await, [Some(secrets.clone())]);
    let signed = store.signed_job(&job.jid).await.unwrap().unwrap();
    assert_eq!(signed.secrets, Some(secrets.clone()));
    store.close().await;

    let store = place.open();
    assert_eq!(handed(&store, "a").await, [Some(secrets.clone())]);
    for file in std::fs::read_dir(&place.settings.folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let found = bytes.windows(VALUE.len());
        assert!(!found.into_iter().any(|part| part == VALUE.as_bytes()));
    }
    let verdict = answer(&store, "a", &job.jid, &Value::Null).await;
    assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    store.flush_all().await.unwrap();
    assert_eq!(handed(&store, "b").await, [Some(secrets)]);
    assert_eq!(stored(&place), 1);
    let verdict = answer(&store, "b", &job.jid, &Value::Null).await;
    assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    store.flush_all().await.unwrap();
    assert_eq!(stored(&place), 0);
    let signed = store.signed_job(&job.jid).await.unwrap().unwrap();
    assert_eq!(signed.secrets, None);
}

#[tokio::test]
async fn a_job_that_is_over_when_the_master_starts_has_its_values_removed() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    let (new, _) = with_secret(&mut job, &[("a", MinionJobState::Offered)]);
    assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
    let verdict = answer(&store, "a", &job.jid, &Value::Null).await;
    assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    // Without the flush of an orderly end.
    drop(store);
    assert_eq!(stored(&place), 1);
    let store = place.open();
    store.flush_all().await.unwrap();
    assert_eq!(stored(&place), 0);
}

#[tokio::test]
async fn a_copy_has_no_values() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    let (new, _) = with_secret(&mut job, &[("a", MinionJobState::Offered)]);
    assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
    let sealed: Vec<u8> = {
        let connection = rusqlite::Connection::open(&place.files()[0]).unwrap();
        let read = "SELECT sealed FROM job_secrets";
        connection.query_row(read, [], |row| row.get(0)).unwrap()
    };
    let backup = store.back_up(jobs_alone).await.unwrap();
    let mut partitions = 0;
    for file in std::fs::read_dir(&backup.folder).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let mut found = bytes.windows(16);
        assert!(!found.any(|part| part == &sealed[..16]), "sealed as well");
        if path.file_name().unwrap() != super::super::tables::minions::FILE {
            partitions += 1;
            assert_eq!(stored_in(&path), 0);
        }
    }
    assert_eq!(partitions, 1);
    assert_eq!(stored(&place), 1);
}

#[tokio::test]
async fn without_the_key_a_job_goes_out_without_its_values() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    let (new, _) = with_secret(&mut job, &[("a", MinionJobState::Offered)]);
    assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
    store.close().await;
    drop(store);
    let key = &place.settings.secrets_key;
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(key).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    std::fs::remove_file(key).unwrap();
    let store = place.open();
    assert_eq!(handed(&store, "a").await, [None]);
}
