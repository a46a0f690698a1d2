//! Secrets of jobs as they are stored: sealed under a key that is kept in another place.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use saline_messages::random::{self, NoRandomness};
use saline_messages::{Jid, Secrets, decode, encode};

/// The key under which a master stores the secrets of its jobs.
pub struct SecretsKey(LessSafeKey);

impl SecretsKey {
    /// The length of the key in bytes.
    pub const LEN: usize = 32;

    /// Takes the bytes of a key.
    pub fn new(bytes: &[u8; Self::LEN]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM_SIV, bytes)
            .expect("AES-256-GCM-SIV takes any key of 32 bytes, and that is what the type says");
        Self(LessSafeKey::new(key))
    }

    /// Seals the secrets of a job: the nonce, and what is sealed with it. They open for this job alone.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn seal(&self, jid: &Jid, secrets: &Secrets) -> Result<Vec<u8>, NoRandomness> {
        let nonce: [u8; NONCE_LEN] = random::bytes()?;
        let mut sealed = encode(secrets);
        self.0
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(jid.as_str()),
                &mut sealed,
            )
            .expect("sealing fails only above 64 GiB, and messages are far below");
        Ok([&nonce, sealed.as_slice()].concat())
    }

    /// Opens what was [sealed](Self::seal); none if it was sealed under another key, or for another job.
    pub fn open(&self, jid: &Jid, sealed: &[u8]) -> Option<Secrets> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self
            .0
            .open_in_place(nonce, Aad::from(jid.as_str()), &mut plain);
        decode(opened.ok()?).ok()
    }
}

impl fmt::Debug for SecretsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretsKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_messages::{ArgumentPlace, Arguments};

    #[test]
    fn what_is_sealed_opens_with_its_key_for_its_job_alone() {
        let jid = |text| Jid::parse(text).unwrap();
        let (own, other) = (jid("20261121091409931549"), jid("20261121091409931550"));
        let values = vec![(ArgumentPlace::named("password"), "correct horse".into())];
        let secrets = Secrets::set_apart(&mut Arguments::default(), values);
        let secrets = secrets.unwrap().unwrap();
        let key = SecretsKey::new(&[1; 32]);
        let sealed = key.seal(&own, &secrets).unwrap();
        assert_ne!(sealed, key.seal(&own, &secrets).unwrap());
        assert!(!sealed.windows(7).any(|part| part == b"correct"));
        assert_eq!(key.open(&own, &sealed), Some(secrets));
        assert_eq!(key.open(&other, &sealed), None);
        assert_eq!(SecretsKey::new(&[2; 32]).open(&own, &sealed), None);
        for cut in 0..sealed.len() {
            assert_eq!(key.open(&own, &sealed[..cut]), None);
        }
    }
}
