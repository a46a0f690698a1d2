//! At the master's door: who is there, and may I come in.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::channel::{
    ChannelError, Established, MasterKeys, MasterTrust, Session, establish,
};
use saline_protocol::message::{AuthAnswer, Class, MinionReply, PendingRequest, Welcome};
use saline_protocol::transport::{Backoff, ErrorKind, jitter};

use super::Minion;
use super::connect::Connected;
use super::link::Link;
use super::stage::Stage;

/// How long a handshake, or a poll, may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// So often in a row the master could not be reached before another way is tried.
const MOST_UNREACHED: u32 = 5;

/// How long a minion that is not taken waits at most before it asks again, unless it was told.
const REFUSED_MAX: Duration = Duration::from_secs(300);

/// How long it waits at least after a master with another key.
const WRONG_MASTER_FIRST: Duration = Duration::from_secs(5);

impl Minion {
    /// Comes back with an accepted session, however long that takes. None when the master cannot be
    /// reached this way any more.
    ///
    /// # Cancel safety
    /// When the future is dropped there is no session.
    pub(super) async fn authenticate(&self, connected: &Connected) -> Option<Arc<Link>> {
        let clock = self.context.clock;
        let (mut backoff, mut unreached) = (self.reconnect(), 0);
        let mut refused = self.refused_backoff();
        let mut wrong = Backoff::new(
            WRONG_MASTER_FIRST.min(self.config.acceptance_wait),
            REFUSED_MAX,
        );
        loop {
            if !matches!(self.stage.get(), Stage::Refused(_) | Stage::WrongMaster) {
                let to = connected.endpoint.to_string();
                self.stage.set(Stage::Authenticating(to));
            }
            let wait = match self.knock(connected).await {
                Ok((session, AuthAnswer::Accepted(welcome))) => {
                    return Some(self.let_in(connected, session, welcome));
                }
                Ok((session, AuthAnswer::Pending)) => {
                    match self.await_acceptance(connected, &session).await {
                        Some(welcome) => return Some(self.let_in(connected, session, welcome)),
                        None => backoff.next_delay(),
                    }
                }
                Ok((_, answer)) => {
                    self.tell_refused(&answer);
                    refused.next_delay()
                }
                Err(Knock::Distrust(why)) => {
                    self.tell_distrust(&why);
                    wrong.next_delay()
                }
                Err(Knock::Channel(ChannelError::Busy { after })) => {
                    tracing::debug!("the master is busy for {} ms", after.as_millis());
                    after + jitter(after)
                }
                Err(Knock::Channel(error)) => {
                    tracing::warn!("cannot authenticate at {}: {error}", connected.endpoint);
                    match error {
                        ChannelError::Transport(e) if e.kind() == ErrorKind::Closed => return None,
                        ChannelError::Transport(_) => unreached += 1,
                        _ => {}
                    }
                    if unreached >= MOST_UNREACHED {
                        return None;
                    }
                    backoff.next_delay()
                }
            };
            clock.pause(wait).await;
        }
    }

    /// Makes a session, and pins the master at the first contact.
    async fn knock(&self, at: &Connected) -> Result<(Session, AuthAnswer), Knock> {
        let trust = self.trust()?;
        let deadline = self.context.clock.after(HANDSHAKE);
        let client = at.client.as_ref();
        let Established {
            session,
            answer,
            master,
        } = establish(client, &self.credentials, &trust, deadline)
            .await
            .map_err(|error| self.explain(error))?;
        let known = match trust {
            MasterTrust::Pinned(known) => Some(known),
            MasterTrust::FirstUse { .. } => None,
        };
        if known != Some(master) {
            let path = self.config.master_identity();
            let finger = master.identity.fingerprint();
            match master.write(&path) {
                Ok(()) if known.is_none() => tracing::info!(
                    "the master's key, fingerprint {finger}, is trusted from now on; it lies in {}",
                    path.display()
                ),
                Ok(()) => tracing::debug!("the master's second key was noted"),
                Err(error) => tracing::error!(
                    "the master's key, fingerprint {finger}, could not be kept: {error}"
                ),
            }
        }
        Ok((session, answer))
    }

    /// Which master is believed: the one that was pinned, else the first, or the one of
    /// `master_finger`.
    fn trust(&self) -> Result<MasterTrust, Knock> {
        let path = self.config.master_identity();
        let finger = self.config.master_finger.clone();
        // One that cannot be read is no reason to trust whoever answers.
        let pinned = MasterKeys::read(&path).map_err(|error| Knock::Distrust(error.to_string()))?;
        let Some(keys) = pinned else {
            return Ok(MasterTrust::FirstUse { finger });
        };
        match finger {
            Some(finger) if !keys.identity.has_fingerprint(&finger) => {
                Err(Knock::Distrust(format!(
                    "master_finger is {finger}, but the key in {} has the fingerprint {}: correct the \
                     one or remove the other",
                    path.display(),
                    keys.identity.fingerprint()
                )))
            }
            _ => Ok(MasterTrust::Pinned(keys)),
        }
    }

