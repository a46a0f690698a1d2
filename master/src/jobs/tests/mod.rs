//! What the store promises, from outside.

mod kill;
mod load;
mod retention;
mod walk;

use std::path::PathBuf;

use saline_protocol::message::{
    Arguments, Jid, Job, MinionId, OfferState, Packed, RequestId, Return, ReturnVerdict, Value,
};
use saline_protocol::target::Target;
use saline_protocol::transport::Clock;
use tempfile::TempDir;

use super::{Committed, JobStore, StoreError};

/// A store in a folder that goes with it.
struct Place {
    _folder: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache/jobs.sqlite");
        Self {
            _folder: folder,
            path,
        }
    }

    fn open(&self) -> JobStore {
        JobStore::open(&self.path, Clock).unwrap()
    }
}

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
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
    }
}

/// Publishes `job` under a request that only it has.
async fn publish(store: &JobStore, job: &Job, offers: &[(&str, OfferState)]) {
    let offers = offers
        .iter()
        .map(|(minion, state)| (id(minion), *state))
        .collect();
    let mut request = [0; 16];
    request.copy_from_slice(&job.jid.as_str().as_bytes()[4..]);
    let committed = store
        .publish(job, RequestId(request), offers, b"reply".to_vec())
        .await
        .unwrap();
    assert_eq!(committed, Committed::Now);
}

fn returned(jid: &Jid, payload: &Value) -> Return {
    Return {
        jid: jid.clone(),
        fun: "test.echo".to_owned(),
        fun_args: Arguments::default().pack(),
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
