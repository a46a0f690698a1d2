//! An independent implementation of the header, the handshakes, and the seal of records and publications, with which
//! the channel has to agree. It is written from what the wire says, and shares no code with the channel: what both
//! sides of the channel do wrong alike fails here.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod cipher;
mod handshake;
mod header;
mod known_answers;
mod sessions;

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use saline_channel::{Identity, NoiseKey};

/// What stands in front of the 32 bytes of a private key (PKCS #8, RFC 8410), but for the last byte of its algorithm.
const PRIVATE: [u8; 8] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06";

fn write_key(path: &Path, algorithm: u8, key: [u8; 32]) {
    let middle = [0x03, 0x2b, 0x65, algorithm, 0x04, 0x22, 0x04, 0x20];
    let base64 = STANDARD.encode([&PRIVATE[..], &middle, &key].concat());
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).mode(0o600).open(path);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{base64}\n-----END PRIVATE KEY-----\n");
    file.unwrap().write_all(pem.as_bytes()).unwrap();
}

/// Returns the channel's form of an identity of this seed, and of this Noise key.
fn channel_keys(seed: [u8; 32], noise: [u8; 32]) -> (Identity, NoiseKey) {
    let folder = tempfile::tempdir().unwrap();
    write_key(&folder.path().join("identity.key"), 0x70, seed);
    write_key(&folder.path().join("noise.key"), 0x6e, noise);
    let identity = Identity::load(folder.path()).unwrap();
    (identity, NoiseKey::load_or_create(folder.path()).unwrap())
}

#[test]
fn the_oracle_shares_no_code_with_the_channel() {
    for file in [
        include_str!("cipher.rs"),
        include_str!("handshake.rs"),
        include_str!("header.rs"),
    ] {
        let mut code = file.lines().filter(|line| !line.trim().starts_with("//"));
        assert_eq!(code.find(|line| line.contains("saline_")), None);
    }
}
