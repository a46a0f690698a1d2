//! Decides which peers are let in: Salt's `_auth`, after the peer has proven its keys.

use std::sync::Arc;

use saline_channel::PublicIdentity;
use saline_channel::noise::VerifiedPeer;
use saline_messages::{
    Admission, EventOrigin, MinionId, PeerVersion, ProtocolVersions, PublicationAddress, Role,
    SOFTWARE, Welcome,
};
use saline_protocol::transport::{Context, Peer, Source};

use super::local_users;
use super::{DeniedPeers, KeyWarnings, Revocation};
use crate::authorize::{Admits, LOCAL_OPERATOR, LocalUser, Principal};
use crate::bounds::TokenBuckets;
use crate::clock::MasterClock;
use crate::decisions::{Decisions, Details};
use crate::events::Events;
use crate::keys::{KeyAccess, KeysUnreadable, Verdict};
use crate::publisher::MinionPublisher;
use crate::sessions::{ListenerKind, Session, Sessions};
use crate::settings::LiveSettings;

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
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) revocation: Revocation,
    pub(crate) limiter: TokenBuckets<MinionId>,
    pub(crate) warnings: KeyWarnings,
    pub(crate) denied: DeniedPeers,
    pub(crate) events: Events,
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
                            match self.minion(&id, key, source, Some(peer)).await {
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
            Principal::Caller(_)
            | Principal::Operator(_)
            | Principal::LocalRoot
            | Principal::MasterUser
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

    /// Decides about a user of this machine, who is the one that the system tells, whatever the keys are.
    async fn local_user(&self, proven: &VerifiedPeer, peer: Peer) -> AdmissionDecision {
        let (Source::User(uid), Role::Operator) = (peer.source, proven.role) else {
            return AdmissionDecision::reject_nameless();
        };
        if let Some(admission) = self.refuse_version(proven) {
            return AdmissionDecision {
                admission,
                ..AdmissionDecision::reject_nameless()
            };
        }
        match self.look_up(uid).await {
            Ok(Some(user)) => self.admit_user(Arc::new(user)).await,
            Ok(None) => AdmissionDecision::reject_nameless(),
            Err(KeysUnreadable) => AdmissionDecision {
                admission: Admission::Full,
                ..AdmissionDecision::reject_nameless()
            },
        }
    }

    /// Decides about a session of a user of this machine. A refusal has its line in the audit file.
    async fn admit_user(&self, user: Arc<LocalUser>) -> AdmissionDecision {
        let admits = self.decisions.authorizer.admits(&user);
        let principal = Principal::LocalUser(user);
        let admission = match admits {
            Admits::Yes => Admission::Accepted(()),
            Admits::NoRule(refusal) => {
                self.decisions.note_user_refused(&principal, &refusal).await;
                Admission::Rejected
            }
            Admits::Blacklisted(refusal) => {
                self.decisions.note_user_refused(&principal, &refusal).await;
                Admission::Denied
            }
        };
        AdmissionDecision {
            principal,
            admission,
        }
    }

    /// Returns the user of this machine with this number; none if the system knows no such user.
    async fn look_up(&self, uid: u32) -> Result<Option<LocalUser>, KeysUnreadable> {
        let looked_up = self
            .context
            .spawn_blocking(move || local_users::look_up(uid));
        match looked_up.await {
            Ok(Ok(user)) => Ok(user),
            Ok(Err(error)) => {
                tracing::error!("the user with number {uid} cannot be looked up: {error}");
                Err(KeysUnreadable)
            }
            // The runtime logs that it panicked.
            Err(_) => Err(KeysUnreadable),
        }
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

    /// Decides about a minion: at its first contact over the connection `first`, or again.
    async fn minion(
        &self,
        id: &MinionId,
        identity: PublicIdentity,
        source: Source,
        first: Option<Peer>,
    ) -> Admission<()> {
        if self.is_full(id) {
            if self.limiter.allows(id) {
                if self.warnings.take() {
                    let most = self.settings.now().max_minions;
                    tracing::warn!("minion {id}: refused, there are max_minions ({most}) already");
                }
                self.events.auth(id, "full", false, identity).await;
            }
            return Admission::Full;
        }
        let (asked, policy) = (id.clone(), self.settings.now().policy);
        let verdict = self
            .keys
            .with_minions(move |keys| keys.authenticate(&asked, identity.0, source, policy))
            .await;
        let Some(verdict) = verdict else {
            return Admission::Full;
        };
        if let Some((state, displaced)) = &verdict.displaced {
            let adjective = state.adjective();
            tracing::info!(
                "removed the {adjective} key of minion {displaced} for another one: its source has too many of the \
                 max_pending_keys ({})",
                policy.max_pending
            );
            let origin = EventOrigin::master();
            self.events.key(origin, displaced, "delete").await;
            let subject = format!("delete, {adjective}");
            let noted = self
                .decisions
                .note_key_refused(displaced, subject, "max_pending_keys");
            noted.await;
        }
        let mut is_new = verdict.changed;
        if verdict.admission == Admission::Denied
            && let Some(address) = first.and_then(|peer| peer.address)
        {
            let now = self.clock.clock().now();
            is_new |= self.denied.note(id, identity.0, address, now);
        }
        if verdict.changed && verdict.admission == Admission::Denied {
            let subject = format!("deny, fingerprint {}", identity.fingerprint());
            let rule = "another key is known under the id";
            self.decisions.note_key_refused(id, subject, rule).await;
        }
        if verdict.changed && verdict.admission.is_accepted() {
            let minions = [id.clone()];
            let details = Details {
                minions: Some(&minions),
                subject: Some(format!("accept, fingerprint {}", identity.fingerprint())),
                ..Details::default()
            };
            self.decisions.note_own_act(details).await;
        }
        self.report(id, identity, &verdict, is_new, first).await;
        if verdict.admission.is_accepted() && self.settle_key(id, identity).await.is_err() {
            // The minion asks again.
            return Admission::Full;
        }
        verdict.admission
    }

    /// Withdraws what was offered to another key under this id before the minion with the accepted key can ask
    /// for it: the other key was replaced by `open_mode`, or by hand a moment ago.
    ///
    /// # Errors
    /// When the keys cannot be read now, so that nobody knows which of the two is accepted.
    async fn settle_key(
        &self,
        id: &MinionId,
        identity: PublicIdentity,
    ) -> Result<(), KeysUnreadable> {
        if self.revocation.jobs.has_key(id, identity.0) {
            return Ok(());
        }
        // It may be this one that has been replaced meanwhile; its session will be refused.
        let unreadable = Box::pin(self.revocation.settle(vec![id.clone()])).await;
        match unreadable.is_empty() {
            true => Ok(()),
            false => Err(KeysUnreadable),
        }
    }

    /// Accepts a minion whose identity is accepted, unless its Noise key is one that it has replaced: whoever came by the old one
    /// has the vouch for it as well.
    fn accept_vouch(&self, id: &MinionId, proven: &VerifiedPeer) -> Admission<()> {
        if self.revocation.jobs.note_vouch(id, proven.issued) {
            return Admission::Accepted(());
        }
        if self.limiter.allows(id) {
            tracing::warn!(
                "refused minion {id}: it comes with a Noise key that it had before the one that it has; if its disk was put \
                 back, remove noise.key from its pki_dir and start it again"
            );
        }
        Admission::OldNoiseKey
    }

    fn is_full(&self, id: &MinionId) -> bool {
        let most = self.settings.now().max_minions;
        most > 0 && self.sessions.counted_minions() >= most && self.sessions.alive(id).is_none()
    }

    /// Reports a verdict in the log and on the bus: always when the store changed, at a limited rate
    /// for a first contact, and never for a poll. A key that is new, and waits or is denied, is a warning: an
    /// operator has to act.
    async fn report(
        &self,
        id: &MinionId,
        identity: PublicIdentity,
        verdict: &Verdict,
        is_new: bool,
        first: Option<Peer>,
    ) {
        let is_allowed = self.limiter.allows(id);
        if !verdict.changed && (first.is_none() || !is_allowed) {
            return;
        }
        let (act, key) = (verdict.act, identity.fingerprint());
        let from = first.map_or_else(String::new, |peer| format!(" at {peer}"));
        let is_warning = is_new
            && matches!(verdict.admission, Admission::Pending | Admission::Denied)
            && self.warnings.take();
        match &verdict.admission {
            Admission::Pending if is_warning => tracing::warn!(
                "the key of minion {id}{from} waits to be accepted: its fingerprint is {key}; `saline-key -a \
                 {id}` accepts it"
            ),
            Admission::Denied if is_warning => tracing::warn!(
                "minion {id}{from} is denied: its key, fingerprint {key}, is not the one that is known under \
                 this id, which `saline-key -f {id}` shows"
            ),
            _ => tracing::info!("minion {id}{from}: {act} (key {})", short(&identity)),
        }
        self.events.auth(id, act, verdict.result, identity).await;
    }
}

/// Returns the beginning of a fingerprint, for the log.
fn short(identity: &PublicIdentity) -> String {
    identity.fingerprint().chars().take(23).collect()
}
