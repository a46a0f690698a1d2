//! Authenticates at a master: makes sessions until one is accepted and subscribed to its publications.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_channel::{
    ChannelError, Credentials, Distrust, Established, PinnedMaster, Session, Token,
    establish_with_token,
};
use saline_config::MinionConfig;
use saline_messages::{
    Admission, Class, MinionId, MinionReply, PendingRequest, SOFTWARE, TokenRefusal, Welcome,
};
use saline_protocol::transport::{Clock, ErrorKind, jitter};

use super::candidate::Connected;
use super::connection_state::{ConnectionState, CurrentState};
use super::minion_session::MinionSession;
use super::settings::{Delays, LiveConnectionSettings};
use super::subscription::{SubscribedSession, subscribe};
use super::token_file::TokenFile;

/// How long a handshake, or a poll, may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The same when the master may be at other places too.
const HANDSHAKE_TIMEOUT_BESIDE_OTHERS: Duration = Duration::from_secs(5);

/// After this many failures in a row to reach the master, the minion reconnects.
const MAX_FAILURES: u32 = 5;

/// A poll that was answered after this time was held by the master until it had an answer.
const HELD: Duration = Duration::from_secs(1);

/// Makes accepted sessions with the master.
#[derive(Debug)]
pub struct Authenticator {
    id: MinionId,
    credentials: Credentials,
    /// The file of the master's pinned keys.
    pinned: PathBuf,
    token: TokenFile,
    settings: LiveConnectionSettings,
    state: CurrentState,
    /// The number of the sessions that were accepted.
    accepted: AtomicU64,
    /// The failure that was logged last, since the last session.
    failure: Mutex<Option<String>>,
    /// Whether it was logged that `master_finger` is a key that the master has replaced.
    told_outdated_finger: AtomicBool,
    clock: Clock,
}

/// The reason why a session was not made.
enum HandshakeError {
    Distrust(Distrust),
    Channel(ChannelError),
}

impl From<Distrust> for HandshakeError {
    fn from(distrust: Distrust) -> Self {
        Self::Distrust(distrust)
    }
}

impl Authenticator {
    /// Creates an authenticator of the minion `id` that shows its progress in `state`.
    pub fn new(
        config: &MinionConfig,
        id: MinionId,
        credentials: Credentials,
        settings: LiveConnectionSettings,
        state: CurrentState,
        clock: Clock,
    ) -> Self {
        Self {
            id,
            credentials,
            pinned: config.master_identity(),
            token: TokenFile::of(config),
            settings,
            state,
            accepted: AtomicU64::new(0),
            failure: Mutex::default(),
            told_outdated_finger: AtomicBool::new(false),
            clock,
        }
    }

    /// Returns the fingerprint of the minion's key.
    pub fn fingerprint(&self) -> String {
        self.credentials.identity.public().fingerprint()
    }

