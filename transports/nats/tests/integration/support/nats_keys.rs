//! Keys and JWTs of NATS, made as its tools make them.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Whose a key is: the prefix of its public key.
#[derive(Clone, Copy)]
pub enum Kind {
    Operator = 14 << 3,
    Account = 0,
    User = 20 << 3,
}

/// A key pair, made of one byte.
pub struct Key {
    kind: Kind,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl Key {
    pub fn new(kind: Kind, of: u8) -> Self {
        let seed = [of; 32];
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        Self { kind, seed, pair }
    }

    pub fn public(&self) -> String {
        let mut bytes = vec![self.kind as u8];
        bytes.extend_from_slice(self.pair.public_key().as_ref());
        encode(bytes)
    }

    pub fn seed(&self) -> String {
        let kind = self.kind as u8;
        let mut bytes = vec![(18 << 3) | (kind >> 5), kind << 3];
        bytes.extend_from_slice(&self.seed);
        encode(bytes)
    }

    /// Returns a JWT about `subject`, which this key signs.
    pub fn jwt(&self, name: &str, subject: &Self, nats: Value) -> String {
        let part = |json: Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let header = part(json!({"typ": "JWT", "alg": "ed25519-nkey"}));
        let claims = part(json!({
            "jti": "X", "iat": 1_700_000_000, "iss": self.public(), "name": name,
            "sub": subject.public(), "nats": nats,
        }));
        let signed = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

fn encode(mut bytes: Vec<u8>) -> String {
    let mut sum = 0u16;
    for byte in &bytes {
        sum ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            sum = (sum << 1) ^ if sum & 0x8000 == 0 { 0 } else { 0x1021 };
        }
    }
    bytes.extend(sum.to_le_bytes());
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1))
        .collect();
    let letter = |bits: &[u8]| {
        let value = (0..5).fold(0, |value, bit| value << 1 | bits.get(bit).unwrap_or(&0));
        char::from(ALPHABET[usize::from(value)])
    };
    bits.chunks(5).map(letter).collect()
}

/// A configuration of a server with an operator, and a file of credentials for a user of its account.
pub fn operator_mode(user: &str) -> (String, String) {
    let operator = Key::new(Kind::Operator, 1);
    let account = Key::new(Kind::Account, 2);
    let key = Key::new(Kind::User, 3);
    let of_operator = json!({"type": "operator", "version": 2});
    let of_account = json!({
        "type": "account", "version": 2,
        "limits": {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
                   "wildcards": true, "conn": -1, "leaf": -1},
    });
    let of_user = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1,
                         "pub": {}, "sub": {}});
    let configuration = format!(
        "operator: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {} }}\n",
        operator.jwt("O", &operator, of_operator),
        account.public(),
        operator.jwt("A", &account, of_account),
    );
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        account.jwt(user, &key, of_user),
        key.seed(),
    );
    (configuration, credentials)
}
