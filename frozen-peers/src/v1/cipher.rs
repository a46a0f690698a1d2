//! What seals records and publications: AES-256-GCM-SIV (RFC 8452), whose nonce is four zero bytes and the header's counter.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;

use super::header::Header;

/// A key for one direction of a session, or for the publications of one epoch.
#[derive(Debug)]
pub struct Key(LessSafeKey);

fn nonce(header: &Header) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&header.counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl Key {
    /// Creates a key of these bytes.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(LessSafeKey::new(
            UnboundKey::new(&AES_256_GCM_SIV, key).unwrap(),
        ))
    }

    /// Returns the header, `clear`, and `plain` sealed. `header`, `clear` and `unsent` are associated data.
    pub fn seal(&self, header: &Header, clear: &[u8], unsent: &[u8], plain: &[u8]) -> Bytes {
        let head = [&header.encode(), clear].concat();
        let associated = Aad::from([&head, unsent].concat());
        let mut sealed = plain.to_vec();
        self.0
            .seal_in_place_append_tag(nonce(header), associated, &mut sealed)
            .unwrap();
        [head, sealed].concat().into()
    }

    /// Opens what was sealed so; none if it does not open.
    pub fn open(
        &self,
        header: &Header,
        clear: &[u8],
        unsent: &[u8],
        sealed: &[u8],
    ) -> Option<Vec<u8>> {
        let associated = Aad::from([&header.encode(), clear, unsent].concat());
        let mut plain = sealed.to_vec();
        let opened = self
            .0
            .open_in_place(nonce(header), associated, &mut plain)
            .ok()?;
        let length = opened.len();
        plain.truncate(length);
        Some(plain)
    }
}
