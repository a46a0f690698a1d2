//! Sends returns until the master says what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::message::{
    Arguments, Class, Jid, MinionReply, MinionRequest, Packed, RefusedVerb, Return, ReturnVerdict,
    Value,
};
use saline_protocol::transport::{ErrorKind, jitter};
use tokio::sync::Semaphore;

use super::Minion;
use super::link::{AskError, Link};

/// Returns that are on their way at once.
const PARALLEL: usize = 16;

/// How long the master may take for one: it commits to disk, and a large one travels for a while.
const VERDICT: Duration = Duration::from_secs(60);

/// Below this size a return is never the reason why it was not taken.
const SURELY_SMALL: usize = 4096;

/// How long to wait before one is tried again that the disk did not give.
const UNREADABLE: Duration = Duration::from_secs(60);

/// How long to wait before one that did not arrive is sent again.
const AGAIN: Duration = Duration::from_millis(250);

impl Minion {
    /// Sends what the spool holds, for as long as there is a minion.
    pub(super) async fn send_returns(self: Arc<Self>) {
        let permits = Arc::new(Semaphore::new(PARALLEL));
        let mut links = self.links.subscribe();
        loop {
            let link = match links.wait_for(Option::is_some).await {
                Ok(link) => link.clone(),
                // The minion is gone.
                Err(_) => return,
            };
            let Some(link) = link else { continue };
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            let Some(jid) = self.spool.take_unsent() else {
                drop(permit);
                tokio::select! {
                    () = self.spool.returned() => {}
                    _ = links.changed() => {}
                }
                continue;
            };
            let this = Arc::clone(&self);
            self.context.spawn(async move {
                this.send_return(&link, &jid).await;
                drop(permit);
            });
        }
    }

    async fn send_return(&self, link: &Link, jid: &Jid) {
        let Some(returned) = self.read_return(jid).await else {
            return;
        };
        let (size, limit) = (size_of(&returned), self.host.max_payload());
        if size > limit {
            let why = format!("a return of {size} bytes is above the limit of {limit} bytes");
            return self.replace(returned, &why).await;
        }
        let request = MinionRequest::Return(returned);
        let answer = link.ask(Class::Return, &request, VERDICT).await;
        let MinionRequest::Return(returned) = request else {
            return;
        };
        let wait = match answer {
            Ok(MinionReply::Verdict(verdict)) => {
                match verdict {
                    ReturnVerdict::Stored | ReturnVerdict::Duplicate => {
                        tracing::info!("job {jid}: acknowledged");
                    }
                    ReturnVerdict::UnknownJob | ReturnVerdict::NotOffered => {
                        tracing::warn!("job {jid}: the master does not want it: {verdict:?}");
                    }
                }
                return self.forget(jid).await;
            }
            Ok(_) | Err(AskError::Refused(RefusedVerb::Malformed | RefusedVerb::BadEvent)) => {
                return self
                    .replace(returned, "the master could not read the return")
                    .await;
            }
            Err(AskError::Transport(error)) if error.kind() == ErrorKind::TooLarge => {
                return self.replace(returned, &error.to_string()).await;
            }
            Err(AskError::Ended) => Duration::ZERO,
            Err(AskError::Busy(after)) => after + jitter(after),
            Err(error) => {
                tracing::debug!("job {jid}: its return was not acknowledged: {error}");
                AGAIN + jitter(AGAIN)
            }
        };
        drop(returned);
        self.context.clock.pause(wait).await;
        self.spool.put_back(jid);
    }

    /// What cannot be sent as it is becomes a return that says so.
    async fn replace(&self, returned: Return, why: &str) {
        let jid = returned.jid.clone();
        tracing::error!("job {jid}: {why}");
        if returned.payload.as_bytes().len() < SURELY_SMALL {
            // It says something of the kind already.
            return self.forget(&jid).await;
        }
        let instead = Return {
            retcode: 1,
            success: false,
            fun_args: Arguments::default().pack(),
            payload: Packed::pack(&Value::from(format!("ERROR: {why}"))),
            ..returned
        };
        let spool = Arc::clone(&self.spool);
        // An error means that the runtime is going down; the spool has the first one.
        let _ = self
            .context
            .spawn_blocking(move || spool.finish(instead))
            .await;
    }

    async fn read_return(&self, jid: &Jid) -> Option<Return> {
        if let Some(returned) = self.spool.in_memory(jid) {
            return Some(returned);
        }
        let (spool, copy) = (Arc::clone(&self.spool), jid.clone());
        match self.context.spawn_blocking(move || spool.read(&copy)).await {
            Ok(Ok(returned)) => returned,
            Ok(Err(error)) => {
                tracing::error!("job {jid}: its return cannot be read from the spool: {error}");
                self.context.clock.pause(UNREADABLE).await;
                self.spool.put_back(jid);
                None
            }
            Err(_) => None,
        }
    }

    async fn forget(&self, jid: &Jid) {
        let (spool, jid, now) = (Arc::clone(&self.spool), jid.clone(), self.clock.now());
        // An error means that the runtime is going down; the master answers `Duplicate` next time.
        let _ = self
            .context
            .spawn_blocking(move || spool.done(&jid, now))
            .await;
        self.acknowledged.notify_one();
    }
}

/// What of a return counts against the limit of a payload.
fn size_of(returned: &Return) -> usize {
    returned.payload.as_bytes().len()
        + returned.fun_args.as_packed().as_bytes().len()
        + returned.fun.len()
}
