//! The requests of operators, and the replies to them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::envelope::after_ms;
use super::{
    ActAsRequest, Arguments, Batch, BatchRequest, EventsPage, EventsRequest, Jid, KeyReply,
    KeyRequest, LoginReply, LoginRequest, LoginToken, MasterTime, MinionId, MinionJobState,
    PackedArguments, PlannedEnd, RefusedVerb, RequestId, RunnerReply, RunnerRequest, Secrets,
    StoredReturn, TokenReply, TokenRequest, UploadReply, UploadRequest,
};
use saline_data::Packed;
use saline_targeting::Target;

/// A request of an operator. What a runner tells or does has no verb of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "a request is under way for a moment, and none is kept"
)]
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
    /// Lists or changes keys.
    Keys(KeyRequest),
    /// Cancels a job: minions that have not begun it will not run it.
    Cancel {
        /// The jid of the job.
        jid: Jid,
    },
    /// Asks which minions a target includes.
    MatchTarget {
        /// The target.
        target: Target,
        /// Includes minions that have reported no grains, where it depends on these.
        include_unknown: bool,
    },
    /// Begins, ends or reads a runner.
    Runner(RunnerRequest),
    /// Asks where and when each key of these minions was seen last. At most [`MAX_LAST_SEEN`] minions.
    LastSeen(Vec<MinionId>),
    /// Makes a new group key, and sends it to all minions that are present.
    RotateGroupKey,
    /// Makes, lists or revokes tokens that let minions in.
    Tokens(TokenRequest),
    /// Hands in files for the minions of a job.
    Upload(UploadRequest),
    /// Asks whether the master replies, and as whom it takes the one who asks.
    Ping,
    /// Logs a user in.
    Login(LoginRequest),
    /// Ends a login.
    Logout(LoginToken),
    /// Asks for something in the name of the user of a login.
    ActAs(ActAsRequest),
    /// Asks for events.
    Events(EventsRequest),
}

impl OperatorRequest {
    /// Returns the name of the verb, for the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Publish(_) => "Publish",
            Self::JobReturns { .. } => "JobReturns",
            Self::JobStates { .. } => "JobStates",
            Self::Keys(_) => "Keys",
            Self::Cancel { .. } => "Cancel",
            Self::MatchTarget { .. } => "MatchTarget",
            Self::Runner(_) => "Runner",
            Self::LastSeen(_) => "LastSeen",
            Self::RotateGroupKey => "RotateGroupKey",
            Self::Tokens(_) => "Tokens",
            Self::Upload(_) => "Upload",
            Self::Ping => "Ping",
            Self::Login(_) => "Login",
            Self::Logout(_) => "Logout",
            Self::ActAs(_) => "ActAs",
            Self::Events(_) => "Events",
        }
    }
}

/// The largest packed metadata of a job, in bytes.
pub const MAX_METADATA: usize = 64 * 1024;

/// The largest number of destinations that an order may name for a job.
pub const MAX_RETURNERS: usize = 16;

/// A job to be published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishRequest {
    /// Identifies the request, so that the job is published once if the request is repeated.
    pub request_id: RequestId,
    /// The minions that run the job.
    pub target: Target,
    /// Whether minions that have reported no grains are asked too, where the target depends on these.
    pub include_unknown: bool,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function, with a marker in the place of each secret one.
    pub arg: PackedArguments,
    /// The values of the secret arguments; none if there are none. With them the job is sealed for each of its minions
    /// alone.
    pub secrets: Option<Secrets>,
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
    /// The metadata of the job, to find it by: a mapping of at most [`MAX_METADATA`] bytes. The master stores it;
    /// minions do not get it.
    pub metadata: Option<Packed>,
    /// The jid of the job: above that of every job of the master, and at most a second ahead of the master's time. None
    /// for one that the master makes.
    pub jid: Option<Jid>,
    /// The names of the destinations outside of the master that get the job and its returns, beside those that get every one:
    /// at most [`MAX_RETURNERS`]. The master delivers; minions do not get the names.
    pub returners: Box<[String]>,
    /// Whether the job is published although none of its minions can know the function: each then returns that itself, as in
    /// Salt. Otherwise the master refuses the order.
    pub allow_unknown_functions: bool,
}

impl PublishRequest {
    /// Creates a request for a job of a function without arguments, with no other options than those of every job.
    pub fn new(
        request_id: RequestId,
        target: Target,
        fun: impl Into<String>,
        user: impl Into<String>,
    ) -> Self {
        Self {
            request_id,
            target,
            include_unknown: false,
            fun: fun.into(),
            arg: Arguments::default().pack(),
            secrets: None,
            user: user.into(),
            ttl_ms: None,
            private: false,
            subset: None,
            batch: BatchRequest::default(),
            metadata: None,
            jid: None,
            returners: Box::default(),
            allow_unknown_functions: false,
        }
    }
}

