//! X25519 of aws-lc-rs for the handshakes of snow, whose own takes several times as long.
//!
//! With snow's own, X25519 took more than a third of the CPU time in which ten thousand minions come back. A peer
//! that a busy master turned away sends the same message again: the master has not read it, so nothing needs to be
//! computed again.

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{BoxedCryptoResolver, CryptoResolver, DefaultResolver, FallbackResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroizing;

/// The length of a private key and of a public one in bytes.
const LENGTH: usize = 32;

/// Returns the primitives of a handshake: X25519 of aws-lc-rs, and the rest of snow.
pub(super) fn resolver() -> BoxedCryptoResolver {
    Box::new(FallbackResolver::new(
        Box::new(X25519Resolver),
        Box::new(DefaultResolver),
    ))
}

/// Resolves X25519 alone.
struct X25519Resolver;

impl CryptoResolver for X25519Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        None
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::<X25519KeyPair>::default()),
            _ => None,
        }
    }

    fn resolve_hash(&self, _: &HashChoice) -> Option<Box<dyn Hash>> {
        None
    }

    fn resolve_cipher(&self, _: &CipherChoice) -> Option<Box<dyn Cipher>> {
        None
    }
}

/// A key pair of a handshake: the static or the ephemeral one. What aws-lc-rs holds of it is overwritten by
/// aws-lc-rs.
#[derive(Default)]
struct X25519KeyPair {
    /// None before a key is set.
    key: Option<PrivateKey>,
    private: Zeroizing<[u8; LENGTH]>,
    public: [u8; LENGTH],
}

impl X25519KeyPair {
    fn take_private(&mut self, private: Zeroizing<[u8; LENGTH]>) -> Option<()> {
        let key = PrivateKey::from_private_key(&X25519, &*private).ok()?;
        self.public = key.compute_public_key().ok()?.as_ref().try_into().ok()?;
        self.key = Some(key);
        self.private = private;
        Some(())
    }
}

impl Dh for X25519KeyPair {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        LENGTH
    }

    fn priv_len(&self) -> usize {
        LENGTH
    }

    /// A private key of another length leaves none, so that every agreement fails.
    fn set(&mut self, private: &[u8]) {
        let taken = <[u8; LENGTH]>::try_from(private).ok();
        if taken
            .and_then(|bytes| self.take_private(Zeroizing::new(bytes)))
            .is_none()
        {
            *self = Self::default();
        }
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        let mut private = Zeroizing::new([0; LENGTH]);
        rng.try_fill_bytes(&mut *private)?;
        self.take_private(private).ok_or(Error::Dh)
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.private
    }

    /// Refuses a public key of small order, with which everybody would know the secret.
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let key = self.key.as_ref().ok_or(Error::Dh)?;
        // snow's buffers are longer than a key.
        let public = public.get(..LENGTH).ok_or(Error::Dh)?;
        let out = out.get_mut(..LENGTH).ok_or(Error::Dh)?;
        let public = UnparsedPublicKey::new(&X25519, public);
        agreement::agree(key, public, Error::Dh, |secret| {
            out.copy_from_slice(secret);
            Ok(())
        })
    }
}
