//! What minions say of their jobs, and what becomes of it.

use super::*;
use crate::jobs::{Lineage, ReconcilingStart};
use saline_messages::{ExpiryAck, JobAccount, Known, StartId};

use MinionJobState::{
    Cancelled, Expired, LostTrack, MayHaveRun, NotConnected, Offered, Queued, Returned,
    ReturnedAndLost, Running, Unconfirmed, Withdrawn,
};

pub(super) fn start(number: u8, predecessor: Option<u8>) -> ReconcilingStart {
    ReconcilingStart {
        start: StartId([number; 16]),
        predecessors: predecessor
            .into_iter()
            .map(|number| StartId([number; 16]))
            .collect(),
        power_lost: false,
        beside: false,
        heartbeats_noted: 0,
        heartbeats_before: 0,
    }
}

/// Reconciles as the minion `a`, which knows this of whatever it is asked for. Returns what it was asked
/// for.
pub(super) async fn reconcile(
    store: &JobStore,
    start: &ReconcilingStart,
    known: Known,
) -> Vec<Jid> {
    let minion = id("a");
    let mut all: Vec<Jid> = Vec::new();
    loop {
        let asked = store.to_account_for(&minion, start, all.last());
        if asked.is_empty() {
            break;
        }
        let accounts: Vec<_> = asked
            .iter()
            .map(|jid| JobAccount {
                jid: jid.clone(),
                known,
            })
            .collect();
        store
            .take_accounts(&minion, Some(start), &accounts)
            .await
            .unwrap();
        all.extend(asked);
    }
    store.finish_reconciliation(&minion, start).await.unwrap();
    all
}

/// Ends the reconciliation of a start that knows nothing of what it was asked for.
async fn reconcile_after(store: &JobStore, start: &ReconcilingStart, asked: Vec<Jid>) {
    let last = asked.last().cloned();
    let account = |jid| JobAccount {
        jid,
        known: Known::No,
    };
    let accounts: Vec<_> = asked.into_iter().map(account).collect();
    let taken = store.take_accounts(&id("a"), Some(start), &accounts).await;
    taken.unwrap();
    assert_eq!(store.to_account_for(&id("a"), start, last.as_ref()), []);
    store.finish_reconciliation(&id("a"), start).await.unwrap();
}

/// States that the minion `a` began these of the jobs that expire in this time.
async fn state(store: &JobStore, after: u64, until: u64, begun: &[&Job]) {
    let ack = ExpiryAck {
        after,
        until,
        begun: begun.iter().map(|job| job.jid.clone()).collect(),
    };
    let taken = store.take_expiry_ack(&id("a"), &ack).await;
    taken.unwrap();
}

async fn run(store: &JobStore, job: &Job) {
    assert!(store.set_state(&job.jid, &id("a"), Running).await.unwrap());
}

/// Waits until the master's time is past what the minion `a` acknowledged by some milliseconds, and returns
/// that.
async fn pass(store: &JobStore) -> u64 {
    let settled = store.minion_record(&id("a")).unwrap().expiry_acked_until;
    while store.now() < settled + 3 {
        tokio::task::yield_now().await;
    }
    settled
}

async fn of_a(store: &JobStore, job: &Job) -> MinionJobState {
    states(store, &job.jid).await[0].1
}

#[tokio::test]
async fn what_runs_and_the_minion_does_not_know_is_lost_at_once() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let (runs, offered, over) = (job(&store), job(&store), job(&store));
    for job in [&runs, &offered, &over] {
        publish(&store, job, &[("a", Offered), ("b", Offered)]).await;
    }
    run(&store, &runs).await;
    run(&store, &over).await;
    answer(&store, "a", &over.jid, &Value::Null).await.unwrap();
    let asked = reconcile(&store, &start(2, Some(1)), Known::No).await;
    assert_eq!(asked, std::slice::from_ref(&runs.jid));
    assert_eq!(of_a(&store, &runs).await, LostTrack);
    assert_eq!(of_a(&store, &offered).await, Offered, "it may begin it");
    assert_eq!(of_a(&store, &over).await, Returned);
    drop(store);
    assert_eq!(
        of_a(&place.open(), &over).await,
        Returned,
        "after a restart"
    );
}

