//! The answering side of a handshake: the master.

use std::sync::Arc;

use aws_lc_rs::hmac;
use snow::HandshakeState;

use super::{
    IK, MASTER, MAX_HANDSHAKE, SplitKeys, VerifiedPeer, XX, builder, check_introduction, introduce,
    prologue, read, resume_mac_key, split, write,
};
use crate::{ChannelError, Identity, NoiseKey, PresentedToken, PublicIdentity, Successors};
use saline_messages::{Extension, ProtocolVersions, Role};

/// The answering side: a master's keys.
#[derive(Debug)]
pub struct Responder {
    pub(super) identity: Arc<Identity>,
    noise: NoiseKey,
    certificate: Option<[u8; 32]>,
    versions: ProtocolVersions,
    successors: Successors,
}

/// A first contact that waits for its third message.
pub struct PendingHandshake {
    role: Role,
    state: HandshakeState,
}

/// A `Resume` that has been read and can be answered.
pub struct Resuming {
    /// The peer.
    pub proven: VerifiedPeer,
    state: HandshakeState,
}

impl Responder {
    /// Creates a responder; `certificate` is the hash of the certificate that the transport shows,
    /// if any.
    pub fn new(identity: Arc<Identity>, noise: NoiseKey, certificate: Option<[u8; 32]>) -> Self {
        Self {
            identity,
            noise,
            certificate,
            versions: ProtocolVersions::OURS,
            successors: Successors::default(),
        }
    }

    /// Returns a responder that sends the records of its earlier identities at a first contact.
    #[must_use]
    pub fn with_successors(mut self, successors: Successors) -> Self {
        self.successors = successors;
        self
    }

    /// Returns a responder that speaks other versions, as that of a successor does.
    #[must_use]
    pub fn with_versions(mut self, versions: ProtocolVersions) -> Self {
        self.versions = versions;
        self
    }

    /// Reads the body of a `First`. Also returns the body of the `FirstReply`.
    ///
    /// # Errors
    /// When the body is no such message.
    pub fn first(&self, body: &[u8]) -> Result<(PendingHandshake, Vec<u8>), ChannelError> {
        let (role, message) = split_role(body)?;
        let prologue = prologue(role, self.certificate);
        let mut state = builder(XX, &self.noise, &prologue)?.build_responder()?;
        read(&mut state, message)?;
        let mut extensions = Vec::new();
        if !self.successors.is_empty() {
            extensions.push(Extension::successors(self.successors.to_bytes()));
        }
        let mine = introduce(
            &self.identity,
            MASTER,
            "",
            &self.noise,
            self.versions,
            extensions,
        );
        let reply = write(&mut state, &mine)?;
        Ok((PendingHandshake { role, state }, reply))
    }

    /// Checks the MAC of the body of a `Resume`, which only a peer that knows this master can make. It costs
    /// next to nothing.
    ///
    /// # Errors
    /// When the body is no such message, or was made for another master.
    pub fn check_resume(&self, body: &[u8]) -> Result<(), ChannelError> {
        self.split_resume(body).map(|_| ())
    }

    /// Returns what follows the MAC of a `Resume`, which fits.
    fn split_resume<'b>(&self, body: &'b [u8]) -> Result<&'b [u8], ChannelError> {
        let (mac, rest) = body.split_at_checked(32).ok_or(ChannelError::Mismatch)?;
        let key = resume_mac_key(&self.noise.public());
        hmac::verify(&key, rest, mac).map_err(|_| ChannelError::Forged)?;
        Ok(rest)
    }

    /// Reads the body of a `Resume`. The MAC is checked before any costly operation.
    ///
    /// # Errors
    /// When the body is no such message, or was made for another master.
    pub fn resume(&self, body: &[u8]) -> Result<Resuming, ChannelError> {
        let rest = self.split_resume(body)?;
        let (role, message) = split_role(rest)?;
        let prologue = prologue(role, self.certificate);
        let mut state = builder(IK, &self.noise, &prologue)?.build_responder()?;
        let payload = read(&mut state, message)?;
        let proven = prove(&state, role, &payload)?;
        Ok(Resuming { proven, state })
    }
}

fn split_role(body: &[u8]) -> Result<(Role, &[u8]), ChannelError> {
    let (role, message) = body.split_first().ok_or(ChannelError::Mismatch)?;
    if message.len() > MAX_HANDSHAKE {
        return Err(ChannelError::Mismatch);
    }
    let role = Role::try_from(*role).map_err(|_| ChannelError::Mismatch)?;
    Ok((role, message))
}

fn prove(state: &HandshakeState, role: Role, payload: &[u8]) -> Result<VerifiedPeer, ChannelError> {
    let (introduction, noise) = check_introduction(state, role as u8, payload)?;
    Ok(VerifiedPeer {
        role,
        id: introduction.id,
        identity: PublicIdentity(introduction.identity),
        noise,
        issued: introduction.issued,
        versions: introduction.versions,
        software: introduction.software,
        attempted: Extension::find_attempt_time(&introduction.extensions),
        token: Extension::find_token(&introduction.extensions).and_then(PresentedToken::from_bytes),
    })
}

impl PendingHandshake {
    /// Reads the body of a `FirstFinish`. Returns the peer and the keys.
    ///
    /// # Errors
    /// When the message was changed on the way, or the peer does not hold the identity that it
    /// names.
    pub fn finish(mut self, body: &[u8]) -> Result<(VerifiedPeer, SplitKeys), ChannelError> {
        if body.len() > MAX_HANDSHAKE {
            return Err(ChannelError::Mismatch);
        }
        let payload = read(&mut self.state, body)?;
        let proven = prove(&self.state, self.role, &payload)?;
        Ok((proven, split(self.state)))
    }
}

impl Resuming {
    /// Answers with `payload` inside the handshake. Returns the body of a `ResumeReply`, and the
    /// keys.
    ///
    /// # Errors
    /// When Noise fails, which it does not after a valid first message.
    pub fn reply(mut self, payload: &[u8]) -> Result<(Vec<u8>, SplitKeys), ChannelError> {
        let reply = write(&mut self.state, payload)?;
        Ok((reply, split(self.state)))
    }
}
