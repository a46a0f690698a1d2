//! The requests that a master takes: one closed enum for each audience, so that a new verb is
//! refused until it is listed.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::envelope::after_ms;
use super::{
    Admission, Batch, BatchProgress, BatchRequest, Heartbeat, HeartbeatReply, Jid, JobAccount,
    MasterTime, MinionId, OfferState, Packed, PackedArguments, PeerVersion, ProtocolVersions,
    Reconciliation, ReconciliationReply, RequestId, Return, ReturnPart, ReturnVerdict, RunnerReply,
    RunnerRequest, SignedJob, StartId, StoredJob, StoredReturn,
};
use crate::target::Target;

/// The only request of a session that is not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingRequest {
    /// Asks whether the key has been accepted. Encoded as [`MinionRequest::Poll`] and answered with
    /// [`MinionReply::Auth`], since the sender does not know whether the key was accepted
    /// meanwhile.
    Poll,
}

/// The largest number of returns in one request.
pub const RETURNS_MOST: usize = 64;

/// The largest number of jobs in one report of jobs that were begun.
pub const STARTED_MOST: usize = 256;

/// A request of a minion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinionRequest {
    /// Asks whether the key has been accepted.
    Poll,
    /// Reports that the minion lives.
    Heartbeat(Heartbeat),
    /// Reports that the minion has begun these jobs, at most [`STARTED_MOST`].
    Started(Vec<Jid>),
    /// Delivers the returns of at most [`RETURNS_MOST`] jobs.
    Returns(Vec<Return>),
    /// Delivers a part of a large return. With the last one the return is delivered.
    ReturnPart(ReturnPart),
    /// Reports that the minion does not match the target of a job.
    Declined {
        /// The job.
        jid: Jid,
    },
    /// Asks whether the minion may begin a job that it matches and that its lease does not cover.
    Claim {
        /// The job.
        jid: Jid,
    },
    /// Asks for the unexpired jobs that were offered to the minion and that it may still begin.
    PendingJobs {
        /// Returns only jobs after this one: the next page.
        after: Option<Jid>,
    },
    /// Fires events on the master's bus.
    FireEvents(MinionEvents),
    /// Announces that the minion stops.
    Goodbye,
    /// Begins a session, or goes on with its beginning.
    Reconcile(Reconciliation),
    /// Says what the minion knows of jobs: those that it was handed and has seen before, and those that
    /// were cancelled. At most [`ACCOUNTS_MOST`](super::ACCOUNTS_MOST).
    Accounts(Vec<JobAccount>),
    /// Reports the minion's grains, after the session began and when they have changed.
    Grains(GrainsReport),
}

/// The grains of a minion: first their digest alone, and all of them if the master asks for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrainsReport {
    /// The [digest](Self::digest_of) of the packed grains.
    pub digest: [u8; 32],
    /// The grains, a mapping of at most [`GRAINS_MOST`](crate::target::GRAINS_MOST) bytes.
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
            Self::Goodbye => "Goodbye",
            Self::Reconcile(_) => "Reconcile",
            Self::Accounts(_) => "Accounts",
            Self::Grains(_) => "Grains",
        }
    }
}

/// The largest number of events in one request.
pub const EVENTS_MOST: usize = 256;

/// The largest data of a minion's event, in bytes.
pub const EVENT_DATA_MOST: usize = 64 * 1024;

/// Events of a minion, at most [`EVENTS_MOST`]. Each is fired once, also when the request is repeated: the
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
    /// The data, a mapping of at most [`EVENT_DATA_MOST`] bytes.
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
    /// `ReturnPart`.
    Verdicts(Vec<ReturnVerdict>),
    /// The reply to another `ReturnPart`: the master has this many bytes of the return, from its
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
    /// The reply to `Grains` with a digest alone: the master does not have these grains.
    SendGrains,
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

/// The reason why a request in a session was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusedVerb {
    /// The bytes are no request of this audience.
    Malformed,
    /// The session has ended: another one of the same minion took its place.
    Replaced,
    /// The session has ended: its key was deleted or rejected.
    KeyGone,
    /// The master stops.
    ShuttingDown,
}

impl fmt::Display for RefusedVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the master cannot read it",
            Self::Replaced => "another session has taken the place of this one",
            Self::KeyGone => "the key was deleted or rejected",
            Self::ShuttingDown => "the master stops",
        })
    }
}

