//! Regular upkeep: offers expire, silent sessions are forgotten, old jobs are removed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_protocol::message::{MasterTime, Value, tag};

use crate::rooms::Rooms;
use crate::verbs;

/// How often sessions are swept and expiry is looked at.
const BEAT: Duration = Duration::from_secs(1);

/// How many beats lie between two removals of old jobs.
const BEATS_TO_PRUNE: u32 = 300;

/// Works until it is dropped.
pub async fn run(rooms: Arc<Rooms>) {
    let mut timer = rooms.clock.interval(BEAT);
    let mut beats = 0u32;
    loop {
        timer.tick().await;
        expire(&rooms).await;
        let lost = rooms.sessions.sweep();
        if !lost.is_empty() {
            tracing::info!("{} minions fell silent: {lost:?}", lost.len());
            verbs::minion::lost(&rooms, &lost).await;
        }
        if beats.is_multiple_of(BEATS_TO_PRUNE) {
            prune(&rooms).await;
        }
        beats = beats.wrapping_add(1);
    }
}

/// Offers whose time has passed without a beginning become expired, and that is told.
async fn expire(rooms: &Rooms) {
    let now = rooms.now();
    if rooms.next_expiry.load(Ordering::Acquire) > now {
        return;
    }
    // What is published from here on sets it again.
    rooms.next_expiry.store(MasterTime::MAX, Ordering::Release);
    let expired = match rooms.store.expire(now).await {
        Ok(expired) => expired,
        Err(error) => {
            tracing::error!("offers were not expired: {error}");
            rooms.expires(now + 1000);
            return;
        }
    };
    for (jid, id) in expired {
        tracing::info!("job {jid}: minion {id} did not begin in time");
        let data = [
            ("id", Value::from(id.as_str())),
            ("jid", Value::from(jid.as_str())),
        ];
        rooms.events.fire(tag::job_expired(&jid, &id), data).await;
    }
    match rooms.store.next_expiry().await {
        Ok(Some(next)) => rooms.expires(next),
        Ok(None) => {}
        Err(error) => {
            tracing::error!("the next expiry is not known: {error}");
            rooms.expires(now + 1000);
        }
    }
}

async fn prune(rooms: &Rooms) {
    let keep = u64::try_from(rooms.config.keep_jobs.as_millis()).unwrap_or(u64::MAX);
    match rooms.store.prune(rooms.now().saturating_sub(keep)).await {
        Ok(0) => {}
        Ok(removed) => tracing::info!("removed {removed} jobs older than keep_jobs_seconds"),
        Err(error) => tracing::error!("old jobs were not removed: {error}"),
    }
}
