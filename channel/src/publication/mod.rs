//! Publications: sealed for everybody or for one minion, numbered, and jobs signed once.
//!
//! A frame is the envelope's header, the epoch and the number (8 bytes each, big-endian) and the
//! sealed body. Header, epoch, number and topic are associated data. The header's counter is the
//! nonce: one counter over all topics of an epoch. Numbers are per epoch and topic, from 1.

mod opener;
mod seal;

use aws_lc_rs::digest::{Context as Digest, SHA256, digest};
use serde::{Deserialize, Serialize};

use super::{Identity, PublicIdentity};
use saline_messages::{GroupKeyMaterial, Job, MinionId, Secrets, SignedJob, encode};
use saline_protocol::transport::Topic;

pub use opener::{Content, Opened, PublicationError, PublicationNumbers, PublicationOpener};
pub use seal::{PublicationKey, PublicationRoot};

/// The topic that every minion subscribes to.
pub fn topic_all() -> Topic {
    Topic::parse("job/all").expect("two segments of letters")
}

/// Returns the topic of one minion: `m/` and the first 16 bytes of the SHA-256 of its id, in
/// hexadecimal.
pub fn topic_of(id: &MinionId) -> Topic {
    let hash = digest(&SHA256, id.as_str().as_bytes());
    let hex: String = hash.as_ref()[..16]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    Topic::parse(&format!("m/{hex}")).expect("two segments of hexadecimal digits")
}

/// The body of a publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every publication is a job, and none is kept"
)]
pub enum Body {
    /// A job to run.
    Job(SignedJob),
    /// The group key of a new epoch. Sent only on a minion's own topic.
    GroupKey(GroupKeyMaterial),
    /// Asks every minion for a heartbeat now.
    HeartbeatRequest,
}

/// An encoded [`Body`], so that one that goes to several minions is encoded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedBody(Vec<u8>);

impl Body {
    /// Encodes the body.
    pub fn encode(&self) -> EncodedBody {
        EncodedBody(encode(self))
    }
}

/// Returns the bytes that the master signs: jid, target, digest of function and arguments, times,
/// user, claims.
fn signed_bytes(job: &Job) -> Vec<u8> {
    let mut digest = Digest::new(&SHA256);
    digest.update(&(job.fun.len() as u64).to_be_bytes());
    digest.update(job.fun.as_bytes());
    digest.update(job.arg.as_packed().as_bytes());
    let mut bytes = b"saline/1 job".to_vec();
    bytes.extend(encode(&(
        &job.jid,
        &job.target,
        digest.finish().as_ref(),
        job.created,
        job.expires,
        &job.user,
        &job.claims,
    )));
    bytes
}

/// Signs a job with the master's identity, once for all minions. Its secrets, if it has any, are put beside it after
/// that: the job has their digests.
pub fn sign_job(identity: &Identity, job: Job) -> SignedJob {
    let signature = identity.sign(&signed_bytes(&job));
    SignedJob {
        job,
        signature,
        secrets: None,
    }
}

/// Signs a job again that one of the `predecessors` of the identity has signed. Any other job is left as it is.
pub fn sign_again(
    identity: &Identity,
    predecessors: &[PublicIdentity],
    mut signed: SignedJob,
) -> SignedJob {
    let bytes = signed_bytes(&signed.job);
    let has_signed = |key: &PublicIdentity| key.verifies(&bytes, &signed.signature);
    if !has_signed(&identity.public()) && predecessors.iter().any(has_signed) {
        signed.signature = identity.sign(&bytes);
    }
    signed
}

/// Whether the identity, or one of its `predecessors`, has signed a job.
pub fn is_signed_by(
    identity: &PublicIdentity,
    predecessors: &[PublicIdentity],
    signed: &SignedJob,
) -> bool {
    let bytes = signed_bytes(&signed.job);
    let mut keys = std::iter::once(identity).chain(predecessors);
    keys.any(|key| key.verifies(&bytes, &signed.signature))
}

/// Returns the job with the values of its secrets, if `master` signed it. The values are compared with their digests
/// when they are [put in](Secrets::put_in).
pub fn verify_job(master: &PublicIdentity, signed: SignedJob) -> Option<(Job, Option<Secrets>)> {
    master
        .verifies(&signed_bytes(&signed.job), &signed.signature)
        .then_some((signed.job, signed.secrets))
}
