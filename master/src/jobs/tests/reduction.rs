//! What stays of a partition that is to go while some of its jobs are under way.

use std::path::Path;
use std::process::{Command, Stdio};

use super::large_returns::{packed, part, payload, payloads, send};
use super::retention::{DAY, HOUR, found, is_there, old, since_long_ago};
use super::*;
use crate::jobs::{PartOutcome, Pruned, ReceivedKind, ReceivedQuery};

use MinionJobState::{NotConnected, Offered, Returned, Running};

/// Where the process that is killed has its store; it does nothing without.
const VICTIM: &str = "SALINE_TEST_REDUCTION_STORE";

/// Publishes a job of that age which "a" runs and the others have got.
async fn running(store: &JobStore, age: u64, others: &[&str]) -> Job {
    let job = old(store, age);
    let offers: Vec<_> = ["a"]
        .iter()
        .chain(others)
        .map(|name| (*name, Offered))
        .collect();
    publish(store, &job, &offers).await;
    assert!(store.set_state(&job.jid, &id("a"), Running).await.unwrap());
    job
}

/// Waits for the next millisecond of the store, from which on these jobs are heard of again.
pub(super) async fn heard_since(store: &JobStore, jobs: &[&Job]) -> u64 {
    let before = store.now();
    while store.now() == before {
        std::hint::spin_loop();
    }
    let since = store.now();
    for job in jobs {
        let heard = std::slice::from_ref(&job.jid);
        store.mark_running(&id("a"), heard, 1024).await.unwrap();
    }
    since
}

/// The partitions that were reduced, with their sizes.
pub(super) fn reduced(place: &Place) -> Vec<u64> {
    let files = place.files().into_iter();
    let reduced = files.filter(|path| path.to_string_lossy().ends_with(".1.sqlite"));
    reduced
        .map(|path| std::fs::metadata(path).unwrap().len())
        .collect()
}

/// The receipt numbers of all returns in their order.
async fn receipts(store: &JobStore) -> Vec<(i64, MinionId)> {
    let query = ReceivedQuery {
        after: 0,
        max_bytes: usize::MAX,
        max_payload: usize::MAX,
        wants: |_: &Jid, minion: Option<&MinionId>, _: &[String]| minion.is_some(),
    };
    let page = store.received(query).await.unwrap();
    let of_return = |found: crate::jobs::Received| match found.what {
        ReceivedKind::Return { minion, .. } => Some((found.receipt, minion)),
        ReceivedKind::Job(..) => None,
    };
    page.entries.into_iter().filter_map(of_return).collect()
}

