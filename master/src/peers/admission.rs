//! Decides which peers are let in: Salt's `_auth`, after the peer has proven its keys.

use std::sync::Arc;

use saline_channel::noise::VerifiedPeer;
use saline_channel::{PresentedToken, PublicIdentity};
use saline_messages::{
    Admission, MinionId, PeerVersion, ProtocolVersions, PublicationAddress, Role, SOFTWARE, Welcome,
};
use saline_protocol::transport::{Context, Peer, Source};

use super::{DeniedPeers, KeyWarnings, Revocation};
use crate::authorize::{LOCAL_OPERATOR, Principal};
use crate::bounds::TokenBuckets;
use crate::clock::MasterClock;
use crate::decisions::Decisions;
use crate::events::Events;
use crate::keys::{KeyAccess, KeysUnreadable, TokenStore};
use crate::publisher::MinionPublisher;
use crate::sessions::{ListenerKind, Session, Sessions};
use crate::settings::LiveSettings;

mod api;
mod local_user;
mod minion;
#[cfg(test)]
mod tests;

/// Decides which peers are let in.
#[derive(Debug)]
pub struct AdmissionControl {
    pub(crate) context: Context,
    pub(crate) decisions: Decisions,
    pub(crate) settings: LiveSettings,
    /// How often a minion sends a heartbeat, in milliseconds.
    pub(crate) heartbeat_ms: u64,
    /// The largest message that the master takes, in bytes.
    pub(crate) max_message: u64,
    /// The protocol versions that the master speaks.
    pub(crate) versions: ProtocolVersions,
    pub(crate) clock: MasterClock,
    pub(crate) keys: KeyAccess,
    pub(crate) tokens: Arc<TokenStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) revocation: Revocation,
    pub(crate) limiter: TokenBuckets<MinionId>,
    pub(crate) warnings: KeyWarnings,
    pub(crate) denied: DeniedPeers,
    pub(crate) events: Events,
}

/// The first contact of a minion.
#[derive(Debug)]
struct FirstContact {
    /// The connection.
    peer: Peer,
    /// The token that the minion brought.
    token: Option<PresentedToken>,
}

/// A decision whether a peer is let in, and the peer that it is about.
#[derive(Debug)]
pub struct AdmissionDecision {
    /// The peer.
    pub principal: Principal,
    /// The decision.
    pub admission: Admission<()>,
}

impl AdmissionDecision {
    /// A peer with the root key is root or the master's user, as the system says.
    fn of_operator(proven: &VerifiedPeer, peer: Peer, admission: Admission<()>) -> Self {
        let principal = match (proven.id.as_str(), peer.source) {
            (LOCAL_OPERATOR, Source::User(0) | Source::Process) => Principal::LocalRoot,
            (LOCAL_OPERATOR, _) => Principal::MasterUser,
            (name, _) => Principal::Operator(name.to_owned()),
        };
        Self {
            principal,
            admission,
        }
    }

    /// Rejects a peer that has no valid name. Its principal is an operator with an empty name.
    fn reject_nameless() -> Self {
        Self {
            principal: Principal::Operator(String::new()),
            admission: Admission::Rejected,
        }
    }
}

