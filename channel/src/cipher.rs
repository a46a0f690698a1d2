//! The cipher of records and publications: AES-256-GCM-SIV (RFC 8452) with a nonce that the header gives.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::{BufMut, Bytes, BytesMut};

use crate::ChannelError;
use saline_messages::{HEADER_LEN, Header};

/// The bytes that sealing adds behind the header.
const TAG_LEN: usize = 16;

/// The bytes that sealing adds to a message, with the header.
pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

/// A key for one direction, or for one epoch of publications.
pub(crate) struct SealKey(LessSafeKey);

impl SealKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM_SIV, key)
            .expect("AES-256-GCM-SIV takes any key of 32 bytes, and that is what the type says");
        Self(LessSafeKey::new(key))
    }

    /// Returns `header`, `clear` and the sealed `plain`; `header`, `clear` and `unsent` are
    /// associated data.
    pub(crate) fn seal(&self, header: &Header, clear: &[u8], unsent: &[u8], plain: &[u8]) -> Bytes {
        let mut message = BytesMut::with_capacity(HEADER_LEN + clear.len() + plain.len() + TAG_LEN);
        message.put_slice(&header.encode());
        message.put_slice(clear);
        let head = message.len();
        let aad = [&message[..], unsent].concat();
        message.put_slice(plain);
        let nonce = Nonce::assume_unique_for_key(header.nonce());
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(aad), &mut message[head..])
            .expect("sealing fails only above 64 GiB, and messages are far below");
        message.put_slice(tag.as_ref());
        message.freeze()
    }

    /// Opens the output of [`seal`](Self::seal).
    pub(crate) fn open(
        &self,
        header: &Header,
        clear: &[u8],
        unsent: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, ChannelError> {
        let aad = [header.encode().as_slice(), clear, unsent].concat();
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(header.nonce());
        let length = self
            .0
            .open_in_place(nonce, Aad::from(aad), &mut plain)
            .map_err(|_| ChannelError::Forged)?
            .len();
        plain.truncate(length);
        Ok(plain)
    }
}
