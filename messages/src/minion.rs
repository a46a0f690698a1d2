//! The requests of minions, and the replies to them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::envelope::after_ms;
use super::{
    Admission, FileReply, FileRequest, FunctionsReport, Heartbeat, HeartbeatReply, Jid, JobAccount,
    MineReply, MineRequest, PillarReply, PillarRequest, Reconciliation, ReconciliationReply,
    RefusedVerb, Return, ReturnPart, ReturnVerdict, ScheduledReturn, SignedJob, StartId,
};
use saline_data::Packed;

/// The only request of a session that is not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingRequest {
    /// Asks whether the key has been accepted. Encoded as [`MinionRequest::Poll`] and answered with
    /// [`MinionReply::Auth`], since the sender does not know whether the key was accepted
    /// meanwhile.
    Poll,
}

/// The largest number of returns in one request.
pub const MAX_RETURNS: usize = 64;

/// The largest number of jobs in one report of jobs that were begun.
pub const MAX_STARTED: usize = 256;

/// The planned end of a machine, because of which its minion stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PlannedEnd {
    /// The machine restarts, and the minion comes back.
    Reboot,
    /// The machine shuts down.
    PowerOff,
}

impl PlannedEnd {
    /// Returns the name of the plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::PowerOff => "poweroff",
        }
    }
}

/// A request of a minion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinionRequest {
    /// Asks whether the key has been accepted.
    Poll,
    /// Reports that the minion lives.
    Heartbeat(Heartbeat),
    /// Reports that the minion has begun these jobs, at most [`MAX_STARTED`].
    Started(Vec<Jid>),
    /// Delivers the returns of at most [`MAX_RETURNS`] jobs.
    Returns(Vec<Return>),
    /// Delivers a part of a large return. With the last one the return is delivered.
    ReturnPart(ReturnPart),
    /// Reports that the minion does not match the target of a job.
    Declined {
        /// The jid of the job.
        jid: Jid,
    },
    /// Asks whether the minion may begin a job that it matches and that its lease does not cover.
    Claim {
        /// The jid of the job.
        jid: Jid,
    },
    /// Asks for the unexpired jobs that were offered to the minion and that it may still begin.
    PendingJobs {
        /// Returns only jobs after this one: the next page.
        after: Option<Jid>,
        /// The largest size of the page in bytes, but for a single larger job.
        bytes: u64,
    },
    /// Fires events on the master's bus.
    FireEvents(MinionEvents),
    /// Announces that the minion stops, and what its machine does then, if that was planned.
    Goodbye(Option<PlannedEnd>),
    /// Begins a session, or goes on with its beginning.
    Reconcile(Reconciliation),
    /// Says what the minion knows of jobs: those that it was handed and has seen before, and those that
    /// were cancelled. At most [`MAX_ACCOUNTS`](super::MAX_ACCOUNTS).
    Accounts(Vec<JobAccount>),
    /// Reports the minion's grains, after the session began and when they have changed.
    Grains(GrainsReport),
    /// Asks for files of the master, or hands files in.
    Files(FileRequest),
    /// Delivers the return of a job of the minion's own schedule, or a part of it. The master makes a job for it.
    Scheduled(ScheduledReturn),
    /// Asks for the minion's pillar.
    Pillar(PillarRequest),
    /// Reports the functions that the minion can run, after the session began and when they have changed.
    Functions(FunctionsReport),
    /// Leaves values in the mine, or asks for those of minions.
    Mine(MineRequest),
}

/// The grains of a minion: first their digest alone, and all of them if the master asks for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrainsReport {
    /// The [digest](Self::digest_of) of the packed grains.
    pub digest: [u8; 32],
    /// The grains, a mapping of at most [`MAX_GRAINS`](saline_targeting::MAX_GRAINS) bytes.
    pub grains: Option<Packed>,
}

