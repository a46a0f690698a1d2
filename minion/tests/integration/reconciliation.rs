//! A minion's spool and a master's store against each other, over random schedules of deliveries, losses,
//! crashes, restored copies and time: whatever happens, what is said of a job is true in the end.
//!
//! The parts are the real ones; the network between them is this file, and the master's time is moved by
//! hand. It is one model with its checks, so it is long.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_master::clock::MasterClock;
use saline_master::jobs::{JobStore, NewJob, ReconcilingStart, StoreSettings};
use saline_messages::{
    Arguments, Jid, Job, JobAccount, Known, MinionId, MinionJobState, MustClaim, RequestId, Return,
    ReturnVerdict, SignedJob,
};
use saline_minion::spool::{Spool, Start};
use saline_protocol::transport::Clock;
use saline_targeting::Target;

/// The number of schedules, and the number of steps of each.
const SCHEDULES: u64 = 100;
const STEPS: usize = 60;

/// A generator of numbers that is the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

struct World {
    folder: tempfile::TempDir,
    random: Random,
    clock: MasterClock,
    store: JobStore,
    spool: Spool,
    /// The start that goes on in the memory of a machine which was put back.
    memory: Option<Start>,
    /// The number of the session, while there is one.
    session: Option<u64>,
    sessions: u64,
    expiry_acked_until: u64,
    /// Publications that are under way to the minion.
    inbox: VecDeque<Job>,
    running: Vec<Job>,
    jobs: Vec<Job>,
    /// How often each job ran.
    runs: BTreeMap<Jid, u32>,
    /// The returns that were acknowledged since the store was restored last.
    acknowledged: Vec<Jid>,
    log: Vec<String>,
}

fn settings(folder: &Path) -> StoreSettings {
    StoreSettings {
        folder: folder.join("jobs"),
        secrets_key: folder.join("secrets.key"),
        keep: Duration::from_secs(86_400),
        max_bytes: None,
        largest_payload: 64 << 20,
        cache_bytes: 1 << 20,
        heartbeat: Duration::from_secs(15),
    }
}

