//! Keys as text, readable by every tool that knows PEM (RFC 7468) and Ed25519 in it (RFC 8410).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// The bytes before the 32 bytes of an Ed25519 public key in a SubjectPublicKeyInfo.
pub(super) const PUBLIC_PREFIX: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// The bytes before the 32 bytes of an Ed25519 seed in a PKCS #8 private key.
pub(super) const PRIVATE_PREFIX: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The same prefix for an X25519 public key.
pub(super) const X25519_PUBLIC_PREFIX: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00,
];
/// The same prefix for an X25519 private key.
pub(super) const X25519_PRIVATE_PREFIX: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x04, 0x22, 0x04, 0x20,
];

/// Encodes `prefix` and `key` as one block of `label`.
pub(super) fn encode(label: &str, prefix: &[u8], key: &[u8; 32]) -> String {
    std::mem::take(&mut *encode_private(label, prefix, key))
}

/// Encodes a private key, as [`encode`] a public one; the text is overwritten when it is dropped.
pub(super) fn encode_private(label: &str, prefix: &[u8], key: &[u8; 32]) -> Zeroizing<String> {
    let bytes = Zeroizing::new([prefix, key.as_slice()].concat());
    let body = Zeroizing::new(STANDARD.encode(&*bytes));
    Zeroizing::new(format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        *body
    ))
}

/// Decodes the key in the first block of `label` whose bytes begin with `prefix`.
pub(super) fn decode(label: &str, prefix: &[u8], text: &str) -> Option<[u8; 32]> {
    decode_private(label, prefix, text).map(|key| *key)
}

/// Encodes bytes as one block of `label`.
pub(super) fn encode_block(label: &str, bytes: &[u8]) -> String {
    let body = STANDARD.encode(bytes);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

/// Decodes the bytes in the first block of `label`.
pub(super) fn decode_block(label: &str, text: &str) -> Option<Vec<u8>> {
    let (_, after) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = after.split_once(&format!("-----END {label}-----"))?;
    let base64: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(base64).ok()
}

/// Returns a line that gives a number a name, as it may stand between blocks.
pub(super) fn number_line(name: &str, number: u64) -> String {
    format!("{name}: {number}\n")
}

/// Finds the first line that gives a number this name.
pub(super) fn find_number(name: &str, text: &str) -> Option<u64> {
    let mut numbers = text.lines().filter_map(|line| {
        let (found, number) = line.split_once(": ")?;
        (found == name).then(|| number.trim().parse().ok())?
    });
    numbers.next()
}

/// Decodes a private key, as [`decode`] a public one.
pub(super) fn decode_private(
    label: &str,
    prefix: &[u8],
    text: &str,
) -> Option<Zeroizing<[u8; 32]>> {
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(&begin) {
        let (body, next) = after.split_once(&end)?;
        // With room for all of it, so that it does not grow and leave parts behind.
        let mut base64 = Zeroizing::new(String::with_capacity(body.len()));
        base64.extend(body.chars().filter(|c| !c.is_ascii_whitespace()));
        if let Ok(bytes) = STANDARD.decode(&*base64).map(Zeroizing::new)
            && let Some(found) = bytes.strip_prefix(prefix)
            && found.len() == 32
        {
            let mut key = Zeroizing::new([0; 32]);
            key.copy_from_slice(found);
            return Some(key);
        }
        rest = next;
    }
    None
}
