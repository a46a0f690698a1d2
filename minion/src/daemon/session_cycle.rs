//! The sessions of a minion, one after the other: connects, authenticates and serves, and what it waits for after the end of
//! each.
//!
//! A minion whose session was replaced makes another one at once, because the master may have carried out late a
//! handshake that the minion had given up. It reports a second machine under its id when that happens again within
//! 15 minutes.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{Backoff, Instant};

use super::Minion;
use super::handover::{Authenticated, SessionHandover};
use crate::link::candidate::Connected;
use crate::link::minion_session::Ended;

/// The first and the longest delay of a minion whose place another one with its id has taken.
const FIRST_REPLACED_DELAY: Duration = Duration::from_secs(5);
const MAX_REPLACED_DELAY: Duration = Duration::from_secs(60);

/// How long it is remembered that a session was replaced: a second time within it is another machine.
const REPLACED_KNOWN: Duration = Duration::from_secs(15 * 60);

impl Minion {
    /// Connects, authenticates and serves sessions, again and again. Notes the last connection in `last`.
    pub(super) async fn serve_sessions(&self, last: &mut Option<Connected>) {
        let mut replaced = Replacements::default();
        let mut handover: Option<SessionHandover> = None;
        let mut failed = Vec::new();
        let mut changes = self.settings.subscribe();
        loop {
            let (connected, mut first, mut before) = match handover.take() {
                Some(SessionHandover {
                    connected,
                    session,
                    before,
                }) => (connected, Some(session), before),
                None => {
                    let connected = self.connector.connect(&failed, &mut changes).await;
                    (connected, None, None)
                }
            };
            *last = Some(connected.clone());
            let mut lost = self.settings.now().delays.reconnect.clone();
            let next = loop {
                let session = match first.take() {
                    Some(session) => session,
                    None => match self.authenticate(&connected, &mut changes).await {
                        Authenticated::Session(session) => session,
                        Authenticated::Unreachable => {
                            failed.retain(|at| *at != connected.endpoint);
                            failed.push(connected.endpoint.clone());
                            break None;
                        }
                        Authenticated::SettingsChanged => break None,
                    },
                };
                failed.clear();
                let began = self.context.clock.now();
                let (ended, next) = self
                    .serve_session(&connected, session, before.take(), &mut changes)
                    .await;
                if next.is_some() {
                    break next;
                }
                self.pause_after(ended, began, &mut lost, &mut replaced)
                    .await;
            };
            match next {
                // The old connection stands until the new session is the minion's.
                Some((new, session)) => {
                    let is_another = !Arc::ptr_eq(&new.client, &connected.client);
                    handover = Some(SessionHandover {
                        connected: new,
                        session,
                        before: is_another.then_some(connected),
                    });
                }
                None => connected.close().await,
            }
        }
    }

    /// Waits after the end of a session that was not handed over.
    async fn pause_after(
        &self,
        ended: Ended,
        began: Instant,
        lost: &mut Backoff,
        replaced: &mut Replacements,
    ) {
        let clock = self.context.clock;
        let now = clock.now();
        if now - began > MAX_REPLACED_DELAY && ended != Ended::Replaced {
            lost.reset();
            replaced.backoff.reset();
        }
        let delay = match ended {
            Ended::Lost | Ended::HandedOver => lost.next_delay(),
            Ended::KeyGone => {
                tracing::warn!("the master has deleted or rejected this minion's key");
                // What the minion left there went with the key.
                self.host.mine.want_again();
                lost.next_delay()
            }
            // A handshake that this minion had given up, and the master carried out late,
            // takes the place of its session too: once. Another machine does it again.
            Ended::Replaced
                if replaced
                    .last
                    .replace(now)
                    .is_none_or(|before| now - before > REPLACED_KNOWN) =>
            {
                tracing::info!("the session was replaced by another one of this id");
                lost.next_delay()
            }
            Ended::Replaced => {
                tracing::error!(
                    "another minion with the id {} has taken this one's place: two machines \
                     share an id, or a key; give one of them another id, and delete its pki_dir and state_dir",
                    self.id
                );
                replaced.backoff.next_delay()
            }
        };
        clock.pause(delay).await;
    }
}

/// The sessions that another one of this id has replaced.
#[derive(Debug)]
struct Replacements {
    backoff: Backoff,
    /// When it happened last.
    last: Option<Instant>,
}

impl Default for Replacements {
    fn default() -> Self {
        Self {
            backoff: Backoff::new(FIRST_REPLACED_DELAY, MAX_REPLACED_DELAY),
            last: None,
        }
    }
}
