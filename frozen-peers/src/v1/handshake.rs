//! Noise XX at a first contact and IK afterwards, from both sides.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use snow::{Builder, HandshakeState};

use super::keys::{Identity, NoiseKey, verifies};
use super::messages::{Extension, Introduction, Versions, decode, encode};

const XX: &str = "Noise_XX_25519_AESGCM_SHA256";
const IK: &str = "Noise_IK_25519_AESGCM_SHA256";

/// The byte of a role in a handshake.
pub mod role {
    #![allow(missing_docs, reason = "their names say it")]
    pub const MASTER: u8 = 0;
    pub const MINION: u8 = 1;
    pub const OPERATOR: u8 = 3;
}

/// The number of the extension that says when a handshake began: nanoseconds since 1970, 8 bytes, big-endian.
pub const ATTEMPT_TIME: u16 = 1;

/// What a side says of itself in a handshake.
#[derive(Debug)]
pub struct Oneself<'a> {
    /// One of [`role`].
    pub role: u8,
    /// A minion's id or an operator's name; empty for a master.
    pub id: &'a str,
    /// The identity.
    pub identity: &'a Identity,
    /// The Noise key.
    pub noise: &'a NoiseKey,
    /// The versions that it speaks.
    pub versions: Versions,
    /// What else it says.
    pub extensions: Vec<Extension>,
}

/// The keys that a handshake agrees on.
#[derive(Debug, Clone)]
pub struct Split {
    /// Seals what the connecting side sends.
    pub initiator: [u8; 32],
    /// Seals what the master sends.
    pub responder: [u8; 32],
}

/// The other side of a handshake.
#[derive(Debug)]
pub struct Proven {
    /// What it says of itself.
    pub introduction: Introduction,
    /// Its Noise key.
    pub noise: [u8; 32],
}

fn vouched(role: u8, noise: &[u8], id: &str) -> Vec<u8> {
    [b"saline/1 noise key", &[role][..], noise, id.as_bytes()].concat()
}

impl Oneself<'_> {
    fn introduction(&self) -> Vec<u8> {
        let vouched = vouched(self.role, &self.noise.public, self.id);
        encode(&Introduction {
            id: self.id.to_owned(),
            identity: self.identity.public(),
            signature: self.identity.sign(&vouched),
            versions: self.versions,
            software: "1.0.0".to_owned(),
            extensions: self.extensions.clone(),
        })
    }

    fn builder<'b>(&'b self, pattern: &str, prologue: &'b [u8]) -> Builder<'b> {
        Builder::new(pattern.parse().unwrap())
            .local_private_key(&self.noise.private)
            .unwrap()
            .prologue(prologue)
            .unwrap()
    }
}

fn prologue(role: u8, certificate: Option<[u8; 32]>) -> Vec<u8> {
    [b"saline/1", &[role][..], &certificate.unwrap_or_default()].concat()
}

fn write(state: &mut HandshakeState, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0; payload.len() + 256];
    let length = state.write_message(payload, &mut message).unwrap();
    message.truncate(length);
    message
}

fn read(state: &mut HandshakeState, message: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; message.len()];
    let length = state.read_message(message, &mut payload).unwrap();
    payload.truncate(length);
    payload
}

fn prove(state: &HandshakeState, role: u8, payload: &[u8]) -> Proven {
    let introduction: Introduction = decode(payload);
    let noise: [u8; 32] = state.get_remote_static().unwrap().try_into().unwrap();
    let vouched = vouched(role, &noise, &introduction.id);
    assert!(
        verifies(&introduction.identity, &vouched, &introduction.signature),
        "nobody vouches for the Noise key of {introduction:?}"
    );
    Proven {
        introduction,
        noise,
    }
}

fn split(mut state: HandshakeState) -> Split {
    let (initiator, responder) = state.dangerously_get_raw_split();
    Split {
        initiator,
        responder,
    }
}

fn resume_mac(master_noise: &[u8; 32], rest: &[u8]) -> hmac::Tag {
    let secret = digest(&SHA256, &[b"saline/1 resume", &master_noise[..]].concat());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref());
    hmac::sign(&key, rest)
}

/// A first contact that waits for the reply.
#[derive(Debug)]
pub struct FirstContact(HandshakeState);

