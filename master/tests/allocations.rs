//! What a publication and a return cost the job store, in allocations: counts, and no times. A program of its own,
//! because its allocator counts for the whole process.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]
#![allow(
    unsafe_code,
    reason = "an allocator that counts can be made in no other way"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_master::clock::MasterClock;
use saline_master::jobs::{JobStore, NewJob, StoreSettings};
use saline_messages::{
    Arguments, Job, MinionId, MinionJobState, MustClaim, RequestId, Return, ReturnVerdict,
    SignedJob,
};
use saline_protocol::transport::Clock;
use saline_targeting::Target;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The number of times that each thing is done.
const TIMES: usize = 1_000;

fn minion(number: usize) -> MinionId {
    MinionId::parse(&format!("m{number:04}")).unwrap()
}

fn new(store: &JobStore, number: u128, minions: usize) -> NewJob {
    let jid = store.next_jid();
    NewJob {
        job: SignedJob {
            job: Job {
                jid,
                target: Target::glob("*"),
                fun: "test.ping".to_owned(),
                arg: Arguments::default().pack(),
                user: "root".to_owned(),
                created: 0,
                claims: MustClaim::NOBODY,
                expires: u64::MAX,
            },
            secrets: None,
            signature: vec![0; 64],
        },
        operator: "root".to_owned(),
        request: RequestId(number.to_be_bytes()),
        minions: (0..minions)
            .map(|n| (minion(n), MinionJobState::Offered))
            .collect(),
        unknown: Vec::new(),
        batch: None,
        resolved: None,
        metadata: None,
        returners: Vec::new(),
    }
}

fn returned(job: &Job) -> Return {
    Return {
        jid: job.jid.clone(),
        fun: job.fun.clone(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::Bool(true)),
    }
}

/// Alone in its file, so that nothing else allocates meanwhile.
#[tokio::test]
async fn a_publication_and_a_return_have_few_allocations() {
    let folder = tempfile::tempdir().unwrap();
    let settings = StoreSettings {
        folder: folder.path().join("jobs"),
        secrets_key: folder.path().join("secrets.key"),
        keep: Duration::from_secs(86_400),
        max_bytes: None,
        largest_payload: 64 << 20,
        cache_bytes: 1 << 20,
        heartbeat: Duration::from_secs(15),
    };
    let store = JobStore::open(settings, MasterClock::new(Clock)).unwrap();

    let jobs: Vec<NewJob> = (0..TIMES).map(|n| new(&store, n as u128, 1)).collect();
    let ready: Vec<Return> = jobs.iter().map(|new| returned(&new.job.job)).collect();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for job in jobs {
        let _ = store.publish(job).await.unwrap();
    }
    let a_publication = (ALLOCATIONS.load(Ordering::Relaxed) - before) / TIMES;

    let one = minion(0);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for returned in ready {
        let verdicts = store.store_returns(&one, vec![returned]).await.unwrap();
        assert_eq!(verdicts, [ReturnVerdict::Stored]);
    }
    let a_return = (ALLOCATIONS.load(Ordering::Relaxed) - before) / TIMES;

    let large = new(&store, u128::MAX, TIMES);
    let job = large.job.job.clone();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let _ = store.publish(large).await.unwrap();
    let a_minion = (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64 / TIMES as f64;

    let all: Vec<(MinionId, Return)> = (0..TIMES).map(|n| (minion(n), returned(&job))).collect();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for (minion, returned) in all {
        let _ = store.store_returns(&minion, vec![returned]).await.unwrap();
    }
    let of_large = (ALLOCATIONS.load(Ordering::Relaxed) - before) / TIMES;

    println!(
        "allocations: a publication {a_publication}, a return {a_return}, a return of a large job \
         {of_large}, a minion of a publication {a_minion}"
    );
    assert!(a_publication <= 16, "a publication: {a_publication}");
    assert!(a_return <= 19, "a return: {a_return}");
    assert!(of_large <= 19, "a return of a large job: {of_large}");
    assert!(a_minion <= 1.5, "a minion of a publication: {a_minion}");
}
