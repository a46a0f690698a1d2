//! The messages of a handshake.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::{Extension, MasterTime, PeerVersion, ProtocolVersions, TokenRefusal};

/// The role of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Role {
    /// A minion. One session for each id counts for presence.
    Minion = 1,
    /// A program that runs functions locally on a minion's machine, with the minion's key: `saline-call`.
    Caller = 2,
    /// An operator, who gives orders.
    Operator = 3,
    /// A host of the HTTP API, which acts for users who log in.
    Api = 4,
}

impl TryFrom<u8> for Role {
    type Error = u8;
    fn try_from(byte: u8) -> Result<Self, u8> {
        match byte {
            1 => Ok(Self::Minion),
            2 => Ok(Self::Caller),
            3 => Ok(Self::Operator),
            4 => Ok(Self::Api),
            other => Err(other),
        }
    }
}

/// The introduction that both sides send inside the handshake: the identity that vouches for the
/// Noise key. After libp2p's noise specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The minion's id, or the name of the operator or of the API; empty for a master.
    pub id: String,
    /// The Ed25519 public key, 32 bytes.
    pub identity: [u8; 32],
    /// When the identity vouched for the Noise key for the first time, in nanoseconds since 1970. Of two Noise keys of one
    /// master the one with the later time counts, and a minion that has seen it refuses the earlier one.
    pub issued: u64,
    /// Ed25519 over the Noise static key, its time of issue, the role and the id.
    pub signature: Vec<u8>,
    /// The protocol versions that the side speaks.
    pub versions: ProtocolVersions,
    /// The version of its software.
    pub software: String,
    /// Further fields; a peer skips those that it does not know.
    pub extensions: Vec<Extension>,
}

/// The master's decision about a peer that has proven which keys it holds. `W` is what comes with
/// acceptance: nothing while the master decides, and a [`Welcome`] in the message to the peer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Admission<W = Welcome> {
    /// The key is accepted.
    Accepted(W),
    /// The key waits to be accepted by an operator, for this reason though a token came with it; the peer polls.
    Pending(Option<TokenRefusal>),
    /// The key is rejected.
    Rejected,
    /// Another key is known under this id, and the presented one was put aside; or `publisher_acl_blacklist` names this
    /// user of the master's machine.
    Denied,
    /// The master takes no more minions, or no more pending keys, at the moment.
    Full,
    /// No protocol version is spoken by both sides.
    NoCommonVersion {
        /// The versions that the master speaks.
        versions: ProtocolVersions,
        /// The version of the master's software.
        software: String,
    },
    /// The Noise key was vouched for before another one that the master has met under the same identity: it was replaced,
    /// and whoever has it may be somebody else.
    OldNoiseKey,
}

impl<W> Admission<W> {
    /// Whether the key is accepted.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted(_))
    }

    /// Returns the same decision, with `welcome` applied to an acceptance.
    pub fn map<V>(self, welcome: impl FnOnce(W) -> V) -> Admission<V> {
        match self {
            Self::Accepted(inner) => Admission::Accepted(welcome(inner)),
            Self::Pending(token) => Admission::Pending(token),
            Self::Rejected => Admission::Rejected,
            Self::Denied => Admission::Denied,
            Self::Full => Admission::Full,
            Self::NoCommonVersion { versions, software } => {
                Admission::NoCommonVersion { versions, software }
            }
            Self::OldNoiseKey => Admission::OldNoiseKey,
        }
    }
}

impl<W> fmt::Debug for Admission<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted(_) => "Accepted",
            Self::Pending(_) => "Pending",
            Self::Rejected => "Rejected",
            Self::Denied => "Denied",
            Self::Full => "Full",
            Self::NoCommonVersion { .. } => "NoCommonVersion",
            Self::OldNoiseKey => "OldNoiseKey",
        })
    }
}

/// The message to an accepted peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The master's clock.
    pub clock: MasterTime,
    /// How often to send a heartbeat, in milliseconds.
    pub heartbeat_ms: u64,
    /// The largest payload that the master takes, in bytes.
    pub max_message: u64,
    /// The address of publications.
    pub publications: PublicationAddress,
    /// The group key under which `job/all` is sealed; only minions get it.
    pub group: Option<GroupKeyMaterial>,
    /// The protocol version of the session, and the version of the master's software.
    pub master: PeerVersion,
    /// Further fields; a peer skips those that it does not know.
    pub extensions: Vec<Extension>,
}

/// The address at which a peer subscribes to publications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PublicationAddress {
    /// The connection of the session.
    SameConnection,
    /// The same host, at this port.
    Port(u16),
    /// The socket at this path, for a peer on the same machine.
    Path(String),
}

/// An epoch and its key. `Debug` does not show the key, which is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupKeyMaterial {
    /// Random at every start of the master, one more at each rotation.
    pub epoch: u64,
    /// 32 bytes.
    pub key: [u8; 32],
    /// The number of the last publication on `job/all` in this epoch: what comes after it is
    /// missed if it is not seen.
    pub last_number: u64,
}

impl Drop for GroupKeyMaterial {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl fmt::Debug for GroupKeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKeyMaterial(epoch {:016x})", self.epoch)
    }
}