#[tokio::test]
async fn what_the_minion_knows_stays() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    for (known, state) in [
        (Known::Running, Running),
        (Known::Finished, Running),
        (Known::Delivered, ReturnedAndLost),
        // It told an earlier master that it does not know the job.
        (Known::Barred, LostTrack),
        (Known::Forgotten, Running),
    ] {
        let job = job(&store);
        publish(&store, &job, &[("a", Offered)]).await;
        run(&store, &job).await;
        let asked = reconcile(&store, &start(2, Some(1)), known).await;
        assert!(asked.contains(&job.jid));
        assert_eq!(of_a(&store, &job).await, state, "{known:?}");
        answer(&store, "a", &job.jid, &Value::Null).await.unwrap();
    }
}

#[tokio::test]
async fn another_copy_of_a_minion_loses_nothing_of_the_first() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let (runs, offered) = (job(&store), job(&store));
    publish(&store, &runs, &[("a", Offered)]).await;
    publish(&store, &offered, &[("a", Offered)]).await;
    run(&store, &runs).await;
    for other in [
        // Its image is of a time before the first start was reconciled.
        start(2, Some(9)),
        // Its image is of a time after that, and the first start is alive.
        ReconcilingStart {
            beside: true,
            ..start(3, Some(1))
        },
    ] {
        assert_eq!(store.lineage(&id("a"), &other), Lineage::Other);
        let asked = reconcile(&store, &other, Known::No).await;
        assert!(asked.contains(&runs.jid));
        assert_eq!(of_a(&store, &runs).await, Running);
        assert_eq!(of_a(&store, &offered).await, MayHaveRun);
        let pending = store
            .pending_jobs(&id("a"), None, offered.created, u64::MAX)
            .await;
        assert_eq!(pending.unwrap().jobs, [], "it is handed to nobody");
        // Once more in the same start: the other one may still run it.
        reconcile(&store, &start(other.start.0[0], None), Known::No).await;
        assert_eq!(of_a(&store, &runs).await, Running);
        // The first one is back.
        reconcile(&store, &start(1, None), Known::Running).await;
        assert_eq!(of_a(&store, &runs).await, Running);
    }
    // What a copy of its disk says of a run decides nothing about that run.
    let mut interrupted = returned(&runs.jid, &Value::Null);
    interrupted.retcode = saline_messages::RETCODE_INTERRUPTED;
    let verdict = store_one(&store, &id("a"), interrupted).await.unwrap();
    assert_eq!(verdict, ReturnVerdict::Disputed);
    assert_eq!(of_a(&store, &runs).await, Running);
    answer(&store, "a", &offered.jid, &Value::Null)
        .await
        .unwrap();
    assert_eq!(of_a(&store, &offered).await, Returned, "the truth is taken");
}

/// A copy accounts for what its original was handed, and meanwhile that one asks for what was queued.
#[tokio::test]
async fn what_is_handed_to_the_original_while_its_copy_reconciles_is_not_handed_to_the_copy() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let (queued, offered) = (job(&store), job(&store));
    publish(&store, &queued, &[("a", Queued)]).await;
    publish(&store, &offered, &[("a", Offered)]).await;
    let copy = ReconcilingStart {
        beside: true,
        ..start(2, Some(1))
    };
    let asked = store.to_account_for(&id("a"), &copy, None);
    assert_eq!(asked, std::slice::from_ref(&offered.jid));
    let pending = async || {
        let page = store
            .pending_jobs(&id("a"), None, store.now(), u64::MAX)
            .await;
        let jobs = page.unwrap().jobs;
        jobs.into_iter()
            .map(|signed| signed.job.jid)
            .collect::<Vec<_>>()
    };
    assert_eq!(pending().await.len(), 2, "the original is handed both");
    reconcile_after(&store, &copy, asked).await;
    assert_eq!(pending().await, std::slice::from_ref(&queued.jid));
    while store.now() <= offered.created {
        tokio::task::yield_now().await;
    }
    let seated_at = store.now();
    let given_up = store.give_up_handed_over(&id("a"), seated_at).await;
    assert_eq!(given_up.unwrap(), [(queued.jid.clone(), MayHaveRun)]);
    assert_eq!(pending().await, Vec::<Jid>::new());
    // What the copy is handed from then on is its own.
    while store.now() <= seated_at {
        tokio::task::yield_now().await;
    }
    let later = job(&store);
    publish(&store, &later, &[("a", Offered)]).await;
    let given_up = store.give_up_handed_over(&id("a"), seated_at).await;
    assert_eq!(given_up.unwrap(), []);
    assert_eq!(pending().await, [later.jid]);
}