impl FirstContact {
    /// Begins a first contact. Also returns the body of a `First` without a cookie: an empty cookie's length,
    /// the role, and the message of Noise.
    pub fn begin(oneself: &Oneself<'_>, certificate: Option<[u8; 32]>) -> (Self, Vec<u8>) {
        let prologue = prologue(oneself.role, certificate);
        let mut state = oneself.builder(XX, &prologue).build_initiator().unwrap();
        let message = write(&mut state, &[]);
        (Self(state), [&[0, oneself.role], &*message].concat())
    }

    /// Reads the body of a `FirstReply`. Returns the master, the body of a `FirstFinish`, and the keys.
    pub fn finish(mut self, oneself: &Oneself<'_>, reply: &[u8]) -> (Proven, Vec<u8>, Split) {
        let payload = read(&mut self.0, reply);
        let master = prove(&self.0, role::MASTER, &payload);
        let message = write(&mut self.0, &oneself.introduction());
        (master, message, split(self.0))
    }
}

/// A session with a known master that waits for the reply.
#[derive(Debug)]
pub struct Resumption(HandshakeState);

impl Resumption {
    /// Begins a session with a known master. Also returns the body of a `Resume`: a MAC that only who knows the
    /// master can make, the role, and the message of Noise.
    pub fn begin(
        oneself: &Oneself<'_>,
        certificate: Option<[u8; 32]>,
        master_noise: &[u8; 32],
    ) -> (Self, Vec<u8>) {
        let prologue = prologue(oneself.role, certificate);
        let builder = oneself.builder(IK, &prologue);
        let builder = builder.remote_public_key(master_noise).unwrap();
        let mut state = builder.build_initiator().unwrap();
        let message = write(&mut state, &oneself.introduction());
        let rest = [&[oneself.role], &*message].concat();
        let mac = resume_mac(master_noise, &rest);
        (Self(state), [mac.as_ref(), &rest].concat())
    }

    /// Reads the body of a `ResumeReply`. Returns its payload and the keys.
    pub fn finish(mut self, reply: &[u8]) -> (Vec<u8>, Split) {
        let payload = read(&mut self.0, reply);
        (payload, split(self.0))
    }
}

/// A first contact at the master's side that waits for its last message.
#[derive(Debug)]
pub struct HalfOpen {
    role: u8,
    state: HandshakeState,
}

impl HalfOpen {
    /// Reads the body of a `First`. Also returns the body of a `FirstReply`.
    pub fn begin(
        oneself: &Oneself<'_>,
        certificate: Option<[u8; 32]>,
        body: &[u8],
    ) -> (Self, Vec<u8>) {
        assert_eq!(body[0], 0, "nobody was given a cookie");
        let role = body[1];
        let prologue = prologue(role, certificate);
        let mut state = oneself.builder(XX, &prologue).build_responder().unwrap();
        assert!(read(&mut state, &body[2..]).is_empty());
        let reply = write(&mut state, &oneself.introduction());
        (Self { role, state }, reply)
    }

    /// Reads the body of a `FirstFinish`. Returns the peer and the keys.
    pub fn finish(mut self, body: &[u8]) -> (Proven, Split) {
        let payload = read(&mut self.state, body);
        let peer = prove(&self.state, self.role, &payload);
        (peer, split(self.state))
    }
}

/// A `Resume` that was read and can be answered.
#[derive(Debug)]
pub struct Resuming {
    /// The peer.
    pub peer: Proven,
    state: HandshakeState,
}

impl Resuming {
    /// Reads the body of a `Resume`.
    pub fn read(oneself: &Oneself<'_>, certificate: Option<[u8; 32]>, body: &[u8]) -> Self {
        let (mac, rest) = body.split_at(32);
        assert_eq!(resume_mac(&oneself.noise.public, rest).as_ref(), mac);
        let (role, message) = (rest[0], &rest[1..]);
        let prologue = prologue(role, certificate);
        let mut state = oneself.builder(IK, &prologue).build_responder().unwrap();
        let payload = read(&mut state, message);
        let peer = prove(&state, role, &payload);
        Self { peer, state }
    }

    /// Answers with `payload`. Returns the body of a `ResumeReply` and the keys.
    pub fn reply(mut self, payload: &[u8]) -> (Vec<u8>, Split) {
        let reply = write(&mut self.state, payload);
        (reply, split(self.state))
    }
}
