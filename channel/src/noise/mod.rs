//! The Noise handshakes: XX at first contact, IK when the initiator knows the master.
//!
//! Noise only agrees on keys: its split becomes the two record keys of the session. The prologue
//! binds both ends to the requested role and to the certificate of the connection.

mod initiator;
mod responder;
mod x25519;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use snow::{Builder, HandshakeState};
use zeroize::Zeroize;

use super::{ChannelError, Identity, NoiseKey, PresentedToken, PublicIdentity};
use saline_messages::{
    Extension, Introduction, ProtocolVersions, Role, SOFTWARE, decode, encode, is_presentable,
};

pub use initiator::{FirstContact, InitiatorKeys, MetMaster, Resumption};
pub use responder::{PendingHandshake, Responder, Resuming};

const XX: &str = "Noise_XX_25519_AESGCM_SHA256";
const IK: &str = "Noise_IK_25519_AESGCM_SHA256";

/// The longest handshake message that is read. Noise itself allows 65,535.
pub const MAX_HANDSHAKE: usize = 4096;

/// The two keys that a handshake has agreed on, one for each direction. They are overwritten when they are
/// dropped.
pub struct SplitKeys {
    /// The key for messages of the initiator.
    pub initiator: [u8; 32],
    /// The key for messages of the responder, which is the master.
    pub responder: [u8; 32],
}

impl Drop for SplitKeys {
    fn drop(&mut self) {
        self.initiator.zeroize();
        self.responder.zeroize();
    }
}

/// The proven peer of a handshake.
#[derive(Debug, Clone)]
pub struct VerifiedPeer {
    /// The requested role.
    pub role: Role,
    /// The name that the peer claims; not checked yet.
    pub id: String,
    /// The identity, which vouches for the Noise key.
    pub identity: PublicIdentity,
    /// The Noise key.
    pub noise: [u8; 32],
    /// When the identity vouched for it, in nanoseconds since 1970.
    pub issued: u64,
    /// The protocol versions that the peer speaks.
    pub versions: ProtocolVersions,
    /// The version of its software, as it tells it.
    pub software: String,
    /// When it began the handshake, in nanoseconds since 1970 by its own clock; none when it did not say.
    pub attempted: Option<u64>,
    /// The token that came with a first contact.
    pub token: Option<PresentedToken>,
}

fn prologue(role: Role, certificate: Option<[u8; 32]>) -> Vec<u8> {
    let mut bytes = b"saline/1".to_vec();
    bytes.push(role as u8);
    bytes.extend(certificate.unwrap_or_default());
    bytes
}

fn builder<'a>(
    pattern: &str,
    key: &'a NoiseKey,
    prologue: &'a [u8],
) -> Result<Builder<'a>, ChannelError> {
    let parameters = pattern.parse().map_err(ChannelError::Noise)?;
    Ok(Builder::with_resolver(parameters, x25519::resolver())
        .local_private_key(&*key.private)?
        .prologue(prologue)?)
}

fn vouched(role: u8, id: &str, noise: &[u8; 32], issued: u64) -> Vec<u8> {
    let mut bytes = b"saline/1 noise key".to_vec();
    bytes.push(role);
    bytes.extend(noise);
    bytes.extend(issued.to_be_bytes());
    bytes.extend(id.as_bytes());
    bytes
}

/// The role byte in a master's own introduction.
const MASTER: u8 = 0;

fn introduce(
    identity: &Identity,
    role: u8,
    id: &str,
    noise: &NoiseKey,
    versions: ProtocolVersions,
    extensions: Vec<Extension>,
) -> Vec<u8> {
    encode(&Introduction {
        id: id.to_owned(),
        identity: identity.public().0,
        issued: noise.issued(),
        signature: identity.sign(&vouched(role, id, &noise.public(), noise.issued())),
        versions,
        software: SOFTWARE.to_owned(),
        extensions,
    })
}

fn check_introduction(
    state: &HandshakeState,
    role: u8,
    payload: &[u8],
) -> Result<(Introduction, [u8; 32]), ChannelError> {
    let introduction: Introduction = decode(payload)?;
    if !is_presentable(&introduction.software) {
        return Err(ChannelError::Mismatch);
    }
    let noise: [u8; 32] = state
        .get_remote_static()
        .and_then(|key| key.try_into().ok())
        .ok_or(ChannelError::NotVouched)?;
    let identity = PublicIdentity(introduction.identity);
    if !identity.verifies(
        &vouched(role, &introduction.id, &noise, introduction.issued),
        &introduction.signature,
    ) {
        return Err(ChannelError::NotVouched);
    }
    Ok((introduction, noise))
}

fn write(state: &mut HandshakeState, payload: &[u8]) -> Result<Vec<u8>, ChannelError> {
    let mut message = vec![0; payload.len() + 256];
    let length = state.write_message(payload, &mut message)?;
    message.truncate(length);
    Ok(message)
}

fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, ChannelError> {
    let mut payload = vec![0; message.len()];
    let length = state.read_message(message, &mut payload)?;
    payload.truncate(length);
    Ok(payload)
}

fn split(mut state: HandshakeState) -> SplitKeys {
    let (initiator, responder) = state.dangerously_get_raw_split();
    SplitKeys {
        initiator,
        responder,
    }
}

/// Computes the first 32 bytes of a `Resume`: HMAC-SHA256 keyed by the master's Noise key, so that
/// a stranger who does not know the master cannot make it do any X25519. After WireGuard's mac1.
fn resume_mac(master_noise: &[u8; 32], rest: &[u8]) -> hmac::Tag {
    hmac::sign(&resume_mac_key(master_noise), rest)
}

fn resume_mac_key(master_noise: &[u8; 32]) -> hmac::Key {
    let secret = digest(
        &SHA256,
        &[b"saline/1 resume".as_slice(), master_noise].concat(),
    );
    hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref())
}

#[cfg(test)]
mod tests;
