//! The accepted session with the master, for the parts that outlive one session.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{Class, MinionRequest};
use tokio::sync::watch;

use super::minion_session::MinionSession;

/// The accepted session while there is one. Clones share it.
#[derive(Debug, Clone)]
pub struct CurrentSession(Arc<watch::Sender<Option<Arc<MinionSession>>>>);

impl CurrentSession {
    /// Creates the state in which there is no session.
    pub fn none() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Returns the session, if there is one.
    pub fn get(&self) -> Option<Arc<MinionSession>> {
        self.0.borrow().clone()
    }

    /// Replaces the session.
    pub fn set(&self, session: Option<Arc<MinionSession>>) {
        self.0.send_replace(session);
    }

    /// Returns a receiver of every change.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<MinionSession>>> {
        self.0.subscribe()
    }

    /// Tells the master something that it may miss: without a session, or without an answer within
    /// `within`, nothing is repeated.
    ///
    /// # Cancel safety
    /// A request that was sent may still be carried out.
    pub async fn tell(&self, request: &MinionRequest, within: Duration) {
        let Some(session) = self.get() else { return };
        if let Err(error) = session.ask(Class::Event, request, within).await {
            tracing::debug!("the master was not told: {error}");
        }
    }
}
