//! What the master is told of jobs between their arrival and their return: which have begun, which this minion declines, and
//! what became of those that it has seen before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::{Jid, Known, MAX_STARTED, MinionRequest};
use saline_protocol::transport::Context;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::link::current_session::CurrentSession;
use crate::spool::Spool;

/// A run that takes longer than this is announced to the master, and so is a longer wait for a thread.
pub const ANNOUNCED_AFTER: Duration = Duration::from_millis(500);

/// How long an announcement may take. It may fail, since heartbeats carry the same.
const ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Announces to the master what happens to jobs.
#[derive(Debug)]
pub struct Announcements {
    spool: Arc<Spool>,
    session: CurrentSession,
    /// The context of the tasks that announce.
    context: Context,
    /// The jobs whose beginning is to be announced.
    begun: Mutex<Vec<Jid>>,
    /// Has one permit, for the announcement that is under way.
    turn: Semaphore,
}

impl Announcements {
    /// Creates the announcements of a minion, whose tasks belong to `context`.
    pub fn new(spool: Arc<Spool>, session: CurrentSession, context: &Context) -> Self {
        Self {
            spool,
            session,
            context: context.clone(),
            begun: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }

    /// Announces that a job was begun, unless it ends soon. The job has ended when what is returned is
    /// dropped.
    pub fn report_begun(self: &Arc<Self>, jid: &Jid) -> DropGuard {
        let (this, jid) = (Arc::clone(self), jid.clone());
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        self.context.spawn(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => return,
                () = this.context.clock.pause(ANNOUNCED_AFTER) => {}
            }
            // It may have been cancelled while it waited for the disk.
            if this.spool.known(&jid) != Known::Running {
                return;
            }
            this.begun().push(jid);
            // What is begun while one request is under way goes together with the next one.
            let Ok(_turn) = this.turn.acquire().await else {
                return;
            };
            let begun: Vec<Jid> = {
                let mut begun = this.begun();
                let count = begun.len().min(MAX_STARTED);
                begun.drain(..count).collect()
            };
            if !begun.is_empty() {
                let started = MinionRequest::Started(begun);
                this.session.tell(&started, ANNOUNCEMENT_TIMEOUT).await;
            }
        });
        guard
    }

    fn begun(&self) -> MutexGuard<'_, Vec<Jid>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the master something about a job, if there is a session. Does not wait.
    pub fn tell(&self, request: MinionRequest) {
        let session = self.session.clone();
        self.context
            .spawn(async move { session.tell(&request, ANNOUNCEMENT_TIMEOUT).await });
    }
}