impl AdmissionControl {
    /// Recognises a peer that is accepted already, and changes nothing. Returns `None` for a minion
    /// whose key is not accepted.
    ///
    /// # Errors
    /// When the keys cannot be read now, which says nothing about the minion.
    pub async fn recognise(
        &self,
        proven: &VerifiedPeer,
        peer: Peer,
        kind: ListenerKind,
    ) -> Result<Option<AdmissionDecision>, KeysUnreadable> {
        if kind == ListenerKind::Access {
            return Ok(Some(self.local_user(proven, peer).await));
        }
        match proven.role {
            Role::Minion => {}
            Role::Operator => {
                let admission = self.operator(proven, kind).await?;
                return Ok(Some(AdmissionDecision::of_operator(
                    proven, peer, admission,
                )));
            }
            Role::Caller => return Ok(Some(self.caller(proven).await?)),
            Role::Api => return self.recognise_api(proven).await,
        }
        let Ok(id) = MinionId::parse(&proven.id) else {
            return Ok(None);
        };
        if !self.keys.is_accepted(&id, proven.identity).await? {
            return Ok(None);
        }
        if let Some(refused) = self.refuse_version(proven) {
            return Ok(Some(AdmissionDecision {
                principal: Principal::Minion(id),
                admission: refused,
            }));
        }
        let admission = if self.is_full(&id) {
            Admission::Full
        } else {
            self.settle_key(&id, proven.identity).await?;
            self.accept_vouch(&id, proven)
        };
        Ok(Some(AdmissionDecision {
            principal: Principal::Minion(id),
            admission,
        }))
    }

    /// Decides about a peer that has proven its keys in a handshake on the connection `peer` of a listener of this
    /// kind. A key that is to wait takes a place of the connection's source.
    pub async fn decide(
        &self,
        proven: &VerifiedPeer,
        peer: Peer,
        kind: ListenerKind,
    ) -> AdmissionDecision {
        if kind == ListenerKind::Access {
            return self.local_user(proven, peer).await;
        }
        match proven.role {
            Role::Minion => match MinionId::parse(&proven.id) {
                Ok(id) => AdmissionDecision {
                    admission: match self.refuse_version(proven) {
                        Some(refused) => refused,
                        None => {
                            let (key, source) = (proven.identity, peer.source);
                            let contact = FirstContact {
                                peer,
                                token: proven.token.clone(),
                            };
                            match self.minion(&id, key, source, Some(contact)).await {
                                Admission::Accepted(()) => self.accept_vouch(&id, proven),
                                refused => refused,
                            }
                        }
                    },
                    principal: Principal::Minion(id),
                },
                Err(error) => {
                    // Any stranger can cause this line as often as it likes, so only for debugging.
                    tracing::debug!("refused {}: {error}", short(&proven.identity));
                    AdmissionDecision::reject_nameless()
                }
            },
            Role::Operator => {
                let admission = self.operator(proven, kind).await;
                // The program asks again, as a minion whose key cannot be read does.
                AdmissionDecision::of_operator(proven, peer, admission.unwrap_or(Admission::Full))
            }
            Role::Api => self.api(proven, peer).await,
            Role::Caller => match self.caller(proven).await {
                Ok(decision) => decision,
                Err(KeysUnreadable) => AdmissionDecision {
                    admission: Admission::Full,
                    ..AdmissionDecision::reject_nameless()
                },
            },
        }
    }

    /// Decides again about the peer of a session that polls because it was not accepted.
    pub async fn decide_again(&self, session: &Session) -> Admission<()> {
        match &session.principal {
            Principal::Minion(id) => {
                self.minion(id, session.identity, session.peer.source, None)
                    .await
            }
            // An API makes a new session to ask again.
            Principal::Api(_)
            | Principal::Caller(_)
            | Principal::Operator(_)
            | Principal::LocalRoot
            | Principal::MasterUser
            | Principal::Schedule(_)
            | Principal::Reaction(_)
            | Principal::ExternalUser(_)
            | Principal::LocalUser(_) => Admission::Rejected,
        }
    }

    /// Whether the key of `session`'s peer is accepted now.
    ///
    /// # Errors
    /// When the keys cannot be read now.
    pub async fn still_accepts(&self, session: &Session) -> Result<bool, KeysUnreadable> {
        match &session.principal {
            Principal::Minion(id) | Principal::Caller(id) => {
                self.keys.is_accepted(id, session.identity).await
            }
            Principal::LocalRoot | Principal::MasterUser => {
                Ok(self.keys.operator(LOCAL_OPERATOR).await? == Some(session.identity.0))
            }
            // There is no key. The rules in force decide about each request, by the groups of today.
            Principal::LocalUser(user) => {
                let now = self.look_up(user.uid).await?;
                Ok(now.as_ref() == Some(&**user))
            }
            // It has no session.
            Principal::Schedule(_) | Principal::Reaction(_) | Principal::ExternalUser(_) => {
                Ok(false)
            }
            Principal::Api(name) => Ok(self.keys.api(name).await? == Some(session.identity.0)),
            Principal::Operator(name) => {
                Ok(self.keys.operator(name).await? == Some(session.identity.0))
            }
        }
    }

