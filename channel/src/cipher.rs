//! The cipher of records and publications: AES-256-GCM-SIV (RFC 8452) with a nonce that the header gives.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::{Bytes, BytesMut};

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
    /// associated data. The message takes the place of `plain`, since fresh memory for a large one costs more than the cipher.
    pub(crate) fn seal(
        &self,
        header: &Header,
        clear: &[u8],
        unsent: &[u8],
        plain: impl Into<Vec<u8>>,
    ) -> Bytes {
        let aad = [header.encode().as_slice(), clear, unsent].concat();
        let head = HEADER_LEN + clear.len();
        let mut message = plain.into();
        message.reserve_exact(head + TAG_LEN);
        message.splice(..0, aad[..head].iter().copied());
        let nonce = Nonce::assume_unique_for_key(header.nonce());
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(aad), &mut message[head..])
            .expect("sealing fails only above 64 GiB, and messages are far below");
        message.extend_from_slice(tag.as_ref());
        message.into()
    }

    /// Opens the output of [`seal`](Self::seal), in its own place where nobody else has it.
    pub(crate) fn open(
        &self,
        header: &Header,
        clear: &[u8],
        unsent: &[u8],
        sealed: impl Into<BytesMut>,
    ) -> Result<BytesMut, ChannelError> {
        let aad = [header.encode().as_slice(), clear, unsent].concat();
        let mut plain = sealed.into();
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
