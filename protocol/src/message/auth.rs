//! What is said while a session is made.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::MasterTime;

/// As what somebody comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Role {
    /// One per id; counts for presence.
    Minion = 1,
    /// A `saline-call`: several per id.
    Caller = 2,
    /// Somebody who gives orders.
    Operator = 3,
}

impl TryFrom<u8> for Role {
    type Error = u8;
    fn try_from(byte: u8) -> Result<Self, u8> {
        match byte {
            1 => Ok(Self::Minion),
            2 => Ok(Self::Caller),
            3 => Ok(Self::Operator),
            other => Err(other),
        }
    }
}

/// Sent inside the handshake by both sides: which identity vouches for the Noise key. After
/// libp2p's noise specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The minion's id, or the operator's name; empty for a master.
    pub id: String,
    /// The Ed25519 public key, 32 bytes.
    pub identity: [u8; 32],
    /// Ed25519 over the Noise static key, the role and the id.
    pub signature: Vec<u8>,
}

/// What the master answers to one who has proven which keys it holds.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthAnswer {
    /// Come in.
    Accepted(Welcome),
    /// The key waits to be accepted: poll.
    Pending,
    /// The key is rejected.
    Rejected,
    /// Another key is known under this id, and this one was put aside.
    Denied,
    /// The master takes no more minions, or keys, now.
    Full,
}

impl fmt::Debug for AuthAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted(_) => "Accepted",
            Self::Pending => "Pending",
            Self::Rejected => "Rejected",
            Self::Denied => "Denied",
            Self::Full => "Full",
        })
    }
}

/// What an accepted peer is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The master's clock.
    pub clock: MasterTime,
    /// How often to send a heartbeat, in milliseconds.
    pub heartbeat_ms: u64,
    /// The largest payload that the master takes, in bytes.
    pub max_message: u64,
    /// Where publications are.
    pub publications: Publications,
    /// The group key under which `job/all` is sealed; none for those who are not minions.
    pub group: Option<GroupKeyMaterial>,
}

/// Where publications are subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Publications {
    /// On the same connection.
    SameConnection,
    /// On the same host, at this port.
    Port(u16),
    /// At this path, for one who came over a local endpoint.
    Path(String),
}

/// An epoch and its key. `Debug` does not show the key.
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

impl fmt::Debug for GroupKeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKeyMaterial(epoch {:016x})", self.epoch)
    }
}
