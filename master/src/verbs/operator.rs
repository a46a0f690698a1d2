//! What an operator may ask.

use saline_protocol::channel::publication::sign_job;
use saline_protocol::message::{
    Jid, Job, JobSummary, KeyReply, KeyRequest, MinionId, OfferState, OperatorReply,
    OperatorRequest, PackedArguments, Published, RequestId, ReturnsPage, Value, decode, encode,
    tag,
};
use saline_protocol::target::Target;

use crate::jobs::{Committed, StoreError};
use crate::keys::{KeyChange, KeyStore};
use crate::rooms::Rooms;

/// Does what the operator `name` asks.
pub async fn carry_out(rooms: &Rooms, name: &str, request: OperatorRequest) -> OperatorReply {
    let done = match request {
        OperatorRequest::Publish {
            request_id,
            target,
            fun,
            arg,
            user,
        } => publish(rooms, request_id, target, fun, arg, user).await,
        OperatorRequest::JobReturns { jid, after } => job_returns(rooms, &jid, after).await,
        OperatorRequest::JobList { limit, before } => rooms
            .store
            .list(limit, before)
            .await
            .map(OperatorReply::Jobs),
        OperatorRequest::JobLookup { jid } => job_lookup(rooms, &jid).await,
        OperatorRequest::Keys(request) => keys(rooms, name, request).await,
        OperatorRequest::Running => Ok(running(rooms)),
    };
    done.unwrap_or_else(|error| {
        tracing::error!("operator {name}: the job store failed: {error}");
        OperatorReply::Failed(error.to_string())
    })
}

async fn publish(
    rooms: &Rooms,
    request_id: RequestId,
    target: Target,
    fun: String,
    arg: PackedArguments,
    user: String,
) -> Result<OperatorReply, StoreError> {
    let matcher = match target.compile() {
        Ok(matcher) => matcher,
        Err(error) => return Ok(OperatorReply::BadTarget(error.to_string())),
    };
    let accepted = match rooms.with_keys(KeyStore::accepted_ids).await {
        Some(Ok(ids)) => ids,
        Some(Err(error)) => return Ok(OperatorReply::Failed(error.to_string())),
        None => return Ok(OperatorReply::Failed("the key store failed".to_owned())),
    };
    let unknown: Vec<String> = matcher
        .listed()
        .iter()
        .filter(|name| !accepted.iter().any(|id| id.as_str() == name.as_str()))
        .cloned()
        .collect();
    let mut connected = Vec::new();
    let mut minions = Vec::new();
    for id in accepted.iter().filter(|id| matcher.matches(id)) {
        match rooms.sessions.alive(id) {
            Some(_) => {
                connected.push(id.clone());
                minions.push((id.clone(), OfferState::Offered));
            }
            None => minions.push((id.clone(), OfferState::NotConnected)),
        }
    }
    if minions.is_empty() {
        tracing::info!(
            "user {user} asked for {fun} on {:?}: no minion matched",
            target.expression
        );
        return Ok(OperatorReply::Published(Published {
            jid: None,
            expires: 0,
            minions,
            unknown,
        }));
    }
    let created = rooms.now();
    let ttl = u64::try_from(rooms.config.job_ttl.as_millis()).unwrap_or(u64::MAX);
    let job = Job {
        jid: rooms.store.next_jid(),
        target,
        fun,
        arg,
        user,
        created,
        expires: created.saturating_add(ttl),
    };
    let reply = OperatorReply::Published(Published {
        jid: Some(job.jid.clone()),
        expires: job.expires,
        minions: minions.clone(),
        unknown,
    });
    let committed = rooms
        .store
        .publish(&job, request_id, minions.clone(), encode(&reply))
        .await?;
    if let Committed::Before(earlier) = committed {
        return Ok(decode(&earlier)
            .unwrap_or_else(|_| OperatorReply::Failed("a stored reply is damaged".to_owned())));
    }
    rooms.expires(job.expires);
    tracing::info!(
        "job {}: user {} published {} to {:?} for {} minions, {} of them connected",
        job.jid,
        job.user,
        job.fun,
        job.target.expression,
        minions.len(),
        connected.len()
    );
    let data = new_event(&job, &minions);
    rooms.events.fire(tag::job_new(&job.jid), data).await;
    if !connected.is_empty() {
        let signed = sign_job(&rooms.identity, job);
        rooms.publications.job(signed, connected).await;
    }
    Ok(reply)
}

