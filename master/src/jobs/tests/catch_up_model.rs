//! The pages of a catch-up against a model that is short enough to be read: a table of which jobs the
//! minion may begin. Whatever changes between two pages, each page tells what is true, and none is missed.

use std::sync::Arc;

use proptest::prelude::*;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::*;
use crate::jobs::catch_up::PageLimits;

use MinionJobState::{Cancelled, Declined, NotConnected, Offered, Queued, Running, Withdrawn};

/// What happens before a page, to the job of this number.
#[derive(Debug, Clone, Copy)]
enum Change {
    Nothing,
    Set(usize, MinionJobState),
    Cancel(usize),
    Time(u64),
    Withdraw,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => Just(Change::Nothing),
        4 => (0..12usize).prop_map(|job| Change::Set(job, Running)),
        2 => (0..12usize).prop_map(|job| Change::Set(job, Declined)),
        2 => (0..12usize).prop_map(Change::Cancel),
        2 => (0..30u64).prop_map(Change::Time),
        1 => Just(Change::Withdraw),
    ]
}

/// The state of a job for the minion, how long it may begin, and the size of its arguments.
type Offer = (MinionJobState, u64, usize);

fn offer() -> impl Strategy<Value = Offer> {
    let state = prop_oneof![4 => Just(Offered), 4 => Just(Queued), 1 => Just(NotConnected)];
    (state, 1..100u64, 0..600usize)
}

/// A job of the model.
#[derive(Debug)]
struct Row {
    job: Job,
    state: MinionJobState,
    cancelled: bool,
}

impl Row {
    fn may_begin(&self, now: u64) -> bool {
        matches!(self.state, Offered | Queued) && !self.cancelled && self.job.expires > now
    }
}

/// A walk over the pages for one minion.
struct Walk<'s> {
    store: &'s JobStore,
    minion: MinionId,
    rows: Vec<Row>,
    now: u64,
}

impl Walk<'_> {
    async fn change(&mut self, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Time(passes) => self.now += passes,
            Change::Set(number, to) => {
                let Some(row) = self.rows.get_mut(number) else {
                    return;
                };
                let allowed = super::super::may_become(row.state, to);
                let set = self.store.set_state(&row.job.jid, &self.minion, to).await;
                assert_eq!(set.unwrap(), allowed);
                if allowed {
                    row.state = to;
                }
            }
            Change::Cancel(number) => {
                if let Some(row) = self.rows.get_mut(number) {
                    self.store.cancel(&row.job.jid).await.unwrap();
                    row.cancelled = true;
                    if row.state == Queued {
                        row.state = Cancelled;
                    }
                }
            }
            Change::Withdraw => {
                self.store.withdraw(&self.minion, None);
                for row in &mut self.rows {
                    if matches!(row.state, Offered | Queued | Running) {
                        row.state = Withdrawn;
                    }
                }
            }
        }
    }

    /// Reads a page after `after`, and compares it with the model. Returns the last job of it; none when it was
    /// the last page.
    async fn page(&mut self, after: Option<Jid>, limits: PageLimits) -> Option<Jid> {
        let page = self
            .store
            .pending_page(&self.minion, after.as_ref(), self.now, limits)
            .await
            .unwrap();
        let now = self.now;
        let ahead = self.rows.iter_mut().filter(|row| {
            row.may_begin(now) && after.as_ref().is_none_or(|after| row.job.jid > *after)
        });
        let mut ahead: Vec<&mut Row> = ahead.collect();
        let told: Vec<&Job> = page.jobs.iter().map(|signed| &signed.job).collect();
        let expected: Vec<&Job> = ahead.iter().map(|row| &row.job).take(told.len()).collect();
        assert_eq!(told, expected, "the oldest first, and none left out");
        assert_eq!(page.more, told.len() < ahead.len());
        assert!(told.len() <= limits.jobs);
        assert!(
            !told.is_empty() || ahead.is_empty(),
            "an empty page ends a walk"
        );
        let last = told.last().map(|job| job.jid.clone());
        let told = told.len();
        for row in &mut ahead[..told] {
            // It was handed over.
            row.state = Offered;
        }
        last.filter(|_| page.more)
    }
}

/// Publishes the jobs at once, so that they are one commit.
async fn publish_all(store: &Arc<JobStore>, minion: &MinionId, offers: &[Offer]) -> Vec<Row> {
    let mut publications = JoinSet::new();
    let mut rows = Vec::new();
    for (state, ttl, size) in offers {
        let mut job = job(store);
        (job.created, job.expires) = (0, *ttl);
        job.arg = Arguments {
            positional: vec![Value::Bytes(vec![0; *size])],
            named: Vec::new(),
        }
        .pack();
        let (store, new) = (Arc::clone(store), new(&job, &[(minion.as_str(), *state)]));
        publications.spawn(async move { store.publish(new).await.unwrap() });
        rows.push(Row {
            job,
            state: *state,
            cancelled: false,
        });
    }
    publications.join_all().await;
    rows
}

#[test]
fn each_page_tells_what_the_minion_may_begin() {
    let place = Place::new();
    let runtime = Runtime::new().unwrap();
    let store = Arc::new(place.open());
    let minions = std::cell::Cell::new(0);
    let case = (
        proptest::collection::vec(offer(), 0..12),
        proptest::collection::vec(change(), 0..12),
        (1..5usize, 100..1_500usize),
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2_000));
    let walked = runner.run(&case, |(offers, changes, (jobs, bytes))| {
        minions.set(minions.get() + 1);
        let minion = id(&format!("m{}", minions.get()));
        runtime.block_on(async {
            let mut walk = Walk {
                store: &store,
                rows: publish_all(&store, &minion, &offers).await,
                minion,
                now: 0,
            };
            let mut changes = changes.into_iter();
            let limits = PageLimits { jobs, bytes };
            let mut after = walk.page(None, limits).await;
            // A walk that has ended begins again until nothing more happens.
            while after.is_some() || changes.len() > 0 {
                if let Some(change) = changes.next() {
                    walk.change(change).await;
                }
                after = walk.page(after, limits).await;
            }
        });
        Ok(())
    });
    walked.unwrap();
}
