//! The keys of publications: the group key of an epoch, and a session's own keys.

use std::fmt;

use aws_lc_rs::hkdf;
use bytes::Bytes;
use zeroize::Zeroizing;

use super::EncodedBody;
use crate::cipher::SealKey;
use saline_messages::{Class, GroupKeyMaterial, Header, Kind, SessionId};
use saline_protocol::transport::Topic;

/// Seals publications of one epoch: under the group key, or under a session's own key.
pub struct PublicationKey {
    epoch: u64,
    pub(super) key: SealKey,
}

impl PublicationKey {
    /// Returns the key of `job/all` in an epoch.
    pub fn group(material: &GroupKeyMaterial) -> Self {
        Self {
            epoch: material.epoch,
            key: SealKey::new(&material.key),
        }
    }

    /// Seals `body` as publication `number` on `topic`. `counter` must never have been used in this
    /// epoch; `session` is zero under the group key.
    pub fn seal(
        &self,
        topic: &Topic,
        session: SessionId,
        counter: u64,
        number: u64,
        body: &EncodedBody,
    ) -> Bytes {
        let header = Header {
            kind: Kind::Publication,
            session,
            class: Class::Event,
            counter,
        };
        let mut clear = [0; 16];
        clear[..8].copy_from_slice(&self.epoch.to_be_bytes());
        clear[8..].copy_from_slice(&number.to_be_bytes());
        self.key
            .seal(&header, &clear, topic.as_str().as_bytes(), &body.0[..])
    }
}

impl fmt::Debug for PublicationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicationKey(epoch {:016x})", self.epoch)
    }
}

/// Derives a session's own publication keys: HKDF of the master's direction with the epoch.
pub struct PublicationRoot(hkdf::Prk);

impl PublicationRoot {
    pub(crate) fn new(responder: &[u8; 32]) -> Self {
        Self(hkdf::Salt::new(hkdf::HKDF_SHA256, b"saline/1 publications").extract(responder))
    }

    /// Returns the key of an epoch.
    pub fn key(&self, epoch: u64) -> PublicationKey {
        let mut key = Zeroizing::new([0; 32]);
        self.0
            .expand(&[&epoch.to_be_bytes()], hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(&mut *key))
            .expect("HKDF gives up to 255 hashes, and this is one");
        PublicationKey {
            epoch,
            key: SealKey::new(&key),
        }
    }
}

impl fmt::Debug for PublicationRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicationRoot")
    }
}