/// `salt/job/<jid>/new`
fn new_event(job: &Job, minions: &[(MinionId, OfferState)]) -> Vec<(&'static str, Value)> {
    let of = |state: fn(OfferState) -> bool| {
        Value::texts(
            minions
                .iter()
                .filter(|(_, s)| state(*s))
                .map(|(id, _)| id.as_str()),
        )
    };
    let arg = job
        .arg
        .unpack()
        .map_or(Value::Null, |arguments| arguments.to_salt());
    vec![
        ("arg", arg),
        ("fun", Value::from(job.fun.as_str())),
        ("jid", Value::from(job.jid.as_str())),
        ("minions", of(|_| true)),
        ("missing", of(|state| state == OfferState::NotConnected)),
        ("tgt", Value::from(job.target.expression.as_str())),
        ("tgt_type", Value::from(job.target.kind.name())),
        ("user", Value::from(job.user.as_str())),
    ]
}

async fn job_returns(
    rooms: &Rooms,
    jid: &Jid,
    after: Option<MinionId>,
) -> Result<OperatorReply, StoreError> {
    let Some(page) = rooms
        .store
        .returns(jid, after, rooms.page_bytes() / 2)
        .await?
    else {
        return Ok(OperatorReply::NoSuchJob);
    };
    let silent = page
        .states
        .iter()
        .filter(|(id, state)| {
            matches!(state, OfferState::Offered | OfferState::Running)
                && rooms.sessions.alive(id).is_none()
        })
        .map(|(id, _)| id.clone())
        .collect();
    Ok(OperatorReply::Returns(ReturnsPage {
        returns: page.returns,
        more: page.more,
        states: page.states,
        silent,
        clock: rooms.now(),
        expires: page.expires,
    }))
}

async fn job_lookup(rooms: &Rooms, jid: &Jid) -> Result<OperatorReply, StoreError> {
    let (Some(job), Some(minions)) = (rooms.store.job(jid).await?, rooms.store.states(jid).await?)
    else {
        return Ok(OperatorReply::NoSuchJob);
    };
    Ok(OperatorReply::Job(JobSummary { job, minions }))
}

async fn keys(rooms: &Rooms, name: &str, request: KeyRequest) -> Result<OperatorReply, StoreError> {
    let request_id = match &request {
        KeyRequest::List => None,
        KeyRequest::Act { request_id, .. } => Some(*request_id),
    };
    // Asked again: the keys are where the first time put them, and this is what it said.
    if let Some(id) = request_id
        && let Some(earlier) = rooms.store.outcome(id).await?
        && let Ok(reply) = decode(&earlier)
    {
        return Ok(reply);
    }
    let Some(applied) = rooms.with_keys(move |keys| keys.apply(&request)).await else {
        return Ok(OperatorReply::Failed("the key store failed".to_owned()));
    };
    // Also when not all was done: what was changed is changed.
    follow(rooms, name, &applied.changes).await;
    if let Some(error) = applied.error {
        return Ok(OperatorReply::Failed(error.to_string()));
    }
    let reply = OperatorReply::Keys(KeyReply {
        keys: applied.keys,
        master: rooms.identity.public().0,
    });
    let Some(request_id) = request_id else {
        return Ok(reply);
    };
    match rooms.store.record_outcome(request_id, encode(&reply)).await {
        // Asked twice at once: the first found the keys as they were, and has said what it did.
        Ok(Committed::Before(earlier)) => Ok(decode(&earlier).unwrap_or(reply)),
        Ok(Committed::Now) => Ok(reply),
        Err(error) => {
            // What was done is done; only one who asks again would not be told so.
            tracing::error!("what was done with keys was not noted: {error}");
            Ok(reply)
        }
    }
}

/// What a change of keys brings about: events, and for those that are let in no more the end of
/// their sessions at once and a group key that they do not have.
async fn follow(rooms: &Rooms, name: &str, changes: &[KeyChange]) {
    let mut gone = false;
    for change in changes {
        tracing::info!(
            "operator {name}: {} key of minion {}",
            change.act(),
            change.id
        );
        rooms
            .fire_key_event(tag::KEY, change.id.as_str(), change.act(), true, None)
            .await;
        if change.ends_sessions() {
            // It may be away and have the group key all the same.
            gone = true;
            rooms.sessions.end_minion(&change.id);
        }
    }
    if gone {
        let live = rooms.sessions.all_alive();
        rooms.publications.rotate(live).await;
    }
}

fn running(rooms: &Rooms) -> OperatorReply {
    let mut all: Vec<_> = rooms
        .sessions
        .all_alive()
        .iter()
        .filter_map(|session| match &session.principal {
            crate::sessions::Principal::Minion(id) => Some((id.clone(), session.running())),
            crate::sessions::Principal::Operator(_) => None,
        })
        .collect();
    all.sort();
    OperatorReply::Running(all)
}
