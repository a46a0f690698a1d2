//! What the store promises, from outside.

mod batches;
mod catch_up;
mod catch_up_model;
mod copies;
pub(crate) mod counts;
mod followers;
mod full_disk;
mod kill;
mod large_returns;
mod load;
mod minion_keys;
mod publishing;
mod received;
mod reconcile;
mod reduction;
mod retention;
mod returns;
mod scale;
mod search;
mod secrets;
mod set_back;
mod states;
mod written_bytes;

use std::path::PathBuf;
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_messages::{
    Arguments, Jid, Job, MinionId, MinionJobState, MustClaim, RequestId, Return, ReturnVerdict,
    SignedJob, StoredReturn,
};
use saline_protocol::transport::Clock;
use saline_targeting::Target;
use tempfile::TempDir;

use crate::clock::MasterClock;

use super::{CarriedOut, JobStore, NewJob, StoreError, StoreSettings, lock};

/// A store in a folder that goes with it.
struct Place {
    _folder: TempDir,
    settings: StoreSettings,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path().join("cache/jobs"));
        Self {
            _folder: folder,
            settings,
        }
    }

    fn open(&self) -> JobStore {
        JobStore::open(self.settings.clone(), MasterClock::new(Clock)).unwrap()
    }

    /// The database files, the oldest first.
    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.settings.folder).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_partition = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "sqlite")
                && path
                    .file_name()
                    .is_some_and(|name| name != super::tables::minions::FILE)
        };
        let mut files: Vec<_> = paths.filter(is_partition).collect();
        files.sort();
        files
    }
}

fn settings(folder: PathBuf) -> StoreSettings {
    StoreSettings {
        secrets_key: folder.join("secrets.key"),
        folder,
        keep: Duration::from_secs(86_400),
        max_bytes: None,
        largest_payload: 64 << 20,
        cache_bytes: 1 << 20,
        heartbeat: Duration::from_secs(15),
    }
}

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

/// The names of so many minions, in their order.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("m{number:04}")).collect()
}

/// The job is offered to all of them.
fn offered(names: &[String]) -> Vec<(&str, MinionJobState)> {
    let offers = names
        .iter()
        .map(|name| (name.as_str(), MinionJobState::Offered));
    offers.collect()
}

fn request(number: u128) -> RequestId {
    RequestId(number.to_be_bytes())
}

/// A job of the store's time that may be begun for a minute.
fn job(store: &JobStore) -> Job {
    let created = store.now();
    Job {
        jid: store.next_jid(),
        target: Target::glob("*"),
        fun: "test.echo".to_owned(),
        arg: Arguments {
            positional: vec![Value::from("text"), Value::Int(7)],
            named: vec![("key".to_owned(), Value::Bool(true))],
        }
        .pack(),
        user: "root".to_owned(),
        created,
        expires: created + 60_000,
        claims: MustClaim::NOBODY,
    }
}

/// A publication of `job` under a request that only it has.
fn new(job: &Job, offers: &[(&str, MinionJobState)]) -> NewJob {
    let offers = offers.iter().map(|(minion, state)| (id(minion), *state));
    let mut request = [0; 16];
    request.copy_from_slice(&job.jid.as_str().as_bytes()[4..]);
    NewJob {
        job: SignedJob {
            job: job.clone(),
            signature: vec![7; 64],
            secrets: None,
        },
        operator: "root".to_owned(),
        request: RequestId(request),
        minions: offers.collect(),
        unknown: Vec::new(),
        batch: None,
        resolved: None,
        metadata: None,
        returners: Vec::new(),
    }
}

async fn publish(store: &JobStore, job: &Job, offers: &[(&str, MinionJobState)]) {
    let committed = store.publish(new(job, offers)).await.unwrap();
    assert_eq!(committed, CarriedOut::Now);
}

/// The states of all minions of a job.
async fn states(store: &JobStore, jid: &Jid) -> Vec<(MinionId, MinionJobState)> {
    let page = store.states(jid, None, usize::MAX).await.unwrap().unwrap();
    assert!(!page.more);
    page.states
}

fn returned(jid: &Jid, payload: &Value) -> Return {
    Return {
        jid: jid.clone(),
        fun: "test.echo".to_owned(),
        retcode: 0,
        success: true,
        payload: Packed::pack(payload),
    }
}

/// Returns `payload` for the minion.
async fn answer(
    store: &JobStore,
    minion: &str,
    jid: &Jid,
    payload: &Value,
) -> Result<ReturnVerdict, StoreError> {
    store_one(store, &id(minion), returned(jid, payload)).await
}

/// Stores one return of a minion.
async fn store_one(
    store: &JobStore,
    minion: &MinionId,
    returned: Return,
) -> Result<ReturnVerdict, StoreError> {
    let verdicts = store.store_returns(minion, vec![returned]).await?;
    assert_eq!(verdicts.len(), 1);
    Ok(verdicts[0])
}

/// Copies nothing beside the job store.
pub(super) async fn jobs_alone(_: PathBuf) -> Result<(u64, u64), StoreError> {
    Ok((0, 0))
}
