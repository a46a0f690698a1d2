//! Publications: their topics, keys and numbers, and the signature of a job.
//!
//! A frame is a header, the epoch and the number (8 bytes each, big-endian), and the sealed body. Header, epoch,
//! number and the topic's text are associated data. The header's counter counts over all topics of an epoch,
//! the number in each of them, from 1.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf;
use saline_protocol::transport::Topic;

use super::cipher::Key;
use super::keys::{Identity, verifies};
use super::messages::{Job, SignedJob, encode};

/// Returns the topic of all minions.
pub fn topic_all() -> Topic {
    Topic::parse("job/all").unwrap()
}

/// Returns the topic of one minion: `m/`, and the first half of the SHA-256 of its id.
pub fn topic_of(id: &str) -> Topic {
    let hash = digest(&SHA256, id.as_bytes());
    let hex: String = hash.as_ref()[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Topic::parse(&format!("m/{hex}")).unwrap()
}

/// Derives the key of a session's own publications in an epoch from the key of the master's direction.
pub fn own_key(responder: &[u8; 32], epoch: u64) -> Key {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"saline/1 publications");
    let mut key = [0; 32];
    salt.extract(responder)
        .expand(&[&epoch.to_be_bytes()], hkdf::HKDF_SHA256)
        .unwrap()
        .fill(&mut key)
        .unwrap();
    Key::new(&key)
}

/// Returns the bytes that a master signs.
pub fn signed_bytes(job: &Job) -> Vec<u8> {
    let length = (job.fun.len() as u64).to_be_bytes();
    let call = [&length, job.fun.as_bytes(), &job.arg].concat();
    let bytes = encode(&(
        &job.jid,
        &job.target,
        digest(&SHA256, &call).as_ref(),
        job.created,
        job.expires,
        &job.user,
        &job.claims,
    ));
    [b"saline/1 job", &*bytes].concat()
}

/// Signs a job.
pub fn sign(identity: &Identity, job: Job) -> SignedJob {
    SignedJob {
        signature: identity.sign(&signed_bytes(&job)),
        job,
    }
}

/// Returns a job that `master` has signed.
pub fn verified(master: &[u8; 32], signed: SignedJob) -> Job {
    let bytes = signed_bytes(&signed.job);
    let is_signed = verifies(master, &bytes, &signed.signature);
    assert!(is_signed, "the master has not signed {:?}", signed.job);
    signed.job
}
