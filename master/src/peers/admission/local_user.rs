//! Decides about a user of this machine.

use std::sync::Arc;

use saline_channel::noise::VerifiedPeer;
use saline_messages::{Admission, Role};
use saline_protocol::transport::{Peer, Source};

use super::super::local_users;
use super::{AdmissionControl, AdmissionDecision};
use crate::authorize::{Admits, LocalUser, Principal};
use crate::keys::KeysUnreadable;

impl AdmissionControl {
    /// Decides about a user of this machine. The kernel tells which user that is; the keys of the peer do not count.
    pub(super) async fn local_user(&self, proven: &VerifiedPeer, peer: Peer) -> AdmissionDecision {
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
    pub(super) async fn admit_user(&self, user: Arc<LocalUser>) -> AdmissionDecision {
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
    pub(super) async fn look_up(&self, uid: u32) -> Result<Option<LocalUser>, KeysUnreadable> {
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
}
