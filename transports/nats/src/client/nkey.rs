//! Keys of NATS: Ed25519 keys in Base32, with a prefix that says whose they are and a checksum.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

/// The alphabet of Base32 (RFC 4648).
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The prefix of a seed, whatever it is of: its text begins with `S`.
const SEED: u8 = 18 << 3;

/// The prefix of a user: its text begins with `U`.
const USER: u8 = 20 << 3;

/// The bytes of a seed, and of a public key, without prefix and checksum.
const SEED_BYTES: usize = 32;

/// A text is not the seed of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NkeyError {
    #[error("it is not a seed: one has 58 letters and digits, and begins with SU")]
    Malformed,
    #[error("its checksum is wrong: a letter is missing or mistyped")]
    Checksum,
    #[error("it is the seed of an operator, an account or a server, and not of a user")]
    NotOfUser,
}

/// The key pair of a user.
#[derive(Debug)]
pub(crate) struct Nkey {
    pair: Ed25519KeyPair,
}

impl Nkey {
    /// Reads a seed.
    ///
    /// # Errors
    /// When it is not the seed of a user.
    pub(crate) fn of_seed(text: &str) -> Result<Self, NkeyError> {
        let bytes = decode(text).ok_or(NkeyError::Malformed)?;
        let body = bytes.len().checked_sub(2).ok_or(NkeyError::Malformed)?;
        let (body, sum) = bytes.split_at(body);
        let [first, second, seed @ ..] = body else {
            return Err(NkeyError::Malformed);
        };
        if first & 0xf8 != SEED || seed.len() != SEED_BYTES {
            return Err(NkeyError::Malformed);
        }
        if checksum(body).to_le_bytes() != sum {
            return Err(NkeyError::Checksum);
        }
        // The prefix of whose seed it is stands across two bytes.
        if (first << 5) | (second >> 3) != USER {
            return Err(NkeyError::NotOfUser);
        }
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        let pair = pair.map_err(|_| NkeyError::Malformed)?;
        Ok(Self { pair })
    }

    /// Returns the public key, as servers write it: it begins with `U`.
    pub(crate) fn public(&self) -> String {
        let mut bytes = vec![USER];
        bytes.extend_from_slice(self.pair.public_key().as_ref());
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        encode(&bytes)
    }

    /// Signs the nonce of a server, and returns the signature as `CONNECT` has it.
    pub(crate) fn sign(&self, nonce: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.sign(nonce.as_bytes()))
    }
}

/// Whether a text is the public key of a user, with a checksum that fits.
pub(crate) fn is_public_key(text: &str) -> bool {
    let Some(bytes) = decode(text) else {
        return false;
    };
    let Some((body, sum)) = bytes.split_at_checked(1 + SEED_BYTES) else {
        return false;
    };
    body.first() == Some(&USER) && checksum(body).to_le_bytes() == sum
}

/// Returns the bytes of a text in Base32 without padding; none when it is none.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() * 5 / 8));
    let (mut bits, mut count) = (0u32, 0u32);
    for letter in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)?;
        bits = (bits << 5) | u32::try_from(value).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
            bits &= (1 << count) - 1;
        }
    }
    // What is left over is less than a letter, and nothing.
    (count < 5 && bits == 0).then_some(bytes)
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut bits, mut count) = (0u32, 0u32);
    for byte in bytes {
        bits = (bits << 8) | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(letter(bits >> count));
            bits &= (1 << count) - 1;
        }
    }
    if count > 0 {
        text.push(letter(bits << (5 - count)));
    }
    text
}

fn letter(value: u32) -> char {
    // Of 32 letters, by a number below 32.
    char::from(ALPHABET[value as usize & 31])
}

/// Returns the checksum of `bytes`: CRC-16 with the polynomial 0x1021, beginning at 0 (XMODEM).
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0u16, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| match sum >> 15 {
            1 => (sum << 1) ^ 0x1021,
            _ => sum << 1,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An example of NATS's documentation.
    const EXAMPLE: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

    #[test]
    fn the_public_key_is_that_of_the_seed() {
        assert_eq!(Nkey::of_seed(EXAMPLE).unwrap().public(), PUBLIC);
    }

    #[test]
    fn a_public_key_is_told_from_a_name() {
        assert!(is_public_key(PUBLIC));
        let mistyped = PUBLIC.replacen('X', "Y", 1);
        for other in ["", "UMBRELLA", "web1", EXAMPLE, &mistyped, &PUBLIC[..54]] {
            assert!(!is_public_key(other), "{other}");
        }
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
    }

    #[test]
    fn what_is_no_seed_of_a_user_is_told_apart() {
        let refused = |text: &str| Nkey::of_seed(text).unwrap_err();
        assert_eq!(refused(""), NkeyError::Malformed);
        assert_eq!(refused(PUBLIC), NkeyError::Malformed);
        assert_eq!(refused(&EXAMPLE[..57]), NkeyError::Malformed);
        assert_eq!(refused(&EXAMPLE.to_lowercase()), NkeyError::Malformed);
        assert_eq!(refused(&EXAMPLE.replace("XKF", "XKG")), NkeyError::Checksum);
        let mut account = decode(EXAMPLE).unwrap().to_vec();
        account.truncate(34);
        account[0] = SEED;
        account[1] = 0;
        let sum = checksum(&account);
        account.extend(sum.to_le_bytes());
        assert_eq!(refused(&encode(&account)), NkeyError::NotOfUser);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let decoded = decode(&encode(&bytes)).map(|bytes| bytes.to_vec());
            prop_assert_eq!(decoded, Some(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,70}") {
            let _ = Nkey::of_seed(&text);
        }
    }
}
