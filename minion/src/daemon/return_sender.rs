//! Sends spooled returns until the master has given its verdict on them.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::message::{
    Arguments, Class, Jid, MinionReply, MinionRequest, Packed, RefusedVerb, Return, ReturnVerdict,
    Value,
};
use saline_protocol::transport::{Context, ErrorKind, jitter};
use tokio::sync::{Notify, Semaphore};

use super::current_session::CurrentSession;
use super::master_clock::MasterClock;
use super::master_session::{AskError, MasterSession};
use crate::host::Host;
use crate::spool::Spool;

/// The largest number of returns that wait for a verdict at once.
const PARALLEL: usize = 16;

/// How long a verdict may take: a large return travels for a while, and the master commits it.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(60);

/// A payload below this size is never too large for a master, so it is not replaced once more.
const SURELY_SMALL: usize = 4096;

/// The delay before a return that could not be read from the spool is tried again.
const UNREADABLE_DELAY: Duration = Duration::from_secs(60);

/// How long the returns may take to be acknowledged when the minion stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before a return without a verdict is sent again.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Sends spooled returns to the master.
#[derive(Debug)]
pub struct ReturnSender {
    spool: Arc<Spool>,
    host: Arc<Host>,
    clock: Arc<MasterClock>,
    session: CurrentSession,
    /// Notified when a return leaves the spool.
    acknowledged: Notify,
    context: Context,
}

impl ReturnSender {
    /// Creates a sender; its tasks belong to `context`.
    pub fn new(
        spool: Arc<Spool>,
        host: Arc<Host>,
        clock: Arc<MasterClock>,
        session: CurrentSession,
        context: Context,
    ) -> Self {
        Self {
            spool,
            host,
            clock,
            session,
            acknowledged: Notify::new(),
            context,
        }
    }

    /// Sends what the spool holds, for as long as the minion exists.
    pub async fn run(self: Arc<Self>) {
        let permits = Arc::new(Semaphore::new(PARALLEL));
        let mut sessions = self.session.subscribe();
        loop {
            let session = match sessions.wait_for(Option::is_some).await {
                Ok(session) => session.clone(),
                // Every other part of the minion has ended.
                Err(_) => return,
            };
            let Some(session) = session else { continue };
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            let Some(jid) = self.spool.take_unsent() else {
                drop(permit);
                tokio::select! {
                    () = self.spool.returned() => {}
                    _ = sessions.changed() => {}
                }
                continue;
            };
            let this = Arc::clone(&self);
            self.context.spawn(async move {
                this.send_return(&session, &jid).await;
                drop(permit);
            });
        }
    }

    /// Waits a few seconds until every return is acknowledged, or `session` ends.
    pub async fn flush(&self, session: &MasterSession) {
        let clock = self.context.clock;
        let sent = async {
            while self.spool.unacknowledged() > 0 {
                self.acknowledged.notified().await;
            }
        };
        tokio::select! {
            _ = clock.deadline(clock.after(FLUSH_TIMEOUT), sent) => {}
            _ = session.ended() => {}
        }
    }

    async fn send_return(&self, session: &MasterSession, jid: &Jid) {
        let Some(returned) = self.read_return(jid).await else {
            return;
        };
        let (size, limit) = (size_of(&returned), self.host.max_payload());
        if size > limit {
            let why = format!("a return of {size} bytes is above the limit of {limit} bytes");
            return self.replace(returned, &why).await;
        }
        let request = MinionRequest::Return(returned);
        let answer = session.ask(Class::Return, &request, VERDICT_TIMEOUT).await;
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
                        tracing::warn!("job {jid}: the master refused its return: {verdict:?}");
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
                RETRY_DELAY + jitter(RETRY_DELAY)
            }
        };
        drop(returned);
        self.context.clock.pause(wait).await;
        self.spool.put_back(jid);
    }

    /// Replaces a return that cannot be sent with a small one that says why.
    async fn replace(&self, returned: Return, why: &str) {
        let jid = returned.jid.clone();
        tracing::error!("job {jid}: {why}");
        if returned.payload.as_bytes().len() < SURELY_SMALL {
            // This is a replacement already.
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
        // An error means that the runtime is going down; the spool still holds the original.
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
                self.context.clock.pause(UNREADABLE_DELAY).await;
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

/// Returns the bytes of a return that count against the limit of a payload.
fn size_of(returned: &Return) -> usize {
    returned.payload.as_bytes().len()
        + returned.fun_args.as_packed().as_bytes().len()
        + returned.fun.len()
}