#[tokio::test]
async fn after_a_loss_of_power_nothing_runs_again_that_was_handed_over() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let (offered, queued, runs) = (job(&store), job(&store), job(&store));
    publish(&store, &offered, &[("a", Offered)]).await;
    publish(&store, &queued, &[("a", Queued)]).await;
    publish(&store, &runs, &[("a", Offered)]).await;
    run(&store, &runs).await;
    let lost = ReconcilingStart {
        power_lost: true,
        ..start(2, Some(1))
    };
    let asked = reconcile(&store, &lost, Known::No).await;
    assert_eq!(asked, [offered.jid.clone(), runs.jid.clone()]);
    // Dropped without being closed: what was told is on the disk.
    drop(store);
    let store = place.open();
    assert_eq!(of_a(&store, &offered).await, MayHaveRun);
    assert_eq!(of_a(&store, &runs).await, LostTrack);
    let pending = store
        .pending_jobs(&id("a"), None, queued.created, u64::MAX)
        .await;
    let pending: Vec<Job> = pending.unwrap().jobs.into_iter().map(|s| s.job).collect();
    assert_eq!(
        pending,
        std::slice::from_ref(&queued),
        "it was not handed over"
    );
    assert_eq!(of_a(&store, &queued).await, Offered, "now it is");
}

#[tokio::test]
async fn expired_is_said_with_the_minions_word() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let settled = pass(&store).await;
    let (mut begun, mut not, later) = (job(&store), job(&store), job(&store));
    (begun.expires, not.expires) = (settled + 1, settled + 1);
    for job in [&begun, &not, &later] {
        publish(&store, job, &[("a", Offered), ("b", Offered)]).await;
    }
    assert_eq!(of_a(&store, &not).await, Unconfirmed);
    // The expiry ack reaches no further than the master's time.
    state(&store, settled, u64::MAX, &[&begun]).await;
    let all = async |store: &JobStore| {
        [
            of_a(store, &begun).await,
            of_a(store, &not).await,
            of_a(store, &later).await,
        ]
    };
    assert_eq!(all(&store).await, [Running, Expired, Offered]);
    let page = store.states(&not.jid, None, 9).await.unwrap().unwrap();
    assert_eq!(page.unconfirmed_since, [(id("b"), 0)]);
    assert_eq!(page.states[1], (id("b"), Unconfirmed));
    store.flush().await.unwrap();
    drop(store);
    let store = place.open();
    assert_eq!(
        all(&store).await,
        [Running, Expired, Offered],
        "after a crash"
    );
    // It is heard late that it began all the same.
    run(&store, &not).await;
    assert_eq!(of_a(&store, &not).await, Running);
}

#[tokio::test]
async fn the_expiry_ack_of_a_minion_decides_about_jobs_that_only_the_disk_holds() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let settled = pass(&store).await;
    let mut old = job(&store);
    old.expires = settled + 1;
    publish(&store, &old, &[("a", Offered)]).await;
    store.expire(u64::MAX / 2);
    assert!(!lock(&store.open).has(crate::jid::to_micros(&old.jid).unwrap()));
    assert_eq!(of_a(&store, &old).await, Unconfirmed);
    state(&store, settled, u64::MAX, &[]).await;
    assert_eq!(of_a(&store, &old).await, Expired);
    store.flush().await.unwrap();
    drop(store);
    assert_eq!(of_a(&place.open(), &old).await, Expired, "after a crash");
}

