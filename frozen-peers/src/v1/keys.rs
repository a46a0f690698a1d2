//! Identities (Ed25519), Noise keys (X25519), and the files that hold them: PEM, after RFC 8410.

use std::path::Path;

use aws_lc_rs::agreement;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::random;

const ED25519_PRIVATE: [u8; 16] =
    *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const ED25519_PUBLIC: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
const X25519_PUBLIC: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x6e\x03\x21\x00";

/// An Ed25519 key.
#[derive(Debug)]
pub struct Identity(Ed25519KeyPair);

impl Identity {
    /// Creates a random identity.
    pub fn generate() -> Self {
        Self::from_seed(&random())
    }

    /// Creates the identity of this seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).unwrap())
    }

    /// Reads a private key.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        Self::from_seed(&key_of(&text, &ED25519_PRIVATE).unwrap())
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

/// An X25519 key.
#[derive(Debug, Clone)]
pub struct NoiseKey {
    /// The private half.
    pub private: [u8; 32],
    /// The public half.
    pub public: [u8; 32],
}

impl NoiseKey {
    /// Creates a random key.
    pub fn generate() -> Self {
        Self::from_private(random())
    }

    /// Creates the key with this private half.
    pub fn from_private(private: [u8; 32]) -> Self {
        let key = agreement::PrivateKey::from_private_key(&agreement::X25519, &private).unwrap();
        let public = key.compute_public_key().unwrap().as_ref().try_into();
        Self {
            private,
            public: public.unwrap(),
        }
    }
}

/// The public keys of a master: `identity.pub`, two PEM blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterKeys {
    /// The identity.
    pub identity: [u8; 32],
    /// The Noise key.
    pub noise: [u8; 32],
}

impl MasterKeys {
    /// Reads both keys.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        Self {
            identity: key_of(&text, &ED25519_PUBLIC).unwrap(),
            noise: key_of(&text, &X25519_PUBLIC).unwrap(),
        }
    }
}

/// Returns the key in the PEM block of `text` whose bytes begin with `prefix`.
fn key_of(text: &str, prefix: &[u8]) -> Option<[u8; 32]> {
    let blocks = text.split("-----BEGIN ").skip(1);
    let bytes = blocks.map(|block| {
        let (_, rest) = block.split_once("-----\n").unwrap();
        let (base64, _) = rest.split_once("-----END").unwrap();
        STANDARD.decode(base64.replace('\n', "")).unwrap()
    });
    bytes
        .filter_map(|bytes| bytes.strip_prefix(prefix)?.try_into().ok())
        .next()
}
