//! What a minion may ask.

use std::sync::Arc;

use saline_protocol::channel::publication::sign_job;
use saline_protocol::message::{
    HeartbeatReply, Jid, MinionId, MinionReply, MinionRequest, OfferState, Packed, RefusedVerb,
    RequestId, Return, ReturnVerdict, Value, tag,
};
use saline_protocol::transport::Topic;

use crate::jobs::{Committed, StoreError};
use crate::rooms::Rooms;
use crate::sessions::Session;

/// How long a minion is asked to wait when the store could not take what it sent.
const STORE_FAILED_MS: u32 = 2000;

/// The most bytes that the data of a minion's event have.
const EVENT_MOST: usize = 64 * 1024;

/// The most bytes of a return that its event carries; the store has the others.
const EVENT_RETURN_MOST: usize = 1024 * 1024;

/// The most running jobs that a heartbeat is believed.
const RUNNING_MOST: usize = 1024;

/// The heartbeat that minions are told, in milliseconds.
pub fn heartbeat_ms(rooms: &Rooms) -> u64 {
    u64::try_from(rooms.config.heartbeat_interval.as_millis()).unwrap_or(u64::MAX)
}

/// Does what the minion `id` asks in `session`.
pub async fn carry_out(
    rooms: &Rooms,
    session: &Arc<Session>,
    id: &MinionId,
    request: MinionRequest,
) -> MinionReply {
    let done = match request {
        // Answered by the gate, which knows where publications are.
        MinionRequest::Poll => Ok(MinionReply::Refused(RefusedVerb::Malformed)),
        MinionRequest::Heartbeat { running, epoch } => {
            heartbeat(rooms, session, id, running, epoch).await
        }
        MinionRequest::Started { jid } => started(rooms, id, &jid).await,
        MinionRequest::Return(returned) => store_return(rooms, id, returned).await,
        MinionRequest::Declined { jid } => declined(rooms, id, &jid).await,
        // A job that was not offered is not run: its offers are final at publication.
        MinionRequest::Claim { .. } => Ok(MinionReply::Claimed(false)),
        MinionRequest::PendingJobs => pending_jobs(rooms, id).await,
        MinionRequest::FireEvent {
            request_id,
            tag,
            data,
        } => fire_event(rooms, id, request_id, &tag, &data).await,
        MinionRequest::Goodbye => {
            tracing::info!("minion {id} says goodbye");
            rooms.sessions.remove(session);
            lost(rooms, std::slice::from_ref(id)).await;
            Ok(MinionReply::Done)
        }
    };
    done.unwrap_or_else(|error| {
        tracing::error!("minion {id}: the job store failed: {error}");
        MinionReply::Busy {
            after_ms: STORE_FAILED_MS,
        }
    })
}

async fn heartbeat(
    rooms: &Rooms,
    session: &Session,
    id: &MinionId,
    mut running: Vec<Jid>,
    epoch: u64,
) -> Result<MinionReply, StoreError> {
    running.truncate(RUNNING_MOST);
    running.shrink_to_fit();
    for jid in rooms.store.mark_running(id, &running).await? {
        fire_start(rooms, id, &jid).await;
    }
    session.set_running(running);
    let group = rooms.publications.current();
    Ok(MinionReply::Heartbeat(HeartbeatReply {
        clock: rooms.now(),
        heartbeat_ms: heartbeat_ms(rooms),
        epoch: group.epoch,
        last_all: group.last_number,
        last_own: session.last_own(group.epoch),
        group: (group.epoch != epoch).then_some(group),
    }))
}

async fn started(rooms: &Rooms, id: &MinionId, jid: &Jid) -> Result<MinionReply, StoreError> {
    if rooms.store.set_state(jid, id, OfferState::Running).await? {
        tracing::info!("job {jid}: minion {id} runs it");
        fire_start(rooms, id, jid).await;
    }
    Ok(MinionReply::Done)
}

async fn fire_start(rooms: &Rooms, id: &MinionId, jid: &Jid) {
    let data = [
        ("id", Value::from(id.as_str())),
        ("jid", Value::from(jid.as_str())),
    ];
    rooms.events.fire(tag::job_start(jid, id), data).await;
}

async fn declined(rooms: &Rooms, id: &MinionId, jid: &Jid) -> Result<MinionReply, StoreError> {
    if rooms.store.set_state(jid, id, OfferState::Declined).await? {
        tracing::info!("job {jid}: minion {id} declined it");
        let data = [
            ("id", Value::from(id.as_str())),
            ("jid", Value::from(jid.as_str())),
        ];
        rooms.events.fire(tag::job_declined(jid, id), data).await;
    }
    Ok(MinionReply::Done)
}