#[tokio::test]
async fn what_a_minion_has_forgotten_may_have_run() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let settled = pass(&store).await;
    let (mut old, mut new) = (job(&store), job(&store));
    (old.expires, new.expires) = (settled + 1, settled + 2);
    publish(&store, &old, &[("a", Offered)]).await;
    publish(&store, &new, &[("a", Offered)]).await;
    // The ack begins behind the first expiry.
    state(&store, old.expires, u64::MAX, &[]).await;
    assert_eq!(of_a(&store, &old).await, MayHaveRun);
    assert_eq!(of_a(&store, &new).await, Expired);
    // Nor can it acknowledge anything before a loss of power.
    let settled = pass(&store).await;
    let mut old = job(&store);
    old.expires = settled + 1;
    publish(&store, &old, &[("a", Offered)]).await;
    let lost = ReconcilingStart {
        power_lost: true,
        ..start(2, Some(1))
    };
    reconcile(&store, &lost, Known::No).await;
    assert_eq!(of_a(&store, &old).await, MayHaveRun);
}

#[tokio::test]
async fn a_loss_of_power_is_settled_once_and_again_by_a_master_that_did_not_hear_of_it() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let before = job(&store);
    publish(&store, &before, &[("a", Offered)]).await;
    let backup = store.back_up(jobs_alone).await.unwrap();
    let lost = ReconcilingStart {
        power_lost: true,
        ..start(2, Some(1))
    };
    assert_eq!(
        reconcile(&store, &lost, Known::No).await,
        std::slice::from_ref(&before.jid)
    );
    assert_eq!(of_a(&store, &before).await, MayHaveRun);
    // Its connection breaks while the next job is on its way, which it did not begin.
    let after = job(&store);
    publish(&store, &after, &[("a", Offered)]).await;
    assert_eq!(reconcile(&store, &lost, Known::No).await, []);
    assert_eq!(of_a(&store, &after).await, Offered);
    drop(store);

    let place = settings(backup.folder.into());
    let store = JobStore::open(place, MasterClock::new(Clock)).unwrap();
    assert_eq!(of_a(&store, &before).await, Offered);
    reconcile(&store, &lost, Known::No).await;
    assert_eq!(of_a(&store, &before).await, MayHaveRun);
}

#[tokio::test]
async fn a_cancelled_job_is_over_when_the_minion_says_so() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let offers = [("a", Offered), ("b", Queued), ("c", Offered)];
    publish(&store, &job, &offers).await;
    assert!(store.set_state(&job.jid, &id("c"), Running).await.unwrap());
    assert_eq!(store.cancel(&job.jid).await.unwrap(), Some(vec![id("b")]));
    assert_eq!(store.cancel(&store.next_jid()).await.unwrap(), None);
    let now = [(id("a"), Offered), (id("b"), Cancelled), (id("c"), Running)];
    assert_eq!(states(&store, &job.jid).await, now);
    drop(store);
    let store = place.open();
    let now = [(id("a"), Offered), (id("b"), Cancelled), (id("c"), Offered)];
    assert_eq!(states(&store, &job.jid).await, now, "after a crash");
    for minion in ["a", "b"] {
        let pending = store
            .pending_jobs(&id(minion), None, job.created, u64::MAX)
            .await;
        assert_eq!(pending.unwrap().jobs, []);
    }
    assert!(!store.claim(&id("a"), &job.jid).await.unwrap());
    assert_eq!(store.cancelled_of(&id("a")), std::slice::from_ref(&job.jid));
    let barred = [JobAccount {
        jid: job.jid.clone(),
        known: Known::Barred,
    }];
    let changes = store.take_accounts(&id("a"), None, &barred).await.unwrap();
    assert_eq!(changes, [(job.jid.clone(), Cancelled)]);
    assert_eq!(store.cancelled_of(&id("a")), Vec::<Jid>::new());
}