impl GrainsReport {
    /// Returns the SHA-256 of packed grains.
    pub fn digest_of(grains: &Packed) -> [u8; 32] {
        let mut digest = [0; 32];
        let computed = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, grains.as_bytes());
        // Both have 32 bytes.
        digest.copy_from_slice(computed.as_ref());
        digest
    }
}

impl MinionRequest {
    /// Returns the name of the verb, for the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Poll => "Poll",
            Self::Heartbeat(_) => "Heartbeat",
            Self::Started(_) => "Started",
            Self::Returns(_) => "Returns",
            Self::ReturnPart(_) => "ReturnPart",
            Self::Declined { .. } => "Declined",
            Self::Claim { .. } => "Claim",
            Self::PendingJobs { .. } => "PendingJobs",
            Self::FireEvents(_) => "FireEvents",
            Self::Goodbye(_) => "Goodbye",
            Self::Reconcile(_) => "Reconcile",
            Self::Accounts(_) => "Accounts",
            Self::Grains(_) => "Grains",
            Self::Files(_) => "Files",
            Self::Scheduled(_) => "Scheduled",
            Self::Pillar(_) => "Pillar",
            Self::Functions(_) => "Functions",
            Self::Mine(_) => "Mine",
        }
    }
}

/// The largest number of events in one request.
pub const MAX_EVENTS: usize = 256;

/// The largest data of a minion's event, in bytes.
pub const MAX_EVENT_DATA: usize = 64 * 1024;

/// Events of a minion, at most [`MAX_EVENTS`]. Each is fired once, also when the request is repeated: the
/// master remembers the last number of each minion's start. After a restart of the master a repeated
/// event may be fired again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinionEvents {
    /// The start of the minion that numbers them.
    pub start: StartId,
    /// The number of the first; the others follow it.
    pub first: u64,
    /// The events in their order.
    pub events: Vec<MinionEvent>,
}

/// An event of a minion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinionEvent {
    /// The end of the tag: the master puts it below `salt/minion/<id>/`.
    pub tag: String,
    /// The data, a mapping of at most [`MAX_EVENT_DATA`] bytes.
    pub data: Packed,
}

/// The reply to a minion's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinionReply {
    /// The reply to `Poll`.
    Auth(Admission),
    /// The reply to `Heartbeat`.
    Heartbeat(HeartbeatReply),
    /// The request was carried out and has no other reply.
    Done,
    /// The reply to `Returns`: a verdict on each, in their order. Also the reply to the last
    /// `ReturnPart` or `Scheduled`.
    Verdicts(Vec<ReturnVerdict>),
    /// The reply to another `ReturnPart` or `Scheduled`: the master has this many bytes of the return, from its
    /// beginning. The next part begins there.
    Received(u64),
    /// The reply to `PendingJobs`.
    Jobs(JobsPage),
    /// The reply to `Claim`: whether the minion may run the job.
    Claimed(bool),
    /// The request was not carried out; repeat it later.
    Busy {
        /// The delay in milliseconds.
        after_ms: u32,
    },
    /// The request was not carried out and must not be repeated.
    Refused(RefusedVerb),
    /// The reply to `Reconcile`.
    Reconciled(ReconciliationReply),
    /// The reply to `Grains` or `Functions` with a digest alone: the master does not have these.
    SendAll,
    /// The reply to `Files`.
    Files(FileReply),
    /// The reply to `Pillar`.
    Pillar(PillarReply),
    /// The reply to `Mine`.
    Mine(MineReply),
}

impl MinionReply {
    /// Returns the reply to a request that is to be repeated after `delay`.
    pub fn busy(delay: Duration) -> Self {
        Self::Busy {
            after_ms: after_ms(delay),
        }
    }
}

/// A page of the jobs that a minion may still begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsPage {
    /// The jobs, the oldest first.
    pub jobs: Vec<SignedJob>,
    /// Whether more jobs may follow the last of these.
    pub more: bool,
}