#[tokio::test]
async fn a_job_that_runs_keeps_its_rows_and_not_its_partition() {
    let place = Place::new();
    let store = since_long_ago(&place).await;
    let long = running(&store, 9 * DAY, &["b", "c", "d"]).await;
    let beside = old(&store, 9 * DAY - HOUR / 4);
    publish(&store, &beside, &[("b", Offered)]).await;
    let last = old(&store, 6 * DAY);
    publish(&store, &last, &[("a", Offered)]).await;
    assert_eq!(place.files().len(), 3);
    let large = Value::Bytes(vec![1; 1 << 20]);
    for (minion, job, value) in [
        ("b", &long, &large),
        ("c", &long, &Value::from("small")),
        ("b", &beside, &large),
    ] {
        let verdict = answer(&store, minion, &job.jid, value).await;
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    }
    let parts = payload(3 << 20);
    assert_eq!(
        send(&store, "d", &long.jid, &parts, 0).await,
        ReturnVerdict::Stored
    );
    let before = receipts(&store).await;
    assert_eq!(before.len(), 4);

    let since = heard_since(&store, &[&long]).await;
    let pruned = store.prune(since).await.unwrap();
    let kept: Vec<_> = pruned.iter().map(|part| part.kept).collect();
    assert_eq!(kept, [0, 1], "the first file is empty: {pruned:?}");
    let sizes = reduced(&place);
    assert!(
        sizes.len() == 1 && sizes[0] < 256 << 10,
        "the file of 5 MiB has {sizes:?}"
    );
    assert_eq!(place.files().len(), 2);

    let look = async |store: &JobStore| {
        assert!(is_there(store, &long).await && !is_there(store, &beside).await);
        assert_eq!(found(store).await, 2);
        let told: Vec<_> = states(store, &long.jid)
            .await
            .into_iter()
            .map(|(_, state)| state)
            .collect();
        assert_eq!(told, [Running, Returned, Returned, Returned]);
        assert_eq!(store.active().len(), 1);
        let mut left = before.clone();
        left.remove(2);
        assert_eq!(receipts(store).await, left);
        let values = payloads(store, &long.jid).await;
        let removed = |value: &Value| {
            value
                .as_str()
                .is_some_and(|text| text.starts_with("(removed"))
        };
        assert_eq!(values[1], Value::from("small"));
        assert!(removed(&values[0]) && removed(&values[2]), "{values:?}");
        assert_eq!(store.check().await.unwrap().problems, [] as [String; 0]);
    };
    look(&store).await;
    let again = answer(&store, "b", &long.jid, &large).await;
    assert_eq!(again.unwrap(), ReturnVerdict::Duplicate);
    let gone = answer(&store, "b", &beside.jid, &large).await;
    assert_eq!(gone.unwrap(), ReturnVerdict::UnknownJob);
    // It stays as it is while nothing changes, over a restart too.
    let since = heard_since(&store, &[&long]).await;
    assert_eq!(store.prune(since).await.unwrap(), []);
    store.close().await;
    drop(store);
    let store = place.open();
    look(&store).await;

    // It ends, and its return is kept as long as others.
    let since = heard_since(&store, &[&long]).await;
    let verdict = answer(&store, "a", &long.jid, &Value::from("at last")).await;
    assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    assert_eq!(store.prune(since).await.unwrap(), []);
    assert!(
        states(&store, &long.jid)
            .await
            .iter()
            .all(|s| s.1 == Returned)
    );
    assert_eq!(payloads(&store, &long.jid).await[3], Value::from("at last"));
    let later = heard_since(&store, &[]).await;
    assert_eq!(store.prune(later).await.unwrap().len(), 1);
    assert!(!is_there(&store, &long).await && is_there(&store, &last).await);
}

#[tokio::test]
async fn a_large_return_that_is_coming_goes_on_after_its_partition_was_reduced() {
    let place = Place::new();
    let store = since_long_ago(&place).await;
    let long = running(&store, 9 * DAY, &["b"]).await;
    publish(&store, &old(&store, 6 * DAY), &[("a", NotConnected)]).await;
    let (whole, first) = (payload(2 << 20), 1 << 20);
    let sent = part(&long.jid, &packed(&whole), 0, first);
    let outcome = store.store_return_part(&id("b"), sent).await.unwrap();
    assert_eq!(outcome, PartOutcome::Received(first as u64));
    let since = heard_since(&store, &[&long]).await;
    store.prune(since).await.unwrap();
    assert_eq!(reduced(&place).len(), 1);
    let verdict = send(&store, "b", &long.jid, &whole, first).await;
    assert_eq!(verdict, ReturnVerdict::Stored);
    assert_eq!(payloads(&store, &long.jid).await, [whole]);
}

#[tokio::test]
async fn a_store_above_its_size_loses_the_returns_of_running_jobs_before_the_jobs() {
    let mut place = Place::new();
    place.settings.max_bytes = Some(4 << 20);
    let store = since_long_ago(&place).await;
    let mut jobs = Vec::new();
    let large = Value::Bytes(vec![1; 2 << 20]);
    for age in [9, 8, 7, 6] {
        let job = running(&store, age * HOUR, &["b"]).await;
        answer(&store, "b", &job.jid, &large).await.unwrap();
        jobs.push(job);
    }
    let pruned = store.prune(0).await.unwrap();
    let kept = |pruned: &[Pruned]| -> usize { pruned.iter().map(|part| part.kept).sum() };
    assert_eq!(kept(&pruned), 3, "{pruned:?}");
    for job in &jobs {
        assert!(is_there(&store, job).await, "{}", job.jid);
    }
    // Their minions return as much again.
    for job in &jobs[..2] {
        answer(&store, "a", &job.jid, &large).await.unwrap();
        let late = id("c");
        assert!(!store.set_state(&job.jid, &late, Running).await.unwrap());
    }
    let pruned = store.prune(0).await.unwrap();
    assert!(pruned.iter().all(|part| part.early), "{pruned:?}");
    assert!(is_there(&store, &jobs[2]).await && is_there(&store, &jobs[3]).await);
    let total: u64 = place
        .files()
        .iter()
        .map(|path| std::fs::metadata(path).unwrap().len())
        .sum();
    assert!(total < 5 << 20, "{total}");
}

