//! Decides about a minion: whether its key is accepted, whether there is room for it, and what operators are told.

use std::sync::Arc;

use saline_channel::PublicIdentity;
use saline_channel::noise::VerifiedPeer;
use saline_messages::{Admission, EventOrigin, MinionId};
use saline_protocol::transport::{Peer, Source};

use super::{AdmissionControl, FirstContact, short};
use crate::decisions::Details;
use crate::keys::{KeyStore, KeysUnreadable, Verdict};

impl AdmissionControl {
    /// Decides about a minion: at its first contact, or again.
    pub(super) async fn minion(
        &self,
        id: &MinionId,
        identity: PublicIdentity,
        source: Source,
        first: Option<FirstContact>,
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
        let max_pending = policy.max_pending;
        let (first, token) = match first {
            Some(FirstContact { peer, token }) => (Some(peer), token),
            None => (None, None),
        };
        let (tokens, now) = (Arc::clone(&self.tokens), self.clock.now());
        let name = token.as_ref().map(|token| token.name);
        let authenticate = move |keys: &KeyStore| {
            let Some(token) = token else {
                return keys.authenticate(&asked, identity.0, source, &policy);
            };
            let take_use = || tokens.take_use(&token, &asked, now).map(|()| token.name);
            keys.authenticate_with_token(&asked, identity.0, source, &policy, Some(&take_use))
        };
        let verdict = self.keys.with_minions(authenticate).await;
        let Some(verdict) = verdict else {
            return Admission::Full;
        };
        if let Some((state, displaced)) = &verdict.displaced {
            let adjective = state.adjective();
            tracing::info!(
                "removed the {adjective} key of minion {displaced} for another one: its source has too many of the \
                 max_pending_keys ({})",
                max_pending
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
            && let Some(peer) = first
        {
            let now = self.clock.clock().now();
            is_new |= self.denied.note(id, identity.0, peer, now);
        }
        if verdict.changed && verdict.admission == Admission::Denied {
            let subject = format!("deny, fingerprint {}", identity.fingerprint());
            let rule = "another key is known under the id";
            self.decisions.note_key_refused(id, subject, rule).await;
        }
        if let Some(rule) = verdict.rule.as_deref().filter(|_| verdict.changed) {
            let act = match verdict.admission.is_accepted() {
                true => "accept",
                false => "reject",
            };
            let minions = [id.clone()];
            let details = Details {
                minions: Some(&minions),
                subject: Some(format!("{act}, fingerprint {}", identity.fingerprint())),
                ..Details::default()
            };
            self.decisions.note_own_act(rule, details).await;
        }
        if verdict.is_by_token {
            self.events.key(EventOrigin::master(), id, "accept").await;
        }
        if let (Some(name), Some(refused)) = (name, verdict.token_refused)
            && self.warnings.take()
        {
            let reason = refused.reason();
            tracing::warn!(
                "the token {name} of minion {id} does not let it in: the token {reason}"
            );
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
    pub(super) async fn settle_key(
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

    /// Accepts a minion whose identity is accepted, unless its Noise key is older than one that the master has met: a thief of a
    /// replaced Noise key also has the identity's vouch for it.
    pub(super) fn accept_vouch(&self, id: &MinionId, proven: &VerifiedPeer) -> Admission<()> {
        if self.revocation.jobs.note_vouch(id, proven.issued) {
            return Admission::Accepted(());
        }
        if self.limiter.allows(id) {
            tracing::warn!(
                "refused minion {id}: its Noise key is older than one that this master has met; if its disk was put back, \
                 remove noise.key from its pki_dir and start it again"
            );
        }
        Admission::OldNoiseKey
    }

    pub(super) fn is_full(&self, id: &MinionId) -> bool {
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
            && matches!(verdict.admission, Admission::Pending(_) | Admission::Denied)
            && self.warnings.take();
        match &verdict.admission {
            Admission::Pending(_) if is_warning => tracing::warn!(
                "the key of minion {id}{from} waits to be accepted: its fingerprint is {key}; `saline-key -a \
                 {id}` accepts it"
            ),
            Admission::Denied if is_warning => tracing::warn!(
                "minion {id}{from} is denied: its key, fingerprint {key}, is not the one that is known under \
                 this id, which `saline-key -f {id}` shows"
            ),
            _ => {
                let by = verdict
                    .rule
                    .as_deref()
                    .map_or_else(String::new, |rule| format!(" by {rule}"));
                tracing::info!("minion {id}{from}: {act}{by} (key {})", short(&identity));
            }
        }
        self.events.auth(id, act, verdict.result, identity).await;
    }
}
