//! Signs stored jobs again when they are handed out by a master whose identity has been rotated since.

use std::sync::Arc;

use saline_channel::publication::{is_signed_by, sign_again};
use saline_channel::{Identity, PublicIdentity};
use saline_messages::SignedJob;

/// Signs the jobs that a predecessor of the master's identity has signed. Minions accept only jobs that the present identity has
/// signed, so that a replaced key is useless. A stored job without a valid signature stays as it is, and no minion runs it.
#[derive(Debug, Clone)]
pub(crate) struct JobSigner {
    pub(crate) identity: Arc<Identity>,
    pub(crate) predecessors: Arc<[PublicIdentity]>,
}

impl JobSigner {
    /// Returns the job with a signature that minions accept.
    pub(crate) fn sign_again(&self, signed: SignedJob) -> SignedJob {
        match self.predecessors.is_empty() {
            true => signed,
            false => sign_again(&self.identity, &self.predecessors, signed),
        }
    }

    /// Returns whether the identity, or one from which minions follow to it, has signed a job.
    pub(crate) fn is_followed(&self, signed: &SignedJob) -> bool {
        is_signed_by(&self.identity.public(), &self.predecessors, signed)
    }
}
