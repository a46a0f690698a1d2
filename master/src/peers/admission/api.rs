//! Decides about a host of the HTTP API.

use saline_channel::noise::VerifiedPeer;
use saline_messages::{Admission, MinionId};
use saline_protocol::transport::Peer;

use super::{AdmissionControl, AdmissionDecision, short};
use crate::authorize::Principal;
use crate::keys::{ApiVerdict, KeyStore, KeysUnreadable};

impl AdmissionControl {
    /// Recognises an API whose key is accepted, and changes nothing. Returns `None` for another one.
    ///
    /// # Errors
    /// When the keys cannot be read now.
    pub(super) async fn recognise_api(
        &self,
        proven: &VerifiedPeer,
    ) -> Result<Option<AdmissionDecision>, KeysUnreadable> {
        let Ok(name) = MinionId::parse(&proven.id) else {
            return Ok(None);
        };
        if self.keys.api(&name).await? != Some(proven.identity.0) {
            return Ok(None);
        }
        let admission = self.refuse_version(proven);
        Ok(Some(AdmissionDecision {
            principal: Principal::Api(name),
            admission: admission.unwrap_or(Admission::Accepted(())),
        }))
    }

    /// Decides about an API at its first contact. A key that is not known waits for an operator from then on, and takes a
    /// place of the connection's source.
    pub(super) async fn api(&self, proven: &VerifiedPeer, peer: Peer) -> AdmissionDecision {
        let name = match MinionId::parse(&proven.id) {
            Ok(name) => name,
            Err(error) => {
                // Any stranger can cause this line as often as it likes, so only for debugging.
                tracing::debug!("refused {}: {error}", short(&proven.identity));
                return AdmissionDecision::reject_nameless();
            }
        };
        let admission = match self.refuse_version(proven) {
            Some(refused) => refused,
            None => self.api_key(&name, proven, peer).await,
        };
        AdmissionDecision {
            principal: Principal::Api(name),
            admission,
        }
    }

    async fn api_key(&self, name: &MinionId, proven: &VerifiedPeer, peer: Peer) -> Admission<()> {
        let (asked, key, most) = (
            name.clone(),
            proven.identity.0,
            self.settings.now().policy.max_pending,
        );
        let authenticate =
            move |keys: &KeyStore| keys.apis().authenticate(&asked, key, peer.source, most);
        let verdict = match self.keys.with_minions(authenticate).await {
            Some(Ok(verdict)) => verdict,
            Some(Err(error)) => {
                tracing::error!(api = %name, %error, "the key store failed");
                return Admission::Full;
            }
            // The runtime logs why.
            None => return Admission::Full,
        };
        let fingerprint = proven.identity.fingerprint();
        match verdict {
            ApiVerdict::Accepted => Admission::Accepted(()),
            ApiVerdict::Pending { is_new, displaced } => {
                if let Some(displaced) = displaced {
                    tracing::info!(
                        "removed the pending key of API {displaced} for another one: its source has too many of them"
                    );
                }
                if is_new && self.warnings.take() {
                    tracing::warn!(
                        "the key of API {name} at {peer} waits to be accepted: its fingerprint is {fingerprint}; \
                         `saline-key --accept-operator {fingerprint} --api` accepts it"
                    );
                }
                Admission::Pending(None)
            }
            ApiVerdict::AnotherWaits => {
                if self.limiter.allows(name) && self.warnings.take() {
                    tracing::warn!(
                        "refused API {name} at {peer} with the key {fingerprint}: another key waits under this name, which \
                         `saline-key -L` shows"
                    );
                }
                Admission::Denied
            }
            ApiVerdict::Full => Admission::Full,
        }
    }
}