/// A request of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorRequest {
    /// Publishes a job.
    Publish {
        /// Identifies the request, so that the job is published once if the request is repeated.
        request_id: RequestId,
        /// The minions that run the job.
        target: Target,
        /// The function, `module.function`.
        fun: String,
        /// The arguments of the function.
        arg: PackedArguments,
        /// The user who asks; for the record, no authority.
        user: String,
        /// How long minions may take to begin, in milliseconds: the job is queued for those that are
        /// away. None for the configured time, and only minions that are present.
        ttl_ms: Option<u64>,
        /// Whether the job is sealed for each of its minions alone, however many they are. Otherwise a job
        /// for more than 64 minions is sealed once, with a key that every accepted minion has.
        private: bool,
        /// Chooses so many at random of the minions that match and are present; none for all that match.
        subset: Option<u32>,
        /// Whether the job is offered to a few minions at a time.
        batch: BatchRequest,
    },
    /// Asks for the returns of a job.
    JobReturns {
        /// The job.
        jid: Jid,
        /// Returns only those that were received after the one with this number: the next page, or
        /// what came since. 0 for all.
        after: u64,
    },
    /// Asks for the states of a job's minions.
    JobStates {
        /// The job.
        jid: Jid,
        /// Returns only those of minions after this one, by id: the next page.
        after: Option<MinionId>,
    },
    /// Asks for the jobs in the store, the newest first.
    JobList {
        /// The largest number of jobs.
        limit: u32,
        /// Returns only jobs before this one: the next page.
        before: Option<Jid>,
    },
    /// Asks for one job.
    JobLookup {
        /// The job.
        jid: Jid,
    },
    /// Lists or changes keys.
    Keys(KeyRequest),
    /// Asks for the jobs that each minion runs, by its last heartbeat.
    Running,
    /// Asks for the versions of the master and of the minions that are present.
    Versions,
    /// Cancels a job: minions that have not begun it will not run it.
    Cancel {
        /// The job.
        jid: Jid,
    },
    /// Copies or checks the job store.
    Store {
        /// Identifies the request, so that it acts once if it is repeated until it is done.
        request_id: RequestId,
        /// What to do.
        act: StoreAct,
    },
    /// Asks which minions a target includes.
    MatchTarget(Target),
    /// Asks for the grains of the minions that a target includes.
    Grains {
        /// The minions.
        target: Target,
        /// Returns only those of minions after this one, by id: the next page.
        after: Option<MinionId>,
    },
    /// Asks for the batches that are under way.
    Batches,
    /// Begins, ends or reads a runner.
    Runner(RunnerRequest),
    /// Publishes a job with metadata.
    PublishWithMetadata(Box<PublicationWithMetadata>),
}

impl OperatorRequest {
    /// Returns the name of the verb, for the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Publish { .. } => "Publish",
            Self::JobReturns { .. } => "JobReturns",
            Self::JobStates { .. } => "JobStates",
            Self::JobList { .. } => "JobList",
            Self::JobLookup { .. } => "JobLookup",
            Self::Keys(_) => "Keys",
            Self::Running => "Running",
            Self::Versions => "Versions",
            Self::Cancel { .. } => "Cancel",
            Self::Store { .. } => "Store",
            Self::MatchTarget(_) => "MatchTarget",
            Self::Grains { .. } => "Grains",
            Self::Batches => "Batches",
            Self::Runner(_) => "Runner",
            Self::PublishWithMetadata(_) => "PublishWithMetadata",
        }
    }
}

/// The largest packed metadata of a job, in bytes.
pub const METADATA_MOST: usize = 64 * 1024;

/// The fields of [`OperatorRequest::Publish`], which does not change, and metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicationWithMetadata {
    /// Identifies the request, so that the job is published once if the request is repeated.
    pub request_id: RequestId,
    /// The minions that run the job.
    pub target: Target,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arg: PackedArguments,
    /// The user who asks; for the record, no authority.
    pub user: String,
    /// How long minions may take to begin, in milliseconds; none for the configured time.
    pub ttl_ms: Option<u64>,
    /// Whether the job is sealed for each of its minions alone.
    pub private: bool,
    /// Chooses so many at random of the minions that match and are present.
    pub subset: Option<u32>,
    /// Whether the job is offered to a few minions at a time.
    pub batch: BatchRequest,
    /// What the operator notes with the job, to find it by: a mapping of at most [`METADATA_MOST`] bytes. The
    /// master stores it; minions do not get it.
    pub metadata: Packed,
}

/// What is done with the whole job store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreAct {
    /// Copies it into a new folder of the master.
    BackUp,
    /// Reads all of it and reports what does not fit together.
    Check,
}