    /// Makes sessions until one is accepted and subscribed to its publications, however long that takes. Returns none
    /// when the master cannot be reached over this connection, or the minion not by its publications.
    ///
    /// # Cancel safety
    /// When the future is dropped there is no session.
    pub async fn authenticate(&self, connected: &Connected) -> Option<SubscribedSession> {
        let Delays {
            mut reconnect,
            mut refused,
            mut wrong_master,
            ..
        } = self.settings.now().delays.clone();
        let (timeout, most_unreached) = match self.settings.now().candidates.len() {
            0 | 1 => (HANDSHAKE_TIMEOUT, MAX_FAILURES),
            // Another one may answer.
            _ => (HANDSHAKE_TIMEOUT_BESIDE_OTHERS, 1),
        };
        let mut unreached = 0;
        loop {
            // A refused minion stays visible as refused while it tries again.
            if !matches!(
                self.state.get(),
                ConnectionState::Refused(_) | ConnectionState::WrongMaster
            ) {
                let to = connected.endpoint.to_string();
                self.state.set(ConnectionState::Authenticating(to));
            }
            tracing::debug!("authenticating at {}", connected.endpoint);
            let accepted = match self.handshake(connected, timeout).await {
                Ok((session, Admission::Accepted(welcome))) => Ok((session, welcome)),
                Ok((session, Admission::Pending(refused))) => {
                    match self.await_acceptance(connected, &session, refused).await {
                        Some(welcome) => Ok((session, welcome)),
                        None => Err(reconnect.next_delay()),
                    }
                }
                Ok((_, refusal)) => {
                    self.log_refusal(&refusal);
                    Err(refused.next_delay())
                }
                Err(HandshakeError::Distrust(Distrust(why))) => {
                    self.log_distrust(&why);
                    Err(wrong_master.next_delay())
                }
                Err(HandshakeError::Channel(ChannelError::Busy { after })) => {
                    tracing::debug!("the master is busy for {} ms", after.as_millis());
                    Err(after + jitter(after))
                }
                Err(HandshakeError::Channel(error)) => {
                    self.log_failure(format!(
                        "cannot authenticate at {}: {error}",
                        connected.endpoint
                    ));
                    match error {
                        ChannelError::Transport(e) if e.kind() == ErrorKind::Closed => return None,
                        ChannelError::Transport(_) => unreached += 1,
                        _ => {}
                    }
                    if unreached >= most_unreached {
                        return None;
                    }
                    Err(reconnect.next_delay())
                }
            };
            let delay = match accepted {
                Ok((session, welcome)) => {
                    let session = self.accepted(connected, session, welcome);
                    match subscribe(session, &self.id, timeout).await {
                        Ok(subscribed) => {
                            *self.failure() = None;
                            return Some(subscribed);
                        }
                        Err(error) => self.log_failure(error.to_string()),
                    }
                    unreached += 1;
                    reconnect.next_delay()
                }
                Err(delay) => delay,
            };
            self.clock.pause(delay).await;
            if unreached >= most_unreached {
                return None;
            }
        }
    }

