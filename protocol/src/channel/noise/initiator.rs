//! The connecting side of a handshake.

use snow::HandshakeState;

use super::{
    IK, MASTER, SplitKeys, XX, builder, check_introduction, introduce, prologue, read, resume_mac,
    split, write,
};
use crate::channel::{ChannelError, Identity, NoiseKey, PublicIdentity};
use crate::message::Role;

/// What the connecting side brings.
#[derive(Debug, Clone, Copy)]
pub struct InitiatorKeys<'a> {
    /// As what it comes.
    pub role: Role,
    /// Its name.
    pub id: &'a str,
    /// Who it is.
    pub identity: &'a Identity,
    /// Its Noise key.
    pub noise: &'a NoiseKey,
    /// The hash of the certificate that the link showed.
    pub certificate: Option<[u8; 32]>,
}

/// A first contact under way at the connecting side.
pub struct FirstContact<'a> {
    keys: InitiatorKeys<'a>,
    pub(super) state: HandshakeState,
}

impl<'a> FirstContact<'a> {
    /// Begins; the second part is the body of a `First`.
    ///
    /// # Errors
    /// When Noise fails, which with good keys it does not.
    pub fn begin(keys: InitiatorKeys<'a>) -> Result<(Self, Vec<u8>), ChannelError> {
        let prologue = prologue(keys.role, keys.certificate);
        let mut state = builder(XX, keys.noise, &prologue)?.build_initiator()?;
        let mut body = vec![keys.role as u8];
        body.extend(write(&mut state, &[])?);
        Ok((Self { keys, state }, body))
    }

    /// Reads the body of a `FirstReply`: who the master is, and the body of a `FirstFinish`. The
    /// caller decides whether it believes this master before it sends that.
    ///
    /// # Errors
    /// When the reply was changed on the way, or the master does not hold the identity it names.
    pub fn finish(
        mut self,
        reply: &[u8],
    ) -> Result<(PublicIdentity, [u8; 32], Vec<u8>, SplitKeys), ChannelError> {
        let payload = read(&mut self.state, reply)?;
        let (introduction, noise) = check_introduction(&self.state, MASTER, &payload)?;
        let InitiatorKeys { role, id, .. } = self.keys;
        let mine = introduce(self.keys.identity, role as u8, id, self.keys.noise);
        let body = write(&mut self.state, &mine)?;
        Ok((
            PublicIdentity(introduction.identity),
            noise,
            body,
            split(self.state),
        ))
    }
}

/// A return to a known master under way at the connecting side.
pub struct Resumption(HandshakeState);

impl Resumption {
    /// Begins; the second part is the body of a `Resume`.
    ///
    /// # Errors
    /// When Noise fails, which with good keys it does not.
    pub fn begin(
        keys: InitiatorKeys<'_>,
        master_noise: &[u8; 32],
    ) -> Result<(Self, Vec<u8>), ChannelError> {
        let prologue = prologue(keys.role, keys.certificate);
        let mut state = builder(IK, keys.noise, &prologue)?
            .remote_public_key(master_noise)?
            .build_initiator()?;
        let mine = introduce(keys.identity, keys.role as u8, keys.id, keys.noise);
        let mut rest = vec![keys.role as u8];
        rest.extend(write(&mut state, &mine)?);
        let mut body = resume_mac(master_noise, &rest).as_ref().to_vec();
        body.extend(rest);
        Ok((Self(state), body))
    }

    /// Reads the body of a `ResumeReply`: the payload in it and the keys.
    ///
    /// # Errors
    /// When the reply was changed on the way or does not come from that master.
    pub fn finish(mut self, reply: &[u8]) -> Result<(Vec<u8>, SplitKeys), ChannelError> {
        let payload = read(&mut self.0, reply)?;
        Ok((payload, split(self.0)))
    }
}