/// The reply to an operator's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorReply {
    /// The reply to `Publish` and `PublishWithMetadata`, sent after the commit.
    Published(Published),
    /// The reply to `JobReturns`.
    Returns(ReturnsPage),
    /// The reply to `JobList`.
    Jobs(Vec<StoredJob>),
    /// The reply to `JobStates`.
    States(StatesPage),
    /// The reply to `JobLookup`.
    Job(StoredJob),
    /// The reply to `Keys`.
    Keys(KeyReply),
    /// The reply to `Running`.
    Running(Vec<(MinionId, Vec<Jid>)>),
    /// The store has no such job.
    NoSuchJob,
    /// The target is malformed, for this reason.
    BadTarget(String),
    /// The request was not carried out; repeat it later.
    Busy {
        /// The delay in milliseconds.
        after_ms: u32,
    },
    /// The request was not carried out and must not be repeated.
    Refused(RefusedVerb),
    /// The master's store or disk failed, for this reason.
    Failed(String),
    /// The reply to `Versions`.
    Versions(FleetVersions),
    /// The reply to `Cancel`: the request is stored. The states of the job tell what came of it.
    Cancelling,
    /// The reply to `Store` with `BackUp`.
    BackedUp(StoreBackup),
    /// The reply to `Store` with `Check`.
    Checked(StoreCheck),
    /// The reply to `MatchTarget`.
    Matched(TargetMatches),
    /// The reply to `Grains`.
    Grains(GrainsPage),
    /// The reply to `Batches`, the oldest first.
    Batches(Vec<BatchProgress>),
    /// The reply to `Runner`.
    Runner(RunnerReply),
}

/// The minions that a target includes, as far as the master knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMatches {
    /// The minions, by id.
    pub minions: Vec<MinionId>,
    /// Those of them of which the master knows no grains: they may turn out not to match.
    pub unsure: Vec<MinionId>,
    /// The names in a list for which there is no key.
    pub unknown: Vec<String>,
}

/// A page of the grains that a master knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrainsPage {
    /// The grains of each minion by id, beginning after `after`; none when the master does not know them.
    pub minions: Vec<(MinionId, Option<Packed>)>,
    /// Whether more minions follow the last of these.
    pub more: bool,
}

/// A copy of the job store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreBackup {
    /// The folder on the master's machine.
    pub folder: String,
    /// The number of files in it.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// What a check of the job store found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCheck {
    /// The number of files.
    pub files: u64,
    /// The number of jobs in them.
    pub jobs: u64,
    /// The number of returns in them.
    pub returns: u64,
    /// One sentence for each problem.
    pub problems: Vec<String>,
}

/// A published job. If no minion matched there is no jid, and nothing was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The job's id.
    pub jid: Option<Jid>,
    /// The time until which minions may begin.
    pub expires: MasterTime,
    /// The expected minions and their states.
    pub minions: Vec<(MinionId, OfferState)>,
    /// The names in a list for which there is no key.
    pub unknown: Vec<String>,
    /// Those of the minions of which the master knows no grains, though the target looks at them: they decide
    /// themselves, and may decline. Empty in the reply to a request that was repeated.
    pub unsure: Vec<MinionId>,
    /// How the job is carried out in batches, if it is.
    pub batch: Option<Batch>,
}

/// A page of the returns of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnsPage {
    /// Returns in the order of their receipt, beginning after `after`.
    pub returns: Vec<StoredReturn>,
    /// Whether more returns follow the last of these.
    pub more: bool,
}

/// A page of the states of a job's minions. When it is read after the returns, it may have a minion in
/// the state `Returned` whose return was stored in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatesPage {
    /// The state of each expected minion by id, beginning after `after`.
    pub states: Vec<(MinionId, OfferState)>,
    /// Whether more minions follow the last of these.
    pub more: bool,
    /// Those of the minions that were offered the job or run it, and whose session has been silent for
    /// two heartbeats.
    pub silent: Vec<MinionId>,
    /// The master's clock.
    pub clock: MasterTime,
    /// The time until which minions may begin.
    pub expires: MasterTime,
    /// For those of the minions in the state `NoWord`: the last expiry up to which each gave its word.
    pub no_word_since: Vec<(MinionId, MasterTime)>,
    /// The ids under which two machines, or a machine and a copy of it, are in use.
    pub duplicates: Vec<MinionId>,
}

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
    /// The minion.
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

/// A request about keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyRequest {
    /// Lists all keys.
    List,
    /// Applies an action to keys.
    Act {
        /// Identifies the request, so that it acts once if it is repeated.
        request_id: RequestId,
        /// The action.
        action: KeyAction,
        /// The keys. A key that is no longer in the given state is left alone.
        keys: Vec<(KeyState, MinionId)>,
    },
}

/// The reply to a request about keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReply {
    /// All keys for `List`; the changed keys in their new state for `Act`.
    pub keys: Vec<KeyEntry>,
    /// The master's own identity, 32 bytes.
    pub master: [u8; 32],
    /// The ids under which two machines, or a machine and a copy of it, are in use, with the address of
    /// each.
    pub duplicates: Vec<(MinionId, Vec<String>)>,
}

/// The versions of a master and of the minions that are present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetVersions {
    /// The version of the master's software.
    pub software: String,
    /// The protocol versions that the master speaks.
    pub versions: ProtocolVersions,
    /// Each minion, in the order of the ids.
    pub minions: Vec<(MinionId, PeerVersion)>,
}
