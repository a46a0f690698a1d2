//! The requests of operators, and the replies to them.

use serde::{Deserialize, Serialize};

use super::{
    Batch, BatchProgress, BatchRequest, FleetVersions, Jid, KeyReply, KeyRequest, MasterTime,
    MinionId, OfferState, PackedArguments, RefusedVerb, RequestId, RunnerReply, RunnerRequest,
    StoredJob, StoredReturn,
};
use saline_data::Packed;
use saline_targeting::Target;

/// A request of an operator.
///
/// Version 1 of the protocol has frozen these, so a master goes on answering those that no program of ours sends any
/// more: runners took the place of `Versions`, `Grains`, `Batches` and `Store` with `BackUp`
/// (`saline-run manage.versions`, `cache.grains`, `batch.list_active`, `store.backup`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorRequest {
    /// Publishes a job.
    Publish(PublishRequest),
    /// Asks for the returns of a job.
    JobReturns {
        /// The jid of the job.
        jid: Jid,
        /// Returns only those that were received after the one with this number: the next page, or
        /// what came since. 0 for all.
        after: u64,
    },
    /// Asks for the states of a job's minions.
    JobStates {
        /// The jid of the job.
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
        /// The jid of the job.
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
        /// The jid of the job.
        jid: Jid,
    },
    /// Copies or checks the job store.
    Store {
        /// Identifies the request, so that it acts once if it is repeated until it is done.
        request_id: RequestId,
        /// The action of the master on its store.
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
    /// Asks where the holders of the keys of these minions are, and when they were heard last. At most
    /// [`MAX_KEY_HOLDERS`] minions.
    KeyHolders(Vec<MinionId>),
    /// Makes a new group key, and sends it to all minions that are present.
    RotateGroupKey,
    /// Publishes a job under a jid that the operator chose.
    PublishWithJid(Box<PublicationWithJid>),
}

impl OperatorRequest {
    /// Returns the name of the verb, for the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Publish(_) => "Publish",
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
            Self::KeyHolders(_) => "KeyHolders",
            Self::RotateGroupKey => "RotateGroupKey",
            Self::PublishWithJid(_) => "PublishWithJid",
        }
    }
}

/// The largest packed metadata of a job, in bytes.
pub const MAX_METADATA: usize = 64 * 1024;

/// A job to be published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishRequest {
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
    /// How long minions may take to begin, in milliseconds: the job is queued for those that are
    /// away. None for the configured time, and only minions that are present.
    pub ttl_ms: Option<u64>,
    /// Whether the job is sealed for each of its minions alone, however many they are. Otherwise a job
    /// for more than 64 minions is sealed once, with a key that every accepted minion has.
    pub private: bool,
    /// Chooses so many at random of the minions that match and are present; none for all that match.
    pub subset: Option<u32>,
    /// Whether the job is offered to a few minions at a time.
    pub batch: BatchRequest,
}

/// A job to be published, with metadata. On the wire the fields of both follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicationWithMetadata {
    /// The job to publish.
    pub publish: PublishRequest,
    /// The metadata of the job, to find it by: a mapping of at most [`MAX_METADATA`] bytes. The
    /// master stores it; minions do not get it.
    pub metadata: Packed,
}

/// A job to be published under a jid that the operator chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicationWithJid {
    /// The job to publish.
    pub publish: PublishRequest,
    /// The metadata of the job, as in [`PublicationWithMetadata`].
    pub metadata: Option<Packed>,
    /// The jid: above that of every job of the master, and at most a minute before the master's time.
    pub jid: Jid,
}

/// An action on the whole job store.
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
    /// The reply to `Publish`, `PublishWithMetadata` and `PublishWithJid`, sent after the commit.
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
    /// The reply to `KeyHolders`: for each minion in their order its accepted key, then others.
    KeyHolders(Vec<KeyHolder>),
    /// The reply to `RotateGroupKey`.
    Rotated,
    /// The request cannot be carried out as it is, for this reason: the reply to a verb that version 1 did not have.
    Invalid(String),
}

/// The largest number of minions in one request for key_holders.
pub const MAX_KEY_HOLDERS: usize = 250;

/// Where the holder of a key was when the master heard it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyHolder {
    /// The minion that it says to be.
    pub minion: MinionId,
    /// Its Ed25519 public key, 32 bytes.
    pub identity: [u8; 32],
    /// Whether that was in a session of the minion's accepted key.
    pub is_accepted: bool,
    /// Its address without a port, or its network; none where the transport does not tell it.
    pub address: Option<String>,
    /// How long ago that was, in milliseconds; none when the master was started since.
    pub heard_ms: Option<u64>,
}

/// The minions that a target includes, as far as the master knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMatches {
    /// The minions, by id.
    pub minions: Vec<MinionId>,
    /// The minions of which the master knows no grains: they may turn out not to match.
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
    /// The size of the files in bytes.
    pub bytes: u64,
}

/// The result of a check of the job store.
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
    /// The minions of which the master knows no grains, though the target looks at them: they decide
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
    /// The minions in an open state, other than queued, that are gone: their connection has ended, or they have been
    /// silent for two heartbeats.
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