/// Acknowledged after the commit, told after that.
async fn store_return(
    rooms: &Rooms,
    id: &MinionId,
    returned: Return,
) -> Result<MinionReply, StoreError> {
    let event_tag = tag::job_return(&returned.jid, id);
    let (jid, fun) = (returned.jid.clone(), returned.fun.clone());
    let (retcode, success) = (returned.retcode, returned.success);
    // A large one is not carried twice: who follows the job reads it from the store.
    let small = returned.payload.as_bytes().len() <= EVENT_RETURN_MOST;
    let told = small.then(|| (returned.fun_args.clone(), returned.payload.clone()));
    let verdict = rooms.store.store_return(id, returned).await?;
    match verdict {
        ReturnVerdict::Stored => {
            tracing::info!("job {jid}: minion {id} returned from {fun}, retcode {retcode}");
            // Asked after the commit: who subscribed meanwhile has read the store without it.
            if rooms.events.wanted(&event_tag) {
                let mut data = vec![
                    ("cmd", Value::from("_return")),
                    ("fun", Value::from(fun)),
                    ("id", Value::from(id.as_str())),
                    ("jid", Value::from(jid.as_str())),
                    ("retcode", Value::from(retcode)),
                    ("success", Value::from(success)),
                ];
                if let Some((arguments, payload)) = told {
                    data.push(("fun_args", arguments.as_packed().unpack_or_show()));
                    data.push(("return", payload.unpack_or_show()));
                }
                rooms.events.fire(event_tag, data).await;
            }
        }
        ReturnVerdict::Duplicate => tracing::debug!("job {jid}: minion {id} returned again"),
        ReturnVerdict::UnknownJob | ReturnVerdict::NotOffered => {
            tracing::warn!("job {jid}: a return of minion {id} was refused: {verdict:?}");
        }
    }
    Ok(MinionReply::Verdict(verdict))
}

async fn pending_jobs(rooms: &Rooms, id: &MinionId) -> Result<MinionReply, StoreError> {
    let jobs = rooms.store.pending_jobs(id, rooms.now()).await?;
    if !jobs.is_empty() {
        tracing::info!("minion {id} asks for {} jobs that it missed", jobs.len());
    }
    let signed = jobs
        .into_iter()
        .map(|job| sign_job(&rooms.identity, job))
        .collect();
    Ok(MinionReply::Jobs(signed))
}

/// Nothing that a minion fires can stand for anything but what a minion fired: its tag is put below
/// its own prefix here.
async fn fire_event(
    rooms: &Rooms,
    id: &MinionId,
    request_id: RequestId,
    rest: &str,
    data: &Packed,
) -> Result<MinionReply, StoreError> {
    let full = tag::minion(id, rest);
    if data.as_bytes().len() > EVENT_MOST {
        return Ok(MinionReply::Refused(RefusedVerb::BadEvent));
    }
    let (Ok(Value::Map(mut entries)), Ok(_)) =
        (data.unpack(), Topic::parse(&format!("event/{full}")))
    else {
        return Ok(MinionReply::Refused(RefusedVerb::BadEvent));
    };
    match rooms.store.record_outcome(request_id, Vec::new()).await? {
        Committed::Before(_) => {}
        Committed::Now => {
            entries.retain(|(key, _)| key != "id");
            entries.push(("id".to_owned(), Value::from(id.as_str())));
            rooms.events.fire(full, entries).await;
        }
    }
    Ok(MinionReply::Done)
}

/// A session spoke though another of the same minion took its place: two minions have one id.
pub async fn duplicate(rooms: &Rooms, session: &Session) {
    tracing::warn!(
        "{}: a session that was replaced still speaks; do two minions have this id?",
        session.principal
    );
    if let crate::sessions::Principal::Minion(id) = &session.principal {
        let data = [("id", Value::from(id.as_str()))];
        rooms
            .events
            .fire(tag::PRESENCE_DUPLICATE.to_owned(), data)
            .await;
    }
}

/// Minions went.
pub async fn lost(rooms: &Rooms, ids: &[MinionId]) {
    let data = [
        ("new", Value::List(Vec::new())),
        ("lost", Value::texts(ids.iter().map(MinionId::as_str))),
    ];
    rooms
        .events
        .fire(tag::PRESENCE_CHANGE.to_owned(), data)
        .await;
}
