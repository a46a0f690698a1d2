//! A peer that keeps to Noise and to nothing else: it puts what it likes into a handshake. It is written
//! from the description of the wire, not with Saline's own initiator and responder.

use saline_channel::{Identity, NoiseKey};
use saline_messages::{Introduction, Role, decode, encode};
use snow::{Builder, HandshakeState};

const XX: &str = "Noise_XX_25519_AESGCM_SHA256";
const IK: &str = "Noise_IK_25519_AESGCM_SHA256";

/// The role in the introduction of a master.
pub(crate) const MASTER: u8 = 0;
/// The role in the introduction of a minion.
pub(crate) const MINION: u8 = Role::Minion as u8;

/// Returns the prologue of a minion's handshake over a link without a certificate.
fn prologue() -> Vec<u8> {
    [&b"saline/1"[..], &[MINION], &[0; 32]].concat()
}

const VALID: &str = "the patterns and keys are valid";

/// Begins XX as an initiator.
pub(crate) fn first(private: &[u8; 32]) -> HandshakeState {
    let (pattern, prologue) = (XX.parse().expect(VALID), prologue());
    let builder = Builder::new(pattern).local_private_key(private);
    let builder = builder.expect(VALID).prologue(&prologue).expect(VALID);
    builder.build_initiator().expect(VALID)
}

/// Begins XX as a responder.
pub(crate) fn first_reply(private: &[u8; 32]) -> HandshakeState {
    let (pattern, prologue) = (XX.parse().expect(VALID), prologue());
    let builder = Builder::new(pattern).local_private_key(private);
    let builder = builder.expect(VALID).prologue(&prologue).expect(VALID);
    builder.build_responder().expect(VALID)
}

/// Begins IK as an initiator.
pub(crate) fn resume(private: &[u8; 32], master: &[u8; 32]) -> HandshakeState {
    let (pattern, prologue) = (IK.parse().expect(VALID), prologue());
    let builder = Builder::new(pattern).local_private_key(private);
    let builder = builder.expect(VALID).prologue(&prologue).expect(VALID);
    let builder = builder.remote_public_key(master).expect(VALID);
    builder.build_initiator().expect(VALID)
}

/// Writes the next message with this payload; none when Noise has no room for it.
pub(crate) fn write(state: &mut HandshakeState, payload: &[u8]) -> Option<Vec<u8>> {
    let mut message = vec![0; payload.len() + 256];
    let length = state.write_message(payload, &mut message).ok()?;
    message.truncate(length);
    Some(message)
}

/// Reads the next message of an honest peer.
pub(crate) fn read(state: &mut HandshakeState, message: &[u8]) {
    let mut payload = vec![0; message.len()];
    state
        .read_message(message, &mut payload)
        .expect("an honest peer's message is read");
}

/// Returns the introduction in `payload` as one that this identity vouches for; none when it is none.
pub(crate) fn vouched_for(
    payload: &[u8],
    role: u8,
    identity: &Identity,
    noise: &NoiseKey,
) -> Option<Introduction> {
    let mut introduction: Introduction = decode(payload).ok()?;
    let id = introduction.id.as_bytes();
    let issued = introduction.issued.to_be_bytes();
    let vouched = [
        b"saline/1 noise key",
        &[role][..],
        &noise.public(),
        &issued,
        id,
    ]
    .concat();
    introduction.identity = identity.public().0;
    introduction.signature = identity.sign(&vouched);
    // What goes round is what is sent.
    decode(&encode(&introduction)).ok()
}
