//! The keys of minions, as operators list and change them.

use serde::{Deserialize, Serialize};

use super::{MinionId, OrderWarning, RequestId};

/// The state of a key, which is the folder that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum KeyState {
    /// `minions`
    Accepted,
    /// `minions_denied`
    Denied,
    /// `minions_pre`
    Pending,
    /// `minions_rejected`
    Rejected,
}

impl KeyState {
    /// All states, in the order in which `saline-key -L` prints them.
    pub const ALL: [KeyState; 4] = [Self::Accepted, Self::Denied, Self::Pending, Self::Rejected];

    /// Returns the word for a key in this state.
    pub fn adjective(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Denied => "denied",
            Self::Pending => "pending",
            Self::Rejected => "rejected",
        }
    }

    /// Returns Salt's name of the folder.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Accepted => "minions",
            Self::Denied => "minions_denied",
            Self::Pending => "minions_pre",
            Self::Rejected => "minions_rejected",
        }
    }
}

/// One key in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// The id under which the key was presented.
    pub id: MinionId,
    /// The state of the key.
    pub state: KeyState,
    /// The Ed25519 public key, 32 bytes; [`NO_KEY`](Self::NO_KEY) when the file cannot be read or holds none.
    pub identity: [u8; 32],
}

impl KeyEntry {
    /// Stands for the key of a file without one, which can only be deleted. No key has these bytes, since
    /// they are a point of small order.
    pub const NO_KEY: [u8; 32] = [0; 32];

    /// Whether the file holds a key.
    pub fn holds_key(&self) -> bool {
        self.identity != Self::NO_KEY
    }
}

/// An action on keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyAction {
    /// Moves the key into `minions`.
    Accept,
    /// Moves the key into `minions_rejected`.
    Reject,
    /// Deletes the key.
    Delete,
}

/// An action on keys of APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiKeyAction {
    /// Moves the key into `apis`.
    Accept,
    /// Deletes the key.
    Delete,
}

/// A request about keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyRequest {
    /// Lists all keys.
    List,
    /// Applies an action to keys.
    Act {
        /// Identifies the request, so that it acts once if it is repeated.
        request_id: RequestId,
        /// What becomes of the keys.
        action: KeyAction,
        /// The keys as they were shown to the operator. Where another key has come into the place of one, or none is
        /// there any more, nothing is done.
        keys: Vec<KeyEntry>,
    },
    /// Makes the identity that the master's next start takes over, unless there is one.
    RotateIdentity,
    /// Applies an action to keys of APIs.
    ActOnApis {
        /// Identifies the request, so that it acts once if it is repeated.
        request_id: RequestId,
        /// What becomes of the keys.
        action: ApiKeyAction,
        /// The keys as they were shown to the operator, pending or accepted. Where another key has come into the place of one,
        /// or none is there any more, nothing is done.
        keys: Vec<KeyEntry>,
    },
}

/// The reply to a request about keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReply {
    /// All keys for `List`; the changed keys in their new state for `Act`.
    pub keys: Vec<KeyEntry>,
    /// The master's own identity, 32 bytes.
    pub master: [u8; 32],
    /// The identity that the master's next start takes over, 32 bytes, if there is one.
    pub next_master: Option<[u8; 32]>,
    /// The ids under which two machines, or a machine and a copy of it, are in use, with the address of
    /// each.
    pub duplicates: Vec<(MinionId, Vec<String>)>,
    /// The minions whose accepted keys have all gone at once, as when their folder is not mounted; for `List`. An
    /// operator deletes them as an accepted [`NO_KEY`](KeyEntry::NO_KEY).
    pub missing: Vec<MinionId>,
    /// All keys of APIs for `List`, pending and accepted ones under the names of the APIs; the changed keys in their new state
    /// for `ActOnApis`.
    pub apis: Vec<KeyEntry>,
    /// The warning for the operator.
    pub warnings: Vec<OrderWarning>,
}