/// The reply to an operator's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorReply {
    /// The reply to `Publish`, sent after the commit.
    Published(Published),
    /// The reply to `JobReturns`.
    Returns(ReturnsPage),
    /// The reply to `JobStates`.
    States(StatesPage),
    /// The reply to `Keys`.
    Keys(KeyReply),
    /// The store has no such job.
    NoSuchJob,
    /// The target is malformed, for this reason.
    BadTarget(String),
    /// The request was not carried out and must not be repeated.
    Refused(RefusedVerb),
    /// The master's store or disk failed, for this reason.
    Failed(String),
    /// The reply to `Cancel`, with what the operator is warned of: the request is stored. The states of the job tell what came of it.
    Cancelling(Vec<OrderWarning>),
    /// The reply to `MatchTarget`.
    Matched(TargetMatches),
    /// The reply to `Runner`.
    Runner(RunnerReply),
    /// The reply to `LastSeen`: for each minion in their order its accepted key, then others.
    LastSeen(Vec<LastSeen>),
    /// The reply to `RotateGroupKey`, with what the operator is warned of.
    Rotated(Vec<OrderWarning>),
    /// The request cannot be carried out as it is, for this reason.
    Invalid(String),
    /// No rule allows the request, or it cannot be noted in the audit file; in one line.
    NotAllowed(String),
    /// The operator has asked for too much: ask again after this time.
    Busy {
        /// The delay in milliseconds.
        after_ms: u32,
    },
    /// The reply to `Tokens`.
    Tokens(TokenReply),
    /// The reply to `Upload`.
    Upload(UploadReply),
    /// The reply to `Ping`, to the user, operator or API of this name.
    Pong(String),
    /// The reply to `Login`.
    Login(LoginReply),
    /// The reply to `Logout`, whether there was such a login or not.
    LoggedOut,
    /// The reply to `ActAs` with a token that is not valid: it never was, has expired or was revoked.
    NotLoggedIn,
    /// The reply to `Events`.
    Events(EventsPage),
}

impl OperatorReply {
    /// Returns the answer to an operator that asks for too much and has to wait for so long.
    pub fn busy(delay: Duration) -> Self {
        Self::Busy {
            after_ms: after_ms(delay),
        }
    }
}

/// The largest number of minions in one `LastSeen`.
pub const MAX_LAST_SEEN: usize = 250;

/// Where and when the master saw the minion behind a key last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSeen {
    /// The id under which it came.
    pub minion: MinionId,
    /// Its Ed25519 public key, 32 bytes.
    pub identity: [u8; 32],
    /// Whether that was in a session of the minion's accepted key.
    pub is_accepted: bool,
    /// Its address without a port, or its source.
    pub address: Option<String>,
    /// How long ago that was, in milliseconds; none when the master was started since.
    pub heard_ms: Option<u64>,
}

/// The minions that a target includes, as far as the master knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMatches {
    /// The minions, by id.
    pub minions: Vec<MinionId>,
    /// The minions that have reported no grains, where the target depends on these. They are among the `minions` only
    /// where that was asked for, and may turn out not to match.
    pub without_grains: Vec<MinionId>,
    /// The minions of which the master has no pillar, where the target depends on it. They are never among the `minions`.
    pub without_pillar: Vec<MinionId>,
    /// The names in a list for which there is no key.
    pub unknown: Vec<String>,
}

/// A published job. If no minion matched there is no jid, and nothing was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The job's id.
    pub jid: Option<Jid>,
    /// The time until which minions may begin.
    pub expires: MasterTime,
    /// The expected minions and their states.
    pub minions: Vec<(MinionId, MinionJobState)>,
    /// The names in a list for which there is no key.
    pub unknown: Vec<String>,
    /// The minions that have reported no grains, where the target depends on these. They get the job only where that was
    /// asked for; then they decide themselves, and may decline. Empty in the reply to a request that was repeated.
    pub without_grains: Vec<MinionId>,
    /// The minions of which the master has no pillar, where the target depends on it. They do not get the job. Empty in the
    /// reply to a request that was repeated.
    pub without_pillar: Vec<MinionId>,
    /// How the job is carried out in batches, if it is.
    pub batch: Option<Batch>,
    /// What the operator is warned of.
    pub warnings: Vec<OrderWarning>,
}

/// What an operator is warned of about an order that is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum OrderWarning {
    /// The job has secrets, and what minions say of themselves may have decided who gets them.
    #[error(
        "the minions that got the secret were chosen by what they say of themselves, such as grains and addresses; choose them \
         by ids, or by roles that you assign"
    )]
    SecretsByClaims,
    /// The order has no line in the audit file, which cannot be written, for this reason. Orders of local root go on without one, and
    /// so do ends of runs.
    #[error("this order has no line in the audit file, which cannot be written: {0}")]
    NotAudited(String),
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
    pub states: Vec<(MinionId, MinionJobState)>,
    /// Whether more minions follow the last of these.
    pub more: bool,
    /// The minions in an open state, other than queued, that are gone: their connection has ended, or they have been
    /// silent for two heartbeats.
    pub silent: Vec<MinionId>,
    /// The minions in the state `Running` that are present and do not know the job: another start of the minion may run
    /// it.
    pub disputed: Vec<MinionId>,
    /// The `silent` ones whose machines were planned to reboot or shut down when they left, a while ago at most.
    pub planned: Vec<(MinionId, PlannedEnd)>,
    /// The minions in the state `Offered` that are present and run as many jobs as they may at once: the job waits there.
    pub busy: Vec<MinionId>,
    /// The master's clock.
    pub clock: MasterTime,
    /// The time until which minions may begin.
    pub expires: MasterTime,
    /// For those of the minions in the state `Unconfirmed`: the last expiry that each acknowledged.
    pub unconfirmed_since: Vec<(MinionId, MasterTime)>,
    /// The ids under which two machines, or a machine and a copy of it, are in use.
    pub duplicates: Vec<MinionId>,
}
