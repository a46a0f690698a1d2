//! The connecting side of a handshake.

use snow::HandshakeState;
use zeroize::Zeroizing;

use super::{
    IK, MASTER, SplitKeys, XX, builder, check_introduction, introduce, prologue, read, resume_mac,
    split, write,
};
use crate::{ChannelError, Identity, NoiseKey, PresentedToken, PublicIdentity, Successors, Token};
use saline_messages::{Extension, ProtocolVersions, Role};

/// The keys and the name of the connecting side.
#[derive(Debug, Clone, Copy)]
pub struct InitiatorKeys<'a> {
    /// The requested role.
    pub role: Role,
    /// The peer's name.
    pub id: &'a str,
    /// The peer's identity.
    pub identity: &'a Identity,
    /// The peer's Noise key.
    pub noise: &'a NoiseKey,
    /// The hash of the certificate that the transport showed.
    pub certificate: Option<[u8; 32]>,
    /// The protocol versions that the peer speaks.
    pub versions: ProtocolVersions,
    /// When the peer begins the handshake, in nanoseconds since 1970. A master takes each time once.
    pub attempted: u64,
}

impl InitiatorKeys<'_> {
    pub(super) fn introduce(&self, token: Option<&PresentedToken>) -> Vec<u8> {
        let role = self.role as u8;
        let mut extensions = vec![Extension::attempt_time(self.attempted)];
        extensions.extend(token.map(|token| Extension::token(token.to_bytes())));
        introduce(
            self.identity,
            role,
            self.id,
            self.noise,
            self.versions,
            extensions,
        )
    }
}

/// A master that has proven at a first contact which keys it holds.
#[derive(Debug, Clone)]
pub struct MetMaster {
    /// The master's identity.
    pub identity: PublicIdentity,
    /// The master's Noise key.
    pub noise: [u8; 32],
    /// When the identity vouched for it, in nanoseconds since 1970.
    pub issued: u64,
    /// The records of its earlier identities, as the master sent them; their signatures are not checked here.
    pub successors: Successors,
}

/// A first contact that waits for the reply.
pub struct FirstContact<'a> {
    keys: InitiatorKeys<'a>,
    pub(super) state: HandshakeState,
}

impl<'a> FirstContact<'a> {
    /// Begins a first contact. Also returns the body of a `First`.
    ///
    /// # Errors
    /// When Noise fails, which it does not with valid keys.
    pub fn begin(keys: InitiatorKeys<'a>) -> Result<(Self, Vec<u8>), ChannelError> {
        let prologue = prologue(keys.role, keys.certificate);
        let mut state = builder(XX, keys.noise, &prologue)?.build_initiator()?;
        let mut body = vec![keys.role as u8];
        body.extend(write(&mut state, &[])?);
        Ok((Self { keys, state }, body))
    }

    /// Reads the body of a `FirstReply`. Returns the master, the body of a `FirstFinish`, and the keys.
    /// The caller decides whether it trusts this master before it sends that.
    ///
    /// # Errors
    /// When the reply was changed on the way, or the master does not hold the identity that it
    /// names.
    pub fn finish(self, reply: &[u8]) -> Result<(MetMaster, Vec<u8>, SplitKeys), ChannelError> {
        self.finish_with_token(reply, None)
    }

    /// As [`finish`](Self::finish). The body has the token if this is the master that made it, or one that took that
    /// master's place.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_with_token(
        mut self,
        reply: &[u8],
        token: Option<&Token>,
    ) -> Result<(MetMaster, Vec<u8>, SplitKeys), ChannelError> {
        let payload = read(&mut self.state, reply)?;
        let (introduction, noise) = check_introduction(&self.state, MASTER, &payload)?;
        let successors = Extension::find_successors(&introduction.extensions);
        let master = MetMaster {
            identity: PublicIdentity(introduction.identity),
            noise,
            issued: introduction.issued,
            successors: successors
                .and_then(Successors::from_bytes)
                .unwrap_or_default(),
        };
        let before = master.successors.predecessors_of(master.identity);
        let its = token.and_then(|token| token.for_master(before.iter().chain([&master.identity])));
        let mine = Zeroizing::new(self.keys.introduce(its));
        let body = write(&mut self.state, &mine)?;
        Ok((master, body, split(self.state)))
    }
}

/// A new session with a known master that waits for the reply.
pub struct Resumption(HandshakeState);

impl Resumption {
    /// Begins a new session with a known master. Also returns the body of a `Resume`.
    ///
    /// # Errors
    /// When Noise fails, which it does not with valid keys.
    pub fn begin(
        keys: InitiatorKeys<'_>,
        master_noise: &[u8; 32],
    ) -> Result<(Self, Vec<u8>), ChannelError> {
        let prologue = prologue(keys.role, keys.certificate);
        let mut state = builder(IK, keys.noise, &prologue)?
            .remote_public_key(master_noise)?
            .build_initiator()?;
        let mine = keys.introduce(None);
        let mut rest = vec![keys.role as u8];
        rest.extend(write(&mut state, &mine)?);
        let mut body = resume_mac(master_noise, &rest).as_ref().to_vec();
        body.extend(rest);
        Ok((Self(state), body))
    }

    /// Reads the body of a `ResumeReply`. Returns its payload and the keys.
    ///
    /// # Errors
    /// When the reply was changed on the way, or is not that master's.
    pub fn finish(mut self, reply: &[u8]) -> Result<(Vec<u8>, SplitKeys), ChannelError> {
        let payload = read(&mut self.0, reply)?;
        Ok((payload, split(self.0)))
    }
}
