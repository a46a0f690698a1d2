//! The exchange at the start of a session, and about jobs that the master asks for, so that both
//! sides know the same of every job.

use serde::{Deserialize, Serialize};

use super::{GroupKeyMaterial, Jid, Lease, MasterTime, StartId};

/// The largest number of jobs that one message lists as running.
pub const MAX_RUNNING: usize = 1024;

/// The largest number of jobs that one message names as begun, asks for, or accounts for.
pub const MAX_ACCOUNTS: usize = 1024;

/// The largest number of starts that a minion names as its predecessors.
pub const MAX_PREDECESSORS: usize = 16;

/// The regular report of a minion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The jobs that the minion runs now, at most [`MAX_RUNNING`].
    pub running: Vec<Jid>,
    /// The number of jobs that wait on the minion for one of those to end, since it runs no more at once.
    pub waiting: u32,
    /// The epoch of the group key that the minion has.
    pub epoch: u64,
    /// The number of heartbeats that the minion's spool has noted since it was made; each is noted before it is sent. A number below
    /// an earlier one is that of a disk, or of a memory, that was put back.
    pub heartbeats_noted: u64,
    /// The minion's acknowledgement of expiries.
    pub expiry: ExpiryAck,
}

/// A minion's acknowledgement of expiries, which binds it: of the jobs that expire in this time it began exactly these, and it will
/// begin no other of them. It is taken in one step with the beginning of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExpiryAck {
    /// The acknowledgement is about jobs that expire after this time.
    pub after: MasterTime,
    /// The last expiry that is acknowledged.
    pub until: MasterTime,
    /// The jobs that the minion began, without those whose returns were stored in this session; at most
    /// [`MAX_ACCOUNTS`].
    pub begun: Vec<Jid>,
}

/// One step of the exchange at the start of a session. The minion repeats it until the master asks for
/// no more jobs, and is present from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// The start of the minion.
    pub start: StartId,
    /// The starts before it from the last one that was reconciled with a master on, as the minion's disk has
    /// them: one of them is the last that the master knows, unless the disk is a copy or was restored.
    /// At most [`MAX_PREDECESSORS`].
    pub predecessors: Vec<StartId>,
    /// Whether every earlier start on the minion's disk has ended surely, because it ran in the same place.
    pub predecessor_ended: bool,
    /// Whether the machine went down without an orderly stop of the minion between the last start that was reconciled
    /// and this one, so that what the minion noted last before it may be lost.
    pub power_lost: bool,
    /// The number of heartbeats that the minion's spool had noted when this start began: it does not count those that an
    /// other master was sent since.
    pub heartbeats_before: u64,
    /// The heartbeat at this moment.
    pub heartbeat: Heartbeat,
    /// The jobs that the master asked for in the reply to the step before.
    pub accounts: Vec<JobAccount>,
}

/// A job and what the minion knows of it, in answer to the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobAccount {
    /// The job.
    pub jid: Jid,
    /// The minion's knowledge of the job.
    pub known: Known,
}

/// The knowledge of a job that a minion has in its spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Known {
    /// Nothing.
    No,
    /// The job runs.
    Running,
    /// The job ended, and its return waits to be delivered.
    Finished,
    /// A master has stored the return of the job.
    Delivered,
    /// The minion did not begin the job and never will.
    Barred,
    /// The job is too old to tell.
    Forgotten,
}

/// The reply to a [`Reconciliation`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconciliationReply {
    /// The reply to the heartbeat.
    pub heartbeat: HeartbeatReply,
    /// The jobs that the minion is asked to account for, at most [`MAX_ACCOUNTS`]; none when the
    /// reconciliation is complete.
    pub asked: Vec<Jid>,
}

/// The reply to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatReply {
    /// The master's clock.
    pub clock: MasterTime,
    /// How often to send a heartbeat, in milliseconds.
    pub heartbeat_ms: u64,
    /// The current epoch.
    pub epoch: u64,
    /// The group key of the epoch, if the minion has another one.
    pub group: Option<GroupKeyMaterial>,
    /// The number of the last publication on `job/all` in this epoch.
    pub last_all: u64,
    /// The number of the last publication on the minion's own topic in this epoch.
    pub last_own: u64,
    /// The jobs that the minion may begin without a claim.
    pub lease: Lease,
    /// The expiry up to which the master has the minion's acknowledgement.
    pub expiry_acked_until: MasterTime,
    /// Jobs that the minion must not begin any more, at most [`MAX_ACCOUNTS`]. It accounts for each.
    pub cancelled: Vec<Jid>,
    /// Whether the master wants a reconciliation now.
    pub reconcile: bool,
}