fn minion() -> MinionId {
    MinionId::parse("m1").unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = MasterClock::new(Clock);
        Self {
            store: JobStore::open(settings(folder.path()), clock.clone()).unwrap(),
            spool: Spool::open(folder.path().join("minion/spool.log"), false).unwrap(),
            memory: None,
            folder,
            random: Random(seed),
            clock,
            session: None,
            sessions: 0,
            expiry_acked_until: 0,
            inbox: VecDeque::new(),
            running: Vec::new(),
            jobs: Vec::new(),
            runs: BTreeMap::new(),
            acknowledged: Vec::new(),
            log: Vec::new(),
        }
    }

    fn spool_path(&self) -> PathBuf {
        self.folder.path().join("minion/spool.log")
    }

    async fn step(&mut self) {
        let which = self.random.below(31);
        let session = self.session;
        self.log.push(format!("{which}:{session:?}"));
        match which {
            // A minion without a session looks for one.
            _ if self.session.is_none() && which.is_multiple_of(3) => self.reconcile().await,
            0..5 => self.publish().await,
            5..8 => self.begin().await,
            8..10 => self.finish(),
            10..13 => self.send().await,
            13..18 => self.heartbeat().await,
            18..20 => self.catch_up().await,
            20 => self.reconcile().await,
            21..24 => {
                let time = 1 + self.random.below(3) * 20_000;
                self.pass(time);
            }
            24 => self.kill_minion(),
            25 => self.kill_master(),
            26..28 => self.cancel().await,
            // What is under way to the minion is lost.
            28 => self.inbox.clear(),
            29 => self.session = None,
            _ => self.store.flush_all().await.unwrap(),
        }
    }

    fn pass(&mut self, milliseconds: u64) {
        self.clock.rise_above(self.clock.now() + milliseconds);
        self.store.expire(self.clock.now());
    }

    async fn publish(&mut self) {
        let created = self.clock.now();
        let job = Job {
            jid: self.store.next_jid(),
            target: Target::glob("*"),
            fun: "test.ping".into(),
            arg: Arguments::default().pack(),
            user: "root".into(),
            created,
            expires: created + 10_000 + self.random.below(2) * 60_000,
            claims: MustClaim::NOBODY,
        };
        let state = match (self.session, self.random.below(2)) {
            (Some(_), _) => MinionJobState::Offered,
            (None, 0) => MinionJobState::Queued,
            (None, _) => MinionJobState::NotConnected,
        };
        let signed = SignedJob {
            job: job.clone(),
            secrets: None,
            signature: vec![1; 64],
        };
        let new = NewJob {
            job: signed,
            operator: "root".into(),
            request: RequestId::random().unwrap(),
            minions: vec![(minion(), state)],
            unknown: Vec::new(),
            batch: None,
            resolved: None,
            metadata: None,
            returners: Vec::new(),
        };
        let _ = self.store.publish(new).await.unwrap();
        if state == MinionJobState::Offered {
            self.inbox.push_back(job.clone());
        }
        self.jobs.push(job);
    }

    async fn begin(&mut self) {
        let Some(job) = self.inbox.pop_front() else {
            return;
        };
        let told = self.state_of(&job.jid).await;
        // The minion has looked at the clock long before.
        if self.spool.begin(&job).is_ok() {
            assert!(
                !told.is_final(),
                "{} began after it was said to be {}",
                job.jid,
                told.name()
            );
            *self.runs.entry(job.jid.clone()).or_default() += 1;
            self.running.push(job);
        }
    }

    fn finish(&mut self) {
        let Some(job) = self.running.pop() else {
            return;
        };
        self.spool.finish(Return {
            jid: job.jid,
            fun: job.fun,
            retcode: 0,
            success: true,
            payload: Packed::pack(&Value::Bool(true)),
        });
    }

    async fn send(&mut self) {
        let Some(session) = self.session else { return };
        let Some(jid) = self.spool.take_unsent() else {
            return;
        };
        let returned = self.spool.read(&jid).unwrap().unwrap();
        let verdicts = self.store.store_returns(&minion(), vec![returned]).await;
        self.log.push(format!("{jid} {verdicts:?}"));
        // The verdict may be lost.
        if self.random.below(4) == 0 {
            return self.spool.put_back(&jid);
        }
        match verdicts.unwrap()[0] {
            ReturnVerdict::Stored | ReturnVerdict::Duplicate => {
                self.spool
                    .done(std::slice::from_ref(&jid), Some(self.clock.now()), session);
                self.acknowledged.push(jid);
            }
            _ => self.spool.set_aside(&jid),
        }
    }

    /// The master hears of a heartbeat and of nothing that comes with it.
    fn hear_heartbeat(&mut self) {
        self.spool.note_heartbeat(Some(self.clock.now()));
        let noted = self.spool.heartbeats_noted();
        self.store.take_heartbeats_noted(&minion(), noted);
    }

    async fn heartbeat(&mut self) {
        let Some(session) = self.session else { return };
        self.spool.note_heartbeat(Some(self.clock.now()));
        let running: Vec<Jid> = self.running.iter().map(|job| job.jid.clone()).collect();
        self.store
            .mark_running(&minion(), &running, usize::MAX)
            .await
            .unwrap();
        let noted = self.spool.heartbeats_noted();
        self.store.take_heartbeats_noted(&minion(), noted);
        let statement = self
            .spool
            .settle(self.expiry_acked_until, self.clock.now(), session, 512);
        // The request may be lost.
        if self.random.below(5) == 0 {
            return;
        }
        let changes = self.store.take_expiry_ack(&minion(), &statement).await;
        let unclear = changes
            .unwrap()
            .iter()
            .any(|(jid, state)| *state == MinionJobState::Running && !running.contains(jid));
        self.expiry_acked_until = self
            .store
            .minion_record(&minion())
            .unwrap()
            .expiry_acked_until;
        let cancelled = self.store.cancelled_of(&minion());
        let accounts: Vec<_> = cancelled
            .into_iter()
            .map(|jid| JobAccount {
                known: self.spool.bar(&jid, u64::MAX),
                jid,
            })
            .collect();
        self.store
            .take_accounts(&minion(), None, &accounts)
            .await
            .unwrap();
        if unclear {
            self.reconcile().await;
        }
    }

    async fn catch_up(&mut self) {
        if self.session.is_none() {
            return;
        }
        let now = self.clock.now();
        let page = self
            .store
            .pending_jobs(&minion(), None, now, u64::MAX)
            .await
            .unwrap();
        for signed in page.jobs {
            let jid = signed.job.jid.clone();
            if self.spool.is_seen(&jid) {
                self.spool.take_up(&jid);
                let known = match self.spool.known(&jid) {
                    Known::No => Known::Forgotten,
                    known => known,
                };
                let accounts = [JobAccount { jid, known }];
                self.store
                    .take_accounts(&minion(), None, &accounts)
                    .await
                    .unwrap();
            } else {
                self.inbox.push_back(signed.job);
            }
        }
    }

    /// Reconciles until there is a session.
    async fn reconcile_surely(&mut self) {
        while self.session.is_none() {
            self.reconcile().await;
        }
    }

    async fn reconcile(&mut self) {
        let begins = self.session.is_none();
        let start = self.memory.clone().unwrap_or_else(|| self.spool.start());
        let start = ReconcilingStart {
            start: start.id,
            predecessors: start.predecessors,
            power_lost: start.power_lost,
            beside: false,
            heartbeats_noted: self.spool.heartbeats_noted(),
            heartbeats_before: start.heartbeats_before,
        };
        let mut accounts: Vec<JobAccount> = Vec::new();
        loop {
            let running: Vec<Jid> = self.running.iter().map(|job| job.jid.clone()).collect();
            self.store
                .mark_running(&minion(), &running, usize::MAX)
                .await
                .unwrap();
            let taken = self
                .store
                .take_accounts(&minion(), Some(&start), &accounts)
                .await;
            taken.unwrap();
            let after = accounts.last().map(|account| account.jid.clone());
            let asked = self.store.to_account_for(&minion(), &start, after.as_ref());
            if asked.is_empty() {
                break;
            }
            // The connection may be lost in between.
            if self.random.below(8) == 0 {
                return;
            }
            let account = |jid: Jid| {
                self.spool.take_up(&jid);
                let known = match self.spool.bar(&jid, u64::MAX) {
                    Known::Barred => Known::No,
                    known => known,
                };
                JobAccount { jid, known }
            };
            accounts = asked.into_iter().map(account).collect();
        }
        self.store
            .finish_reconciliation(&minion(), &start)
            .await
            .unwrap();
        self.expiry_acked_until = self
            .store
            .minion_record(&minion())
            .unwrap()
            .expiry_acked_until;
        if begins {
            self.sessions += 1;
            self.session = Some(self.sessions);
            self.spool
                .begin_session(self.expiry_acked_until, self.clock.now());
        }
        // The minion may not hear that it is done.
        if self.random.below(4) > 0 {
            self.spool.reconciled();
        }
    }

    fn kill_minion(&mut self) {
        self.spool = Spool::open(self.spool_path(), false).unwrap();
        self.inbox.clear();
        self.running.clear();
        self.session = None;
    }

    /// The machine gets an earlier copy of its disk.
    fn restore_disk(&mut self, copy: &[u8]) {
        std::fs::write(self.spool_path(), copy).unwrap();
        self.kill_minion();
    }

    fn kill_master(&mut self) {
        // The threads of the old one end with it; nothing is flushed.
        let folder = self.folder.path().to_owned();
        let elsewhere = JobStore::open(settings(&folder.join("elsewhere")), self.clock.clone());
        drop(std::mem::replace(&mut self.store, elsewhere.unwrap()));
        self.store = JobStore::open(settings(&folder), self.clock.clone()).unwrap();
        self.session = None;
    }

    async fn cancel(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let at = self.random.below(self.jobs.len() as u64) as usize;
        let jid = self.jobs[at].jid.clone();
        self.store.cancel(&jid).await.unwrap();
    }

    /// Lets everything come to its end.
    async fn settle(&mut self) {
        for _ in 0..10 {
            self.reconcile().await;
            self.catch_up().await;
            while !self.inbox.is_empty() {
                self.begin().await;
            }
            while !self.running.is_empty() {
                self.finish();
            }
            for _ in 0..4 * self.jobs.len() + 4 {
                self.send().await;
            }
            // Longer than a duplicate of the minion may be silent, in all.
            self.pass(200_000);
            for _ in 0..4 {
                self.heartbeat().await;
            }
        }
    }

    async fn state_of(&self, jid: &Jid) -> MinionJobState {
        let page = self.store.states(jid, None, 1).await.unwrap();
        page.unwrap().states[0].1
    }

    async fn judge(&self, restored: bool) -> Result<(), String> {
        for (jid, runs) in &self.runs {
            if *runs > 1 {
                return Err(format!("{jid} ran {runs} times"));
            }
        }
        for job in &self.jobs {
            let state = self.state_of(&job.jid).await;
            let ran = self.runs.contains_key(&job.jid);
            use MinionJobState::{
                Cancelled, Declined, Expired, LostTrack, MayHaveRun, NotConnected, Returned,
                ReturnedAndLost,
            };
            let is_true = match state {
                Returned => ran,
                Expired | NotConnected | Declined | Cancelled => !ran,
                // Only a disk that was restored forgets.
                LostTrack | MayHaveRun => restored,
                ReturnedAndLost => false,
                _ => false,
            };
            if !is_true {
                return Err(format!(
                    "{} is {} in the end, it {}, and its minion knows {:?}",
                    job.jid,
                    state.name(),
                    if ran { "ran" } else { "did not run" },
                    self.spool.known(&job.jid)
                ));
            }
            if self.acknowledged.contains(&job.jid) && state != Returned {
                return Err(format!("{}: its acknowledged return is gone", job.jid));
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn what_is_said_of_a_job_is_true_in_the_end() {
    for seed in 0..SCHEDULES {
        let mut world = World::new(seed);
        let restores = seed.is_multiple_of(3);
        let mut copy = None;
        for step in 0..STEPS {
            world.step().await;
            if restores && step == STEPS / 3 {
                copy = std::fs::read(world.spool_path()).ok();
            }
            if step == 2 * STEPS / 3
                && let Some(copy) = &copy
            {
                // What was begun since the last heartbeat that was heard would not be noticed.
                world.hear_heartbeat();
                world.store.flush_all().await.unwrap();
                world.restore_disk(copy);
            }
        }
        world.settle().await;
        if let Err(why) = world.judge(restores).await {
            panic!("seed {seed}: {why}; steps {}", world.log.join(" "));
        }
    }
}

/// A world in which a job ran, and a heartbeat after it was heard, and a copy of the spool from before both. `expires` says
/// how long the job may begin.
async fn ran_after_the_copy() -> (World, Job, Vec<u8>) {
    let mut world = World::new(0);
    world.reconcile_surely().await;
    world.hear_heartbeat();
    let copy = std::fs::read(world.spool_path()).unwrap();
    world.publish().await;
    world.begin().await;
    let job = world.jobs[0].clone();
    assert_eq!(world.runs[&job.jid], 1);
    world.hear_heartbeat();
    world.store.flush_all().await.unwrap();
    (world, job, copy)
}

/// What the start of a rolled back machine looks like.
#[derive(Debug, Clone, Copy)]
enum RolledBack {
    /// A container, or a file system below a machine that goes on: the same boot.
    Disk,
    /// The whole machine, with its memory: the minion goes on in the middle.
    Memory,
    /// The disk, by a minion that was with another master before it came to this one.
    DiskAndElsewhere,
}

#[tokio::test]
async fn what_ran_before_a_rollback_of_more_than_a_heartbeat_never_runs_twice_or_expires() {
    for which in [
        RolledBack::Disk,
        RolledBack::Memory,
        RolledBack::DiskAndElsewhere,
    ] {
        for expired in [false, true] {
            let (mut world, job, copy) = ran_after_the_copy().await;
            let before = world.spool.start();
            world.restore_disk(&copy);
            match which {
                RolledBack::Disk => {}
                RolledBack::Memory => world.memory = Some(before),
                RolledBack::DiskAndElsewhere => {
                    for _ in 0..5 {
                        world.spool.note_heartbeat(None);
                    }
                }
            }
            if expired {
                world.pass(200_000);
            }
            world.reconcile_surely().await;
            world.catch_up().await;
            world.begin().await;
            world.pass(200_000);
            for _ in 0..20 {
                world.heartbeat().await;
            }
            let state = world.state_of(&job.jid).await;
            assert_eq!(
                (world.runs[&job.jid], state),
                (1, MinionJobState::MayHaveRun),
                "{which:?}, {expired}"
            );
        }
    }
}

/// A master ran with a clock that was years ahead; its clock and its store were put right.
#[tokio::test]
async fn a_time_that_was_far_ahead_leaves_no_trace_on_a_minion() {
    const DAYS: u64 = 86_400 * 1_000;
    let right = World::new(0);
    let mut world = World::new(0);
    world.pass(700 * DAYS);
    world.reconcile_surely().await;
    world.publish().await;
    world.begin().await;
    world.finish();
    while world.spool.unacknowledged() > 0 {
        world.send().await;
    }
    world.pass(2 * DAYS);
    // Until the spool is compacted, which forgets the job.
    for _ in 0..5_000 {
        world.spool.note_heartbeat(Some(world.clock.now()));
    }
    assert!(!world.spool.is_seen(&world.jobs[0].jid));
    (world.store, world.clock) = (right.store, right.clock);
    for restarted in [false, true] {
        world.session = None;
        if restarted {
            world.kill_minion();
        }
        world.reconcile_surely().await;
        world.publish().await;
        let job = world.jobs.last().unwrap().clone();
        // It is lost on its way, and expires.
        world.inbox.clear();
        world.pass(200_000);
        for _ in 0..20 {
            world.heartbeat().await;
        }
        let state = world.state_of(&job.jid).await;
        assert_eq!(state, MinionJobState::Expired, "{restarted}");
    }
}
