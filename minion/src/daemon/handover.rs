//! A session in place of one that stands: when the configuration names another place for the master, or the
//! connection is down and the master may be elsewhere. The old one serves until the new one stands.
//!
//! The master replaces the old session with the new one when the new one has reconciled, so that every job is
//! published to one of the two, and the new one catches up.

use std::sync::Arc;
use std::time::Duration;

use super::Minion;
use crate::link::candidate::Connected;
use crate::link::connection_state::ConnectionState;
use crate::link::minion_session::{Ended, MinionSession};
use crate::link::settings::Changes;

/// How long a connection may be down before the other places are tried.
const DOWN: Duration = Duration::from_secs(3);

/// A session that takes the place of another one.
#[derive(Debug)]
pub struct SessionHandover {
    /// The connection of the session.
    pub connected: Connected,
    /// The session.
    pub session: Arc<MinionSession>,
    /// The connection of the one before.
    pub before: Option<Connected>,
}

/// The result of an attempt to authenticate.
#[derive(Debug)]
pub enum Authenticated {
    /// The master has accepted the minion.
    Session(Arc<MinionSession>),
    /// The master cannot be reached over this connection.
    Unreachable,
    /// The minion was told of other places meanwhile.
    SettingsChanged,
}

/// The reason why a session is to have a successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    SettingsChanged,
    Down,
}

impl Minion {
    /// Authenticates over a connection, until the settings change.
    pub(super) async fn authenticate(
        &self,
        connected: &Connected,
        changes: &mut Changes,
    ) -> Authenticated {
        tokio::select! {
            biased;
            session = self.authenticator.authenticate(connected) => {
                session.map_or(Authenticated::Unreachable, Authenticated::Session)
            }
            // An error is impossible: this minion has the sender.
            _ = changes.changed() => Authenticated::SettingsChanged,
        }
    }

    /// Serves a session until it ends. Returns why, and the session that takes its place if that stands already.
    pub(super) async fn serve_session(
        &self,
        session: Arc<MinionSession>,
        before: Option<Connected>,
        changes: &mut Changes,
    ) -> (Ended, Option<(Connected, Arc<MinionSession>)>) {
        let served = self.session_loop.run(Arc::clone(&session), before);
        let mut served = std::pin::pin!(served);
        let successor = tokio::select! {
            biased;
            ended = &mut served => return (ended, None),
            successor = self.successor(&session, changes) => successor,
        };
        session.end(Ended::HandedOver);
        (served.await, Some(successor))
    }

    /// Waits until another session stands that is to take the place of `session`.
    async fn successor(
        &self,
        session: &MinionSession,
        changes: &mut Changes,
    ) -> (Connected, Arc<MinionSession>) {
        let connected = self.state.get();
        let mut reason = None;
        loop {
            let why = match reason.take() {
                Some(reason) => reason,
                None => {
                    self.state.set(connected.clone());
                    tokio::select! {
                        _ = changes.changed() => Reason::SettingsChanged,
                        () = session.down_for(DOWN) => Reason::Down,
                    }
                }
            };
            if why == Reason::Down {
                let at = session.endpoint.to_string();
                self.state.set(ConnectionState::Down(at));
            }
            if !self.connector.has_alternative(&session.endpoint) {
                if why == Reason::Down {
                    tokio::select! {
                        // An operator may say meanwhile where the master is now.
                        _ = changes.changed() => reason = Some(Reason::SettingsChanged),
                        () = session.up() => {}
                    }
                }
                continue;
            }
            if why == Reason::Down {
                tracing::warn!(
                    "{} does not answer: trying the other places at which the master may be",
                    session.endpoint
                );
            }
            tokio::select! {
                biased;
                _ = changes.changed() => reason = Some(Reason::SettingsChanged),
                () = session.up(), if why == Reason::Down => {}
                found = self.find(session, why) => match found {
                    Some(found) => return found,
                    None => tracing::info!("the minion stays at {}", session.endpoint),
                },
            }
        }
    }

    /// Connects and authenticates elsewhere. Returns none when the session is where it should be.
    async fn find(
        &self,
        session: &MinionSession,
        why: Reason,
    ) -> Option<(Connected, Arc<MinionSession>)> {
        let may_stay = why == Reason::SettingsChanged;
        loop {
            let current = &session.endpoint;
            let connected = self.connector.connect_instead_of(current, may_stay).await?;
            if let Some(found) = self.authenticator.authenticate(&connected).await {
                saline_daemon::notice!("moving from {current} to {}", connected.place());
                return Some((connected, found));
            }
            connected.close().await;
        }
    }
}