    /// Returns what an accepted peer is told; minions also get the group key.
    pub fn welcome(
        &self,
        principal: &Principal,
        publications: &PublicationAddress,
        protocol: u16,
    ) -> Welcome {
        let is_minion = matches!(principal, Principal::Minion(_));
        Welcome {
            clock: self.clock.now(),
            heartbeat_ms: self.heartbeat_ms,
            max_message: self.max_message,
            publications: publications.clone(),
            group: is_minion.then(|| self.publisher.current()),
            master: PeerVersion {
                protocol,
                software: SOFTWARE.to_owned(),
            },
            extensions: Vec::new(),
        }
    }

    /// Returns the protocol version of a session with this peer, and the version of its software.
    pub fn version_of(&self, proven: &VerifiedPeer) -> PeerVersion {
        let common = self.versions.common(proven.versions);
        PeerVersion {
            protocol: common.unwrap_or(PeerVersion::NONE),
            software: proven.software.clone(),
        }
    }

    /// Refuses a peer with which no protocol version is common.
    fn refuse_version(&self, proven: &VerifiedPeer) -> Option<Admission<()>> {
        let versions = self.versions;
        if versions.common(proven.versions).is_some() {
            return None;
        }
        // A stranger can cause this line as often as it likes, so only for debugging; the peer is told.
        tracing::debug!(
            "refused {}: it speaks protocol {}, this master {versions}",
            short(&proven.identity),
            proven.versions
        );
        Some(Admission::NoCommonVersion {
            versions,
            software: SOFTWARE.to_owned(),
        })
    }

    async fn operator(
        &self,
        proven: &VerifiedPeer,
        kind: ListenerKind,
    ) -> Result<Admission<()>, KeysUnreadable> {
        if let Some(refused) = self.refuse_version(proven) {
            return Ok(refused);
        }
        let known = self.keys.operator(&proven.id).await?;
        if known == Some(proven.identity.0)
            && (kind == ListenerKind::Local || proven.id != LOCAL_OPERATOR)
        {
            return Ok(Admission::Accepted(()));
        }
        let key = short(&proven.identity);
        match MinionId::parse(&proven.id) {
            Ok(name) if self.limiter.allows(&name) && self.warnings.take() => {
                tracing::warn!("refused operator {name} with key {key}");
            }
            // Not a valid name, or reported a moment ago.
            _ => tracing::debug!("refused an operator: {key}"),
        }
        Ok(Admission::Rejected)
    }

    /// Decides about a caller, which has the keys of a minion. It leaves no trace in the key store, so that
    /// only the minion itself asks for acceptance.
    ///
    /// # Errors
    /// When the keys cannot be read now.
    async fn caller(&self, proven: &VerifiedPeer) -> Result<AdmissionDecision, KeysUnreadable> {
        let Ok(id) = MinionId::parse(&proven.id) else {
            return Ok(AdmissionDecision::reject_nameless());
        };
        let admission = match self.refuse_version(proven) {
            Some(refused) => refused,
            None if self.keys.is_accepted(&id, proven.identity).await? => {
                self.accept_vouch(&id, proven)
            }
            None => Admission::Rejected,
        };
        Ok(AdmissionDecision {
            principal: Principal::Caller(id),
            admission,
        })
    }
}

/// Returns the beginning of a fingerprint, for the log.
fn short(identity: &PublicIdentity) -> String {
    identity.fingerprint().chars().take(23).collect()
}
