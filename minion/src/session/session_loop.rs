//! Serves one session from its beginning to its end.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_channel::PublicationOpener;
use saline_messages::{Lease, MasterTime, MinionId};
use saline_protocol::transport::{Context, Subscriber};
use tokio::sync::Notify;

use crate::jobs::job_runner::JobRunner;
use crate::link::candidate::Connected;
use crate::link::current_session::CurrentSession;
use crate::link::master_time::MasterTimeEstimate;
use crate::link::minion_session::{Ended, MinionSession};
use crate::link::subscription::SubscribedSession;
use crate::spool::Spool;
use saline_modules::Host;

/// How long the master may take to answer short requests.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before a failed request is repeated.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Serves sessions, one after the other.
#[derive(Debug)]
pub struct SessionLoop {
    pub(crate) id: MinionId,
    /// The largest message that the minion sends, in bytes.
    pub(crate) max_message: usize,
    pub(crate) host: Arc<Host>,
    pub(crate) clock: Arc<MasterTimeEstimate>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) jobs: Arc<JobRunner>,
    pub(crate) current: CurrentSession,
    pub(crate) context: Context,
}

/// The state that the tasks of one session share.
#[derive(Debug)]
pub(super) struct ActiveSession {
    pub(super) parts: Arc<SessionLoop>,
    pub(super) session: Arc<MinionSession>,
    opener: Mutex<PublicationOpener>,
    promised: Mutex<Promised>,
    /// Whether the session has not been reconciled yet.
    pub(super) is_beginning: AtomicBool,
    /// Notified when jobs may have been missed.
    pub(super) catch_up: Notify,
    /// Notified when a heartbeat is wanted before its time.
    pub(super) beat: Notify,
}

/// The promises in the last reply to a heartbeat, which last until the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Promised {
    /// The jobs that the minion may begin without a claim.
    pub(super) lease: Lease,
    /// The expiry up to which the master has the minion's acknowledgement.
    pub(super) expiry_acked_until: MasterTime,
}

impl SessionLoop {
    /// Serves one session until it ends. The connection of the session `before` it is closed when this one is the
    /// minion's.
    ///
    /// # Cancel safety
    /// When the future is dropped, the session's tasks end with the minion's context.
    pub async fn run(
        self: &Arc<Self>,
        subscribed: SubscribedSession,
        before: Option<Connected>,
    ) -> Ended {
        let SubscribedSession {
            session,
            subscriber,
            publications,
        } = subscribed;
        let welcome = &session.welcome;
        let accepted = usize::try_from(welcome.max_message).unwrap_or(usize::MAX);
        self.host.set_max_message(self.max_message.min(accepted));
        let Some(group) = welcome.group.clone() else {
            tracing::error!("the master accepted the minion without a group key");
            return Ended::Lost;
        };
        let opener = session.session.opener(&self.id, &group);
        let active = Arc::new(ActiveSession {
            parts: Arc::clone(self),
            session: Arc::clone(&session),
            opener: Mutex::new(opener),
            promised: Mutex::default(),
            is_beginning: AtomicBool::new(true),
            catch_up: Notify::new(),
            beat: Notify::new(),
        });
        let ended = tokio::select! {
            ended = session.ended() => ended,
            is_present = active.reconcile_until_done() => match is_present {
                true => {
                    tracing::info!("present, and subscribed to publications at {publications}");
                    if let Some(before) = before {
                        self.context.spawn(before.close());
                    }
                    self.serve(&active, subscriber).await
                }
                false => Ended::Lost,
            },
        };
        session.end(ended);
        ended
    }

    /// Runs the session's tasks until it ends.
    async fn serve(&self, active: &Arc<ActiveSession>, subscriber: Box<dyn Subscriber>) -> Ended {
        let context = self.context.child();
        active.start(&context, subscriber);
        self.current.set(Some(Arc::clone(&active.session)));
        let ended = active.session.ended().await;
        self.current.set(None);
        context.cancel.cancel();
        context.tracker.close();
        context.tracker.wait().await;
        ended
    }
}

impl ActiveSession {
    fn start(self: &Arc<Self>, context: &Context, subscriber: Box<dyn Subscriber>) {
        let this = Arc::clone(self);
        context.spawn(async move { this.heartbeats().await });
        let this = Arc::clone(self);
        context.spawn(async move { this.catch_ups().await });
        let this = Arc::clone(self);
        context.spawn(async move { this.grains_reports().await });
        let this = Arc::clone(self);
        context.spawn(async move { this.function_reports().await });
        let this = Arc::clone(self);
        context.spawn(async move { this.deliveries(subscriber).await });
        // Jobs published before the session was the minion's.
        self.catch_up.notify_one();
    }

    pub(super) fn promised(&self) -> MutexGuard<'_, Promised> {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn opener(&self) -> MutexGuard<'_, PublicationOpener> {
        self.opener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
