//! A session in place of one that stands: when the configuration names another place for the master, or the
//! connection is down and the master may be elsewhere, or the keys of the old one were used for long enough. The old one
//! serves until the new one stands.
//!
//! The master replaces the old session with the new one when the new one has reconciled, so that every job is
//! published to one of the two, and the new one catches up.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::jitter;

use super::Minion;
use crate::link::candidate::Connected;
use crate::link::connection_state::ConnectionState;
use crate::link::minion_session::{Ended, MinionSession};
use crate::link::settings::Changes;
use crate::link::subscription::SubscribedSession;

/// How long a connection may be down before the other places are tried.
const DOWN: Duration = Duration::from_secs(3);

/// How long the minion goes on with the keys of a session after the master did not give it others.
const REKEY_AGAIN: Duration = Duration::from_secs(60);

/// A session that takes the place of another one.
#[derive(Debug)]
pub struct SessionHandover {
    /// The connection of the session.
    pub connected: Connected,
    /// The session.
    pub session: SubscribedSession,
    /// The connection of the one before, if that is another one.
    pub before: Option<Connected>,
}

/// The result of an attempt to authenticate.
#[derive(Debug)]
pub enum Authenticated {
    /// The master has accepted the minion, and its publications reach it.
    Session(SubscribedSession),
    /// The master cannot be reached over this connection, or cannot reach the minion.
    Unreachable,
    /// The minion was told of other places meanwhile.
    SettingsChanged,
}

/// The reason why a session is to have a successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    SettingsChanged,
    Down,
    KeysAreOld,
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
        connected: &Connected,
        subscribed: SubscribedSession,
        before: Option<Connected>,
        changes: &mut Changes,
    ) -> (Ended, Option<(Connected, SubscribedSession)>) {
        let session = Arc::clone(&subscribed.session);
        let served = self.session_loop.run(subscribed, before);
        let mut served = std::pin::pin!(served);
        let successor = tokio::select! {
            biased;
            ended = &mut served => return (ended, None),
            successor = self.successor(connected, &session, changes) => successor,
        };
        session.end(Ended::HandedOver);
        (served.await, Some(successor))
    }

    /// Waits until another session stands that is to take the place of `session`.
    async fn successor(
        &self,
        connection: &Connected,
        session: &MinionSession,
        changes: &mut Changes,
    ) -> (Connected, SubscribedSession) {
        let connected = self.state.get();
        let clock = self.context.clock;
        let mut old = clock.after(rekey_after(self.settings.now().rekey));
        let mut reason = None;
        loop {
            let why = match reason.take() {
                Some(reason) => reason,
                None => {
                    self.state.set(connected.clone());
                    tokio::select! {
                        _ = changes.changed() => Reason::SettingsChanged,
                        () = session.down_for(DOWN) => Reason::Down,
                        () = clock.until(old) => Reason::KeysAreOld,
                    }
                }
            };
            if why == Reason::Down {
                let at = session.endpoint.to_string();
                self.state.set(ConnectionState::Down(at));
            }
            if why == Reason::KeysAreOld {
                old = clock.after(REKEY_AGAIN);
                tokio::select! {
                    biased;
                    _ = changes.changed() => reason = Some(Reason::SettingsChanged),
                    () = session.down_for(DOWN) => reason = Some(Reason::Down),
                    renewed = self.authenticator.authenticate(connection) => match renewed {
                        Some(renewed) => return (connection.clone(), renewed),
                        None => tracing::warn!(
                            "the master at {} has not made a session with new keys: the minion keeps the one that it has",
                            session.endpoint
                        ),
                    },
                }
                continue;
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

    /// Connects, authenticates and subscribes elsewhere. Returns none when the session is where it should be.
    async fn find(
        &self,
        session: &MinionSession,
        why: Reason,
    ) -> Option<(Connected, SubscribedSession)> {
        let may_stay = why == Reason::SettingsChanged;
        let (current, mut failed) = (&session.endpoint, Vec::new());
        loop {
            let connected = self
                .connector
                .connect_instead_of(current, may_stay, &mut failed)
                .await?;
            if let Some(found) = self.authenticator.authenticate(&connected).await {
                saline_daemon::notice!("moving from {current} to {}", connected.place());
                return Some((connected, found));
            }
            failed.push(connected.endpoint.clone());
            connected.close().await;
        }
    }
}

/// Returns when the keys of a session that begins now are replaced: between three quarters of this time and all of it, so that
/// minions that came together do not rekey together.
fn rekey_after(most: Duration) -> Duration {
    most - jitter(most / 4)
}
