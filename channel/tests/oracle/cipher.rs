//! Seals records and publications: AES-256-GCM-SIV (RFC 8452), whose nonce is four zero bytes and the header's
//! counter. Also derives the keys of publications, and signs.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::header::Header;

/// A key for one direction of a session, or for the publications of one epoch.
pub struct Key(LessSafeKey);

fn nonce(header: &Header) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&header.counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl Key {
    /// Creates a key of these bytes.
    pub fn new(key: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM_SIV, key).unwrap();
        Self(LessSafeKey::new(key))
    }

    /// Derives the key of a session's own publications in an epoch from the key of the master's direction.
    pub fn of_publications(responder: &[u8; 32], epoch: u64) -> Self {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"saline/1 publications");
        let secret = salt.extract(responder);
        let epoch = [&epoch.to_be_bytes()[..]];
        let mut key = [0; 32];
        let derived = secret.expand(&epoch, hkdf::HKDF_SHA256).unwrap();
        derived.fill(&mut key).unwrap();
        Self::new(&key)
    }

    /// Returns the header, `clear`, and `plain` sealed. `header`, `clear` and `unsent` are associated data.
    pub fn seal(&self, header: &Header, clear: &[u8], unsent: &[u8], plain: &[u8]) -> Vec<u8> {
        let head = [&header.encode(), clear].concat();
        let associated = Aad::from([&head, unsent].concat());
        let mut sealed = plain.to_vec();
        let nonce = nonce(header);
        let done = self
            .0
            .seal_in_place_append_tag(nonce, associated, &mut sealed);
        done.unwrap();
        [head, sealed].concat()
    }

    /// Opens what [`seal`](Self::seal) has sealed.
    pub fn open(&self, header: &Header, clear: &[u8], unsent: &[u8], sealed: &[u8]) -> Vec<u8> {
        let associated = Aad::from([&header.encode(), clear, unsent].concat());
        let mut plain = sealed.to_vec();
        let opened = self.0.open_in_place(nonce(header), associated, &mut plain);
        opened.expect("what the channel sealed opens").to_vec()
    }
}

/// Returns the text of the topic of one minion: `m/`, and the first half of the SHA-256 of its id.
pub fn topic_of(id: &str) -> String {
    let hash = digest(&SHA256, id.as_bytes());
    let half = hash.as_ref()[..16].iter();
    half.fold("m/".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// An Ed25519 key.
pub struct Identity(Ed25519KeyPair);

impl Identity {
    /// Creates the identity of this seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).unwrap())
    }

    /// Returns the public half.
    pub fn public(&self) -> [u8; 32] {
        self.0.public_key().as_ref().try_into().unwrap()
    }

    /// Signs `message`.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

/// Whether `identity` has signed `message`.
pub fn verifies(identity: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    let key = UnparsedPublicKey::new(&ED25519, identity);
    key.verify(message, signature).is_ok()
}

/// Returns the public half of an X25519 key.
pub fn noise_public(private: &[u8; 32]) -> [u8; 32] {
    let key = agreement::PrivateKey::from_private_key(&agreement::X25519, private).unwrap();
    let public = key.compute_public_key().unwrap();
    public.as_ref().try_into().unwrap()
}