#[tokio::test]
async fn a_claim_is_granted_for_what_is_offered_or_queued() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let offers = [
        ("a", Offered),
        ("b", Queued),
        ("c", NotConnected),
        ("d", Offered),
    ];
    publish(&store, &job, &offers).await;
    assert!(store.set_state(&job.jid, &id("d"), Running).await.unwrap());
    let claim = async |minion: &str| store.claim(&id(minion), &job.jid).await.unwrap();
    assert!(claim("a").await && claim("a").await && claim("b").await);
    assert!(!claim("c").await && !claim("d").await && !claim("z").await);
    drop(store);
    let store = place.open();
    assert_eq!(
        states(&store, &job.jid).await[1].1,
        Offered,
        "after a crash"
    );
}

#[tokio::test]
async fn a_deleted_key_takes_its_jobs_with_it() {
    let place = Place::new();
    let store = place.open();
    reconcile(&store, &start(1, None), Known::No).await;
    let (one, two) = (job(&store), job(&store));
    publish(&store, &one, &[("a", Offered), ("b", Offered)]).await;
    publish(&store, &two, &[("a", Queued)]).await;
    assert_eq!(
        store.withdraw(&id("a"), None),
        [one.jid.clone(), two.jid.clone()]
    );
    assert_eq!(of_a(&store, &one).await, Withdrawn);
    assert_eq!(of_a(&store, &two).await, Withdrawn);
    let verdict = answer(&store, "a", &one.jid, &Value::Null).await.unwrap();
    assert_eq!(verdict, ReturnVerdict::NotOffered);
    assert_eq!(
        store.lineage(&id("a"), &start(7, None)),
        Lineage::New,
        "whoever has the id next is another one"
    );
}

#[tokio::test]
async fn a_disk_or_a_memory_that_was_put_back_is_told_from_a_restart() {
    let place = Place::new();
    let store = place.open();
    let minion = id("a");
    let noted = |number, predecessor, noted, before| ReconcilingStart {
        heartbeats_noted: noted,
        heartbeats_before: before,
        ..start(number, predecessor)
    };
    let first = noted(1, None, 10, 0);
    assert!(!store.was_put_back(&minion, &first), "it is new");
    store.finish_reconciliation(&minion, &first).await.unwrap();
    store.take_heartbeats_noted(&minion, 12);
    for (start, was_put_back) in [
        (noted(1, None, 12, 0), false),
        (noted(1, None, 11, 0), true),
        (noted(2, Some(1), 12, 12), false),
        (noted(2, Some(1), 12, 11), true),
        (noted(3, None, 0, 0), false),
    ] {
        assert_eq!(
            store.was_put_back(&minion, &start),
            was_put_back,
            "{start:?}"
        );
    }
}

#[tokio::test]
async fn what_was_heard_before_a_job_was_handed_over_outlives_a_crash() {
    let place = Place::new();
    let store = place.open();
    let noted = |number, noted| ReconcilingStart {
        heartbeats_noted: noted,
        ..start(number, None)
    };
    for (number, minion) in [(1, id("a")), (2, id("b")), (3, id("c"))] {
        let start = noted(number, 10);
        let finished = store.finish_reconciliation(&minion, &start);
        finished.await.unwrap();
        store.take_heartbeats_noted(&minion, 12);
    }
    let job = job(&store);
    publish(
        &store,
        &job,
        &[("a", Offered), ("b", Queued), ("c", Queued)],
    )
    .await;
    store.take_heartbeats_noted(&id("b"), 13);
    assert!(store.claim(&id("b"), &job.jid).await.unwrap());
    // A crash: no record is written, and no state that can wait.
    drop(store);
    let store = place.open();
    for (number, minion, heard) in [(1, "a", 12), (2, "b", 13), (3, "c", 10)] {
        for noted_now in [heard - 1, heard] {
            assert_eq!(
                store.was_put_back(&id(minion), &noted(number, noted_now)),
                noted_now < heard,
                "{minion} {noted_now}"
            );
        }
    }
}
