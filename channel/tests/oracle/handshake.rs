//! Noise XX at a first contact and IK afterwards, from both sides.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use serde::{Deserialize, Serialize};
use snow::{Builder, HandshakeState};

use super::cipher::{Identity, noise_public, verifies};

const XX: &str = "Noise_XX_25519_AESGCM_SHA256";
const IK: &str = "Noise_IK_25519_AESGCM_SHA256";

/// The byte of a master in its own introduction.
pub const MASTER: u8 = 0;

/// The byte of a minion.
pub const MINION: u8 = 1;

/// The number of the extension that says when a handshake began: nanoseconds since 1970, 8 bytes, big-endian.
pub const ATTEMPT_TIME: u16 = 1;

/// The number of the extension by which a master names the identities that it had before.
pub const SUCCESSORS: u16 = 2;

/// Returns the record by which an identity signs that another one takes its place: both public keys and the signature.
pub fn successor(predecessor: &Identity, identity: &[u8; 32]) -> Vec<u8> {
    let both = [predecessor.public(), *identity].concat();
    let signature = predecessor.sign(&[b"saline/1 successor of a master", &both[..]].concat());
    [both, signature].concat()
}

/// What both sides say of themselves inside the handshake, field by field as on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    pub id: String,
    pub identity: [u8; 32],
    /// When the identity vouched for the Noise key, in nanoseconds since 1970.
    pub issued: u64,
    pub signature: Vec<u8>,
    /// The lowest and the highest protocol version.
    pub versions: (u16, u16),
    pub software: String,
    /// Numbers and contents.
    pub extensions: Vec<(u16, Vec<u8>)>,
}

/// One side of a handshake.
pub struct Side {
    /// [`MASTER`] or [`MINION`].
    pub role: u8,
    /// A minion's id; empty for a master.
    pub id: &'static str,
    pub identity: Identity,
    /// The private half of the Noise key.
    pub noise: [u8; 32],
    /// When the identity vouched for it.
    pub issued: u64,
    pub extensions: Vec<(u16, Vec<u8>)>,
}

/// The keys that a handshake agrees on: of what the connecting side sends, and of what the master sends.
pub type Split = ([u8; 32], [u8; 32]);

/// The other side of a handshake: what it says, and its Noise key.
pub type Peer = (Introduction, [u8; 32]);

fn vouched(role: u8, noise: &[u8; 32], issued: u64, id: &str) -> Vec<u8> {
    let issued = issued.to_be_bytes();
    [
        b"saline/1 noise key",
        &[role][..],
        noise,
        &issued,
        id.as_bytes(),
    ]
    .concat()
}

fn prologue(role: u8, certificate: Option<[u8; 32]>) -> Vec<u8> {
    [b"saline/1", &[role][..], &certificate.unwrap_or_default()].concat()
}

impl Side {
    fn introduction(&self) -> Vec<u8> {
        let vouched = vouched(self.role, &noise_public(&self.noise), self.issued, self.id);
        let introduction = Introduction {
            id: self.id.to_owned(),
            identity: self.identity.public(),
            issued: self.issued,
            signature: self.identity.sign(&vouched),
            versions: (1, 1),
            software: "1.0.0".to_owned(),
            extensions: self.extensions.clone(),
        };
        postcard::to_stdvec(&introduction).unwrap()
    }

    fn builder<'b>(&'b self, pattern: &str, prologue: &'b [u8]) -> Builder<'b> {
        let builder = Builder::new(pattern.parse().unwrap());
        let builder = builder.local_private_key(&self.noise).unwrap();
        builder.prologue(prologue).unwrap()
    }

    /// Begins a first contact. Also returns the handshake message of a `First`.
    pub fn begin_first(&self, certificate: Option<[u8; 32]>) -> (HandshakeState, Vec<u8>) {
        let prologue = prologue(self.role, certificate);
        let mut state = self.builder(XX, &prologue).build_initiator().unwrap();
        let message = write(&mut state, &[]);
        (state, [&[self.role], &*message].concat())
    }