#[tokio::test]
async fn a_crash_between_the_copy_and_the_deletion_leaves_each_job_once() {
    let place = Place::new();
    let store = since_long_ago(&place).await;
    let long = running(&store, 9 * DAY, &["b"]).await;
    publish(&store, &old(&store, 6 * DAY), &[("a", NotConnected)]).await;
    answer(&store, "b", &long.jid, &Value::from("b"))
        .await
        .unwrap();
    store.close().await;
    drop(store);
    let whole = place.files().remove(1);
    let copy = std::fs::read(&whole).unwrap();
    let store = place.open();
    let since = heard_since(&store, &[&long]).await;
    store.prune(since).await.unwrap();
    // After the move the minion returns, into the file that took the place.
    answer(&store, "a", &long.jid, &Value::from("a"))
        .await
        .unwrap();
    store.close().await;
    drop(store);
    let unfinished = whole.with_extension("sqlite.unfinished");
    std::fs::write(&whole, copy).unwrap();
    std::fs::write(&unfinished, "half of it").unwrap();
    std::fs::write(whole.with_extension("sqlite.unfinished-wal"), "").unwrap();
    let store = place.open();
    assert!(!whole.exists() && !unfinished.exists());
    assert_eq!(found(&store).await, 2);
    let values = payloads(&store, &long.jid).await;
    assert_eq!(values, [Value::from("b"), Value::from("a")]);
    assert_eq!(place.files().len(), 2);
    let names = std::fs::read_dir(&place.settings.folder).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.contains("unfinished")));
}

/// Prunes the store of the test below, and says that it begins.
#[test]
fn the_victim() {
    let Some(path) = std::env::var_os(VICTIM) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = JobStore::open(settings(path.into()), MasterClock::new(Clock)).unwrap();
        let before = store.now() - DAY;
        store.prune(before).await.unwrap();
    });
}

/// Returns how many files of a store have taken the place of others.
fn replaced(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".1.sqlite")).count()
}

#[tokio::test]
async fn a_master_that_is_killed_while_it_prunes_loses_no_job_that_runs() {
    const JOBS: u64 = 30;
    for after in [1, 8, 20] {
        let place = Place::new();
        let store = since_long_ago(&place).await;
        let mut jobs = Vec::new();
        for age in (0..JOBS).rev() {
            let job = running(&store, (age + 2) * DAY, &["b", "c"]).await;
            answer(&store, "b", &job.jid, &Value::Bytes(vec![1; 100_000]))
                .await
                .unwrap();
            jobs.push(job);
        }
        publish(&store, &self::job(&store), &[("a", NotConnected)]).await;
        store.close().await;
        drop(store);
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["jobs::tests::reduction::the_victim", "--exact"])
            .env(VICTIM, &place.settings.folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while replaced(&place.settings.folder) < after && victim.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        let store = place.open();
        let moved = replaced(&place.settings.folder);
        assert!((after..=JOBS as usize).contains(&moved), "{moved}");
        assert_eq!(
            place.files().len() + usize::from(moved == 0),
            JOBS as usize + 1
        );
        for job in &jobs {
            let told: Vec<_> = states(&store, &job.jid).await;
            let told: Vec<_> = told.into_iter().map(|(_, state)| state).collect();
            assert_eq!(told[..2], [Running, Returned], "{}", job.jid);
            let verdict = answer(&store, "a", &job.jid, &Value::Null).await;
            assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
        }
        assert_eq!(store.check().await.unwrap().problems, [] as [String; 0]);
        assert_eq!(found(&store).await, JOBS as usize + 1);
    }
}
