//! What may be asked of a master: one closed enum for each audience, so that a new verb is refused
//! until it is listed.

use serde::{Deserialize, Serialize};

use super::{
    Admission, GroupKeyMaterial, Jid, Job, JobSummary, MasterTime, MinionId, OfferState, Packed,
    PackedArguments, RequestId, Return, ReturnVerdict, SignedJob, StoredReturn,
};
use crate::target::Target;

/// What a session that is not accepted yet may ask: this, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingRequest {
    /// Has my key been accepted? The bytes are those of [`MinionRequest::Poll`], and so is the answer:
    /// who asks does not know whether it was accepted meanwhile. See [`MinionReply::Auth`].
    Poll,
}

/// What a minion may ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinionRequest {
    /// Has my key been accepted?
    Poll,
    /// I live.
    Heartbeat {
        /// What I run now.
        running: Vec<Jid>,
        /// The epoch that I have the key of.
        epoch: u64,
    },
    /// I have begun this job.
    Started {
        /// Which.
        jid: Jid,
    },
    /// This came out.
    Return(Return),
    /// I do not match the target of this job.
    Declined {
        /// Which.
        jid: Jid,
    },
    /// I match the target of this job though it was not offered to me: may I run it?
    Claim {
        /// Which.
        jid: Jid,
    },
    /// Which unexpired jobs were offered to me and have no return of mine?
    PendingJobs,
    /// Fire this on the master's bus. The tag is put below `salt/minion/<id>/` by the master.
    FireEvent {
        /// Fires once, however often it is asked.
        request_id: RequestId,
        /// What follows the prefix.
        tag: String,
        /// What is told.
        data: Packed,
    },
    /// I am going.
    Goodbye,
}

/// What a minion is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinionReply {
    /// To `Poll`.
    Auth(Admission),
    /// To `Heartbeat`.
    Heartbeat(HeartbeatReply),
    /// Done, to what has no other answer.
    Done,
    /// To `Return`.
    Verdict(ReturnVerdict),
    /// To `PendingJobs`.
    Jobs(Vec<SignedJob>),
    /// To `Claim`: whether it may run.
    Claimed(bool),
    /// Come again after that many milliseconds; nothing was done.
    Busy {
        /// Milliseconds.
        after_ms: u32,
    },
    /// Not done, for good.
    Refused(RefusedVerb),
}

/// What a heartbeat is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatReply {
    /// The master's clock.
    pub clock: MasterTime,
    /// How often to send a heartbeat, in milliseconds.
    pub heartbeat_ms: u64,
    /// The epoch, with its key if the minion has another.
    pub epoch: u64,
    /// That key.
    pub group: Option<GroupKeyMaterial>,
    /// The number of the last publication on `job/all` in this epoch.
    pub last_all: u64,
    /// The number of the last publication on the minion's own topic in this epoch.
    pub last_own: u64,
}

/// Why a verb was not carried out, in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusedVerb {
    /// Not a request of this audience.
    Malformed,
    /// This session has ended: another one of the same id took its place.
    Replaced,
    /// This session has ended: its key was deleted or rejected.
    KeyGone,
    /// The event's tag or data cannot be.
    BadEvent,
    /// The master is going down.
    ShuttingDown,
}

/// What an operator may ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorRequest {
    /// Publish a job.
    Publish {
        /// Publishes once, however often it is asked.
        request_id: RequestId,
        /// To whom.
        target: Target,
        /// What, `module.function`.
        fun: String,
        /// With what.
        arg: PackedArguments,
        /// Who asks; for the record, no authority.
        user: String,
    },
    /// What has come back to a job, and where every minion stands.
    JobReturns {
        /// Which.
        jid: Jid,
        /// Only returns of minions after this one, by id: the next page.
        after: Option<MinionId>,
    },
    /// The jobs in the store, the newest first.
    JobList {
        /// At most that many.
        limit: u32,
        /// Only those before this one: the next page.
        before: Option<Jid>,
    },
    /// One job.
    JobLookup {
        /// Which.
        jid: Jid,
    },
    /// The key store.
    Keys(KeyRequest),
    /// What every minion runs, as its last heartbeat said.
    Running,
}

/// What an operator is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorReply {
    /// To `Publish`, after the commit and before anything is delivered.
    Published(Published),
    /// To `JobReturns`.
    Returns(ReturnsPage),
    /// To `JobList`.
    Jobs(Vec<Job>),
    /// To `JobLookup`.
    Job(JobSummary),
    /// To `Keys`.
    Keys(KeyReply),
    /// To `Running`.
    Running(Vec<(MinionId, Vec<Jid>)>),
    /// There is no such job.
    NoSuchJob,
    /// The target cannot be read.
    BadTarget(String),
    /// Come again after that many milliseconds; nothing was done.
    Busy {
        /// Milliseconds.
        after_ms: u32,
    },
    /// Not done, for good.
    Refused(RefusedVerb),
    /// The master could not: its store or its disk failed.
    Failed(String),
}

/// A published job. When nobody matched there is no jid and nothing was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Its id.
    pub jid: Option<Jid>,
    /// Until when it may be begun.
    pub expires: MasterTime,
    /// Who is expected, and where each stands.
    pub minions: Vec<(MinionId, OfferState)>,
    /// Those that a list named and that no key is known of.
    pub unknown: Vec<String>,
}

/// Some returns of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnsPage {
    /// By id, from the one after `after`.
    pub returns: Vec<StoredReturn>,
    /// Whether there are more after the last of these.
    pub more: bool,
    /// Where every expected minion stands. A running one whose session has not been heard of for
    /// two heartbeats is in `silent` too.
    pub states: Vec<(MinionId, OfferState)>,
    /// Minions that were offered the job or run it, and whose session is gone.
    pub silent: Vec<MinionId>,
    /// The master's clock.
    pub clock: MasterTime,
    /// Until when the job may be begun.
    pub expires: MasterTime,
}

/// Where a key is: the folder that it lies in.
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
    /// All of them, in the order in which `saline-key -L` prints them.
    pub const ALL: [KeyState; 4] = [Self::Accepted, Self::Denied, Self::Pending, Self::Rejected];

    /// The name of its folder, Salt's.
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
    /// Whose.
    pub id: MinionId,
    /// Where.
    pub state: KeyState,
    /// The Ed25519 public key, 32 bytes.
    pub identity: [u8; 32],
}

/// What to do with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyAction {
    /// Into `minions`.
    Accept,
    /// Into `minions_rejected`.
    Reject,
    /// Away.
    Delete,
}

/// What an operator asks of the key store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyRequest {
    /// Everything in it.
    List,
    /// Do this to these.
    Act {
        /// Acts once, however often it is asked.
        request_id: RequestId,
        /// What.
        action: KeyAction,
        /// To which: those that are no longer in that state are left alone.
        keys: Vec<(KeyState, MinionId)>,
    },
}

/// What the key store answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReply {
    /// To `List` all keys; to `Act` those that were changed, in their new state.
    pub keys: Vec<KeyEntry>,
    /// The master's own identity, 32 bytes.
    pub master: [u8; 32],
}