    /// Reads the body of a `FirstReply`. Returns the master, the body of a `FirstFinish`, and the keys.
    pub fn finish_first(&self, mut state: HandshakeState, reply: &[u8]) -> (Peer, Vec<u8>, Split) {
        let payload = read(&mut state, reply);
        let master = prove(&state, MASTER, &payload);
        let message = write(&mut state, &self.introduction());
        (master, message, split(state))
    }

    /// Begins a session with a known master. Also returns the body of a `Resume`: a MAC that only who knows the
    /// master can make, the role, and the handshake message.
    pub fn begin_resume(
        &self,
        certificate: Option<[u8; 32]>,
        master_noise: &[u8; 32],
    ) -> (HandshakeState, Vec<u8>) {
        let prologue = prologue(self.role, certificate);
        let builder = self.builder(IK, &prologue);
        let builder = builder.remote_public_key(master_noise).unwrap();
        let mut state = builder.build_initiator().unwrap();
        let message = write(&mut state, &self.introduction());
        let rest = [&[self.role], &*message].concat();
        let mac = resume_mac(master_noise, &rest);
        (state, [mac.as_ref(), &rest].concat())
    }

    /// Reads the handshake message of a `First`. Also returns the body of a `FirstReply`.
    pub fn answer_first(
        &self,
        certificate: Option<[u8; 32]>,
        message: &[u8],
    ) -> (HandshakeState, Vec<u8>) {
        let (role, message) = message.split_first().unwrap();
        let prologue = prologue(*role, certificate);
        let mut state = self.builder(XX, &prologue).build_responder().unwrap();
        assert!(read(&mut state, message).is_empty());
        let reply = write(&mut state, &self.introduction());
        (state, reply)
    }

    /// Reads the body of a `Resume`. Returns the peer, and the state that answers it.
    pub fn answer_resume(
        &self,
        certificate: Option<[u8; 32]>,
        body: &[u8],
    ) -> (Peer, HandshakeState) {
        let (mac, rest) = body.split_at(32);
        assert_eq!(resume_mac(&noise_public(&self.noise), rest).as_ref(), mac);
        let prologue = prologue(rest[0], certificate);
        let mut state = self.builder(IK, &prologue).build_responder().unwrap();
        let payload = read(&mut state, &rest[1..]);
        (prove(&state, rest[0], &payload), state)
    }
}

/// Reads the body of a `FirstFinish` from a peer of this role. Returns the peer and the keys.
pub fn finish(role: u8, mut state: HandshakeState, body: &[u8]) -> (Peer, Split) {
    let payload = read(&mut state, body);
    (prove(&state, role, &payload), split(state))
}

/// Writes the next handshake message.
pub fn write(state: &mut HandshakeState, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0; payload.len() + 256];
    let length = state.write_message(payload, &mut message).unwrap();
    message.truncate(length);
    message
}

/// Reads the next handshake message.
pub fn read(state: &mut HandshakeState, message: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; message.len()];
    let length = state.read_message(message, &mut payload).unwrap();
    payload.truncate(length);
    payload
}

/// Returns the keys of a handshake that is complete.
pub fn split(mut state: HandshakeState) -> Split {
    state.dangerously_get_raw_split()
}

fn prove(state: &HandshakeState, role: u8, payload: &[u8]) -> Peer {
    let introduction: Introduction = postcard::from_bytes(payload).unwrap();
    let noise: [u8; 32] = state.get_remote_static().unwrap().try_into().unwrap();
    let vouched = vouched(role, &noise, introduction.issued, &introduction.id);
    assert!(
        verifies(&introduction.identity, &vouched, &introduction.signature),
        "nobody vouches for the Noise key of {introduction:?}"
    );
    (introduction, noise)
}

fn resume_mac(master_noise: &[u8; 32], rest: &[u8]) -> hmac::Tag {
    let secret = digest(&SHA256, &[b"saline/1 resume", &master_noise[..]].concat());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref());
    hmac::sign(&key, rest)
}