    /// Makes a session, and pins the master at the first contact.
    async fn handshake(
        &self,
        at: &Connected,
        timeout: Duration,
    ) -> Result<(Session, Admission), HandshakeError> {
        let finger = self.settings.now().finger.clone();
        let read = self.token.read();
        let pinned = PinnedMaster::new(self.pinned.clone(), finger).with_token(read.clone());
        let trust = pinned.trust()?;
        // `master_finger` or a pinned key says which master is trusted, so it may be asked without the token.
        let token = self.token.usable_or_log(read);
        let deadline = self.clock.after(timeout);
        let (client, credentials) = (at.client.as_ref(), &self.credentials);
        let made =
            establish_with_token(client, credentials, &trust, token.as_ref(), deadline).await;
        let Established {
            session,
            answer,
            master,
        } = made.map_err(|error| match error {
            ChannelError::WrongMaster { found, .. } => {
                pinned.explain_other_key(&trust, &found).into()
            }
            old @ ChannelError::OldNoiseKey => pinned.explain_old_noise_key(&old).into(),
            error => HandshakeError::Channel(error),
        })?;
        pinned.pin(&trust, &master);
        if let Some(token) = &token {
            self.token.tell_if_not_sent(token, &master);
        }
        if let Some(outdated) = pinned.outdated_finger(&master)
            && !self.told_outdated_finger.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("{outdated}");
        }
        Ok((session, answer))
    }

    /// Polls until the key is accepted. The master holds a poll for some seconds, until an operator has decided, and
    /// is then asked again at once; when it has no room for that, after a delay. Returns none when the session is
    /// gone, the key is refused, or there is another token: a new handshake shows which.
    async fn await_acceptance(
        &self,
        at: &Connected,
        session: &Session,
        refused: Option<TokenRefusal>,
    ) -> Option<Welcome> {
        let name = |token: Option<Token>| token.map(|token| token.name());
        let presented = name(self.token.read().ok().flatten());
        if self.state.set(ConnectionState::Pending) {
            let token = match refused {
                Some(refused) => {
                    let (path, reason) = (self.token.display(), refused.reason());
                    format!(" (the token in {path} {reason})")
                }
                None => String::new(),
            };
            tracing::warn!(
                "the master has not accepted this minion's key yet{token}: on the master, run \
                 `saline-key -a {}`; the fingerprint is {}",
                self.credentials.id,
                self.fingerprint()
            );
        }
        let Delays {
            mut reconnect,
            poll: (mut delay, most),
            ..
        } = self.settings.now().delays.clone();
        loop {
            let asked = self.clock.now();
            let deadline = self.clock.after(HANDSHAKE_TIMEOUT);
            let (client, poll) = (at.client.as_ref(), &PendingRequest::Poll);
            let answer = session
                .ask::<_, MinionReply>(client, Class::Event, poll, deadline)
                .await;
            let was_held = self.clock.now() - asked >= HELD;
            let pause = match answer {
                Ok(MinionReply::Auth(Admission::Accepted(welcome))) => return Some(welcome),
                Ok(MinionReply::Auth(Admission::Pending(_))) => {
                    tracing::debug!("the key is not accepted yet");
                    if name(self.token.read().ok().flatten()) != presented {
                        return None;
                    }
                    reconnect.reset();
                    if was_held {
                        Duration::ZERO
                    } else {
                        let pause = delay;
                        delay = (delay * 2).min(most);
                        pause
                    }
                }
                Ok(MinionReply::Busy { after_ms }) => Duration::from_millis(after_ms.into()),
                Err(ChannelError::Busy { after }) => after,
                // Masters end the connections of strangers after a few seconds, whether a poll waits on them or not.
                Err(ChannelError::Transport(error)) if error.kind() != ErrorKind::Closed => {
                    tracing::debug!("the master does not answer: {error}");
                    reconnect.next_delay()
                }
                Ok(_) | Err(_) => return None,
            };
            self.clock.pause(pause).await;
        }
    }

    fn accepted(&self, at: &Connected, session: Session, welcome: Welcome) -> Arc<MinionSession> {
        let text = format!("session {} over {}", session.id(), at.place());
        tracing::info!("accepted by the master, {text}");
        self.token.remove();
        self.state.set(ConnectionState::Connected(text));
        let client = Arc::clone(&at.client);
        Arc::new(MinionSession::new(
            client,
            at.endpoint.clone(),
            session,
            welcome,
            self.accepted.fetch_add(1, Ordering::Relaxed) + 1,
        ))
    }

    /// Logs why there is no session: a warning once, not at every attempt.
    fn log_failure(&self, text: String) {
        let mut failure = self.failure();
        if failure.as_ref() == Some(&text) {
            return tracing::debug!("{text}");
        }
        tracing::warn!("{text}; the minion keeps trying");
        *failure = Some(text);
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_refusal(&self, refusal: &Admission) {
        let (id, fingerprint) = (&self.credentials.id, self.fingerprint());
        let (version_remedy, rejected_remedy, denied_remedy);
        let (reason, remedy) = match refusal {
            Admission::NoCommonVersion { versions, software } => {
                version_remedy = format!(
                    "the master is Saline {software} and speaks protocol {versions}, this minion is \
                     Saline {SOFTWARE} and speaks {}: upgrade the older one, masters first",
                    self.credentials.versions
                );
                (
                    "they speak no common protocol version",
                    version_remedy.as_str(),
                )
            }
            Admission::Rejected => {
                // Names this machine's key: the one that is rejected under the id may be another machine's.
                rejected_remedy = format!(
                    "on the master, `saline-key -a {id} --include-rejected --finger {fingerprint}` takes this machine's \
                     key back, and no other"
                );
                ("its id or its key is rejected", rejected_remedy.as_str())
            }
            Admission::OldNoiseKey => (
                "the master has met a newer noise.key of this minion",
                "if the disk here was put back, remove noise.key from pki_dir and start the minion again: it makes another one",
            ),
            Admission::Denied => {
                denied_remedy = format!(
                    "if this machine is the right one, `saline-key -a {id} --include-denied --finger {fingerprint}` on \
                     the master lets it in instead of the other one"
                );
                ("another key is known under its id", denied_remedy.as_str())
            }
            _ => (
                "the master takes no more minions, or no more pending keys, now",
                "see max_minions and max_pending_keys on the master",
            ),
        };
        if self.state.set(ConnectionState::Refused(reason)) {
            tracing::error!(
                "the master refuses minion {id}: {reason}; {remedy}. The minion keeps asking. Its \
                 fingerprint is {fingerprint}"
            );
        } else {
            tracing::info!("the master still refuses minion {id}: {reason}");
        }
    }

    fn log_distrust(&self, why: &str) {
        if self.state.set(ConnectionState::WrongMaster) {
            tracing::error!("{why}. The minion tries again from time to time");
        } else {
            tracing::info!("still no trusted master");
            tracing::debug!("{why}");
        }
    }
}