    /// Polls until the key is accepted; none when the session is gone or the answer is another one.
    async fn await_acceptance(&self, at: &Connected, session: &Session) -> Option<Welcome> {
        let clock = self.context.clock;
        if self.stage.set(Stage::Pending) {
            tracing::warn!(
                "the master has not accepted this minion's key yet: on the master, run \
                 `saline-key -a {}`; the fingerprint is {}",
                self.id,
                self.credentials.identity.public().fingerprint()
            );
        }
        let mut wait = self.config.acceptance_wait;
        loop {
            clock.pause(wait).await;
            wait = (wait * 2).min(
                self.config
                    .acceptance_wait_max
                    .max(self.config.acceptance_wait),
            );
            let deadline = clock.after(HANDSHAKE);
            let client = at.client.as_ref();
            let answer = session
                .ask::<_, MinionReply>(client, Class::Event, &PendingRequest::Poll, deadline)
                .await;
            match answer {
                Ok(MinionReply::Auth(AuthAnswer::Accepted(welcome))) => return Some(welcome),
                Ok(MinionReply::Auth(AuthAnswer::Pending)) => {
                    tracing::debug!("the key is not accepted yet");
                }
                Ok(MinionReply::Busy { after_ms }) => {
                    clock
                        .pause(Duration::from_millis(u64::from(after_ms)))
                        .await;
                }
                Err(ChannelError::Transport(error)) if error.kind() != ErrorKind::Closed => {
                    tracing::debug!("the master does not answer: {error}");
                }
                Err(ChannelError::Busy { after }) => clock.pause(after).await,
                // Whatever it is, a new session finds out.
                Ok(_) | Err(_) => return None,
            }
        }
    }

    fn let_in(&self, at: &Connected, session: Session, welcome: Welcome) -> Arc<Link> {
        self.clock.set(welcome.clock);
        let theirs = usize::try_from(welcome.max_message).unwrap_or(usize::MAX);
        let limit = self.config.max_message_size.min(theirs);
        self.host.set_max_message(limit);
        let text = format!("session {} over {}", session.id(), at.endpoint);
        tracing::info!("accepted by the master, {text}");
        self.stage.set(Stage::Attending(text));
        let client = Arc::clone(&at.client);
        Arc::new(Link::new(client, at.endpoint.clone(), session, welcome))
    }

    fn refused_backoff(&self) -> Backoff {
        let first = self.config.acceptance_wait;
        let most = self.config.acceptance_wait_max;
        Backoff::new(first, if most.is_zero() { REFUSED_MAX } else { most })
    }

    fn tell_refused(&self, answer: &AuthAnswer) {
        let (short, what) = match answer {
            AuthAnswer::Rejected => (
                "its key is rejected",
                "on the master, `saline-key -d` with its id and then `saline-key -a` takes it back",
            ),
            AuthAnswer::Denied => (
                "another key is known under its id",
                "if this machine is the right one, remove the old key on the master with \
                 `saline-key -d` and its id",
            ),
            _ => (
                "the master takes no more minions, or keys, now",
                "see max_minions and max_pending_keys on the master",
            ),
        };
        if self.stage.set(Stage::Refused(short)) {
            tracing::error!(
                "the master does not take minion {}: {short}; {what}. The minion waits and asks \
                 again. Its fingerprint is {}",
                self.id,
                self.credentials.identity.public().fingerprint()
            );
        } else {
            tracing::info!("the master still does not take minion {}: {short}", self.id);
        }
    }

    fn tell_distrust(&self, why: &str) {
        if self.stage.set(Stage::WrongMaster) {
            tracing::error!("{why}. The minion tries again from time to time");
        } else {
            tracing::info!("still no master that is trusted");
            tracing::debug!("{why}");
        }
    }
}

/// Why a session was not made.
#[derive(Debug)]
enum Knock {
    /// What to do about it stands in the text.
    Distrust(String),
    Channel(ChannelError),
}

impl Minion {
    fn explain(&self, error: ChannelError) -> Knock {
        let ChannelError::WrongMaster { expected, found } = error else {
            return Knock::Channel(error);
        };
        let path = self.config.master_identity();
        let finger = match &self.config.master_finger {
            Some(_) => " and correct master_finger in the minion's configuration",
            None => "",
        };
        Knock::Distrust(format!(
            "the master that answers has another key than the one that this minion trusts: its \
             fingerprint is {found}, trusted is {expected}. It was told nothing. If the master's key \
             was really changed (`saline-key -F` on the master shows it), remove {}{finger}, and the \
             minion will trust the new one",
            path.display()
        ))
    }
}
