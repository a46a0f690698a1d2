//! The messages of version 1 in their order: structures as their fields one after the other, enumerations as the
//! number of the variant and its fields, encoded with postcard. What a function takes or returns is
//! MessagePack inside of it, and stays packed here.
#![allow(
    missing_docs,
    reason = "the messages of the protocol say what each field means; this holds the bytes"
)]

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970 on the master's clock.
pub type MasterTime = u64;
/// Twenty digits.
pub type Jid = String;
pub type MinionId = String;
/// A value as MessagePack.
pub type Packed = Vec<u8>;

/// `True` as MessagePack.
pub const TRUE: [u8; 1] = [0xc3];
/// No arguments: an empty list as MessagePack.
pub const NO_ARGUMENTS: [u8; 1] = [0x90];

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_stdvec(message).unwrap()
}

/// Decodes a message, which uses all bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    let decoded = postcard::take_from_bytes(bytes);
    let name = std::any::type_name::<T>();
    let (message, rest) = decoded.unwrap_or_else(|error| panic!("no {name}: {error}: {bytes:x?}"));
    assert!(rest.is_empty(), "bytes follow a {name}: {rest:x?}");
    message
}

macro_rules! messages {
    ($($item:item)*) => {
        $(
            #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
            $item
        )*
    };
}

// What a handshake carries.
messages! {
    pub struct Introduction {
        pub id: String,
        pub identity: [u8; 32],
        pub signature: Vec<u8>,
        pub versions: Versions,
        pub software: String,
        pub extensions: Vec<Extension>,
    }

    #[derive(Copy)]
    pub struct Versions {
        pub lowest: u16,
        pub highest: u16,
    }

    pub struct Extension {
        pub number: u16,
        pub bytes: Vec<u8>,
    }

    pub enum Admission {
        Accepted(Welcome),
        Pending,
        Rejected,
        Denied,
        Full,
        NoCommonVersion { versions: Versions, software: String },
    }

    pub struct Welcome {
        pub clock: MasterTime,
        pub heartbeat_ms: u64,
        pub max_message: u64,
        pub publications: PublicationAddress,
        pub group: Option<GroupKey>,
        pub master: PeerVersion,
        pub extensions: Vec<Extension>,
    }

    pub enum PublicationAddress {
        SameConnection,
        Port(u16),
        Path(String),
    }

    pub struct GroupKey {
        pub epoch: u64,
        pub key: [u8; 32],
        pub last_number: u64,
    }

    pub struct PeerVersion {
        pub protocol: u16,
        pub software: String,
    }
}

// Jobs and returns.
messages! {
    pub struct Target {
        pub kind: TargetKind,
        pub expression: String,
    }

    pub enum TargetKind {
        Glob,
        List,
        Pcre,
        Grain,
        GrainPcre,
        IpCidr,
        Nodegroup,
        Compound,
        Pillar,
        PillarPcre,
    }

    pub struct Job {
        pub jid: Jid,
        pub target: Target,
        pub fun: String,
        pub arg: Packed,
        pub user: String,
        pub created: MasterTime,
        pub expires: MasterTime,
        pub claims: Claims,
    }

    pub enum Claims {
        Of(Vec<MinionId>),
        All,
        Always,
    }

    pub struct SignedJob {
        pub job: Job,
        pub signature: Vec<u8>,
    }

    #[derive(Copy)]
    pub struct Lease {
        pub after: MasterTime,
        pub until: MasterTime,
    }

    pub struct Return {
        pub jid: Jid,
        pub fun: String,
        pub fun_args: Packed,
        pub retcode: i64,
        pub success: bool,
        pub payload: Packed,
    }

    pub struct ReturnPart {
        pub jid: Jid,
        pub transfer: [u8; 16],
        pub total: u64,
        pub offset: u64,
        pub bytes: Vec<u8>,
    }

    pub enum ReturnVerdict {
        Stored,
        Duplicate,
        UnknownJob,
        NotOffered,
        Disputed,
    }

    /// The body of a publication.
    pub enum Body {
        Job(SignedJob),
        GroupKey(GroupKey),
        HeartbeatRequest,
    }
}

// What a minion asks, and its replies.
messages! {
    pub enum PendingRequest {
        Poll,
    }

    pub enum MinionRequest {
        Poll,
        Heartbeat(Heartbeat),
        Started(Vec<Jid>),
        Returns(Vec<Return>),
        ReturnPart(ReturnPart),
        Declined { jid: Jid },
        Claim { jid: Jid },
        PendingJobs { after: Option<Jid> },
        FireEvents(MinionEvents),
        Goodbye,
        Reconcile(Reconciliation),
        Accounts(Vec<JobAccount>),
        Grains(GrainsReport),
    }

    pub struct GrainsReport {
        pub digest: [u8; 32],
        pub grains: Option<Packed>,
    }

    pub struct Heartbeat {
        pub running: Vec<Jid>,
        pub epoch: u64,
        pub begun: u64,
        pub expiry: ExpiryStatement,
    }

    #[derive(Default)]
    pub struct ExpiryStatement {
        pub after: MasterTime,
        pub until: MasterTime,
        pub begun: Vec<Jid>,
    }

    pub struct MinionEvents {
        pub start: [u8; 16],
        pub first: u64,
        pub events: Vec<MinionEvent>,
    }

    pub struct MinionEvent {
        pub tag: String,
        pub data: Packed,
    }

    pub struct Reconciliation {
        pub start: [u8; 16],
        pub predecessors: Vec<[u8; 16]>,
        pub predecessor_ended: bool,
        pub power_lost: bool,
        pub heartbeat: Heartbeat,
        pub accounts: Vec<JobAccount>,
    }

    pub struct JobAccount {
        pub jid: Jid,
        pub known: Known,
    }

    pub enum Known {
        No,
        Running,
        Finished,
        Delivered,
        Barred,
        Forgotten,
    }

    pub enum MinionReply {
        Auth(Admission),
        Heartbeat(HeartbeatReply),
        Done,
        Verdicts(Vec<ReturnVerdict>),
        Received(u64),
        Jobs(JobsPage),
        Claimed(bool),
        Busy { after_ms: u32 },
        Refused(RefusedVerb),
        Reconciled(ReconciliationReply),
        SendGrains,
    }

    pub struct HeartbeatReply {
        pub clock: MasterTime,
        pub heartbeat_ms: u64,
        pub epoch: u64,
        pub group: Option<GroupKey>,
        pub last_all: u64,
        pub last_own: u64,
        pub lease: Lease,
        pub stated_until: MasterTime,
        pub cancelled: Vec<Jid>,
        pub reconcile: bool,
    }

    pub struct ReconciliationReply {
        pub heartbeat: HeartbeatReply,
        pub asked: Vec<Jid>,
    }

    pub struct JobsPage {
        pub jobs: Vec<SignedJob>,
        pub more: bool,
    }

    pub enum RefusedVerb {
        Malformed,
        Replaced,
        KeyGone,
        ShuttingDown,
    }
}

// What an operator asks, and its replies.
messages! {
    pub enum OperatorRequest {
        Publish {
            request_id: [u8; 16],
            target: Target,
            fun: String,
            arg: Packed,
            user: String,
            ttl_ms: Option<u64>,
            private: bool,
            subset: Option<u32>,
            batch: BatchRequest,
        },
        JobReturns { jid: Jid, after: u64 },
        JobStates { jid: Jid, after: Option<MinionId> },
        JobList { limit: u32, before: Option<Jid> },
        JobLookup { jid: Jid },
        Keys(KeyRequest),
        Running,
        Versions,
        Cancel { jid: Jid },
        Store { request_id: [u8; 16], act: StoreAct },
        MatchTarget(Target),
        Grains { target: Target, after: Option<MinionId> },
        Batches,
    }

    pub enum BatchSize {
        Minions(u32),
        Percent(u8),
    }

    #[derive(Default)]
    pub struct BatchRequest {
        pub size: Option<BatchSize>,
        pub wait_ms: u64,
        pub failhard: bool,
        pub safe_limit: Option<u32>,
        pub safe_size: Option<u32>,
    }

    pub enum StoreAct {
        BackUp,
        Check,
    }

    pub enum KeyRequest {
        List,
        Act {
            request_id: [u8; 16],
            action: KeyAction,
            keys: Vec<(KeyState, MinionId)>,
        },
    }

    pub enum KeyAction {
        Accept,
        Reject,
        Delete,
    }

    pub enum KeyState {
        Accepted,
        Denied,
        Pending,
        Rejected,
    }

    pub enum OperatorReply {
        Published(Published),
        Returns(ReturnsPage),
        Jobs(Vec<StoredJob>),
        States(StatesPage),
        Job(StoredJob),
        Keys(KeyReply),
        Running(Vec<(MinionId, Vec<Jid>)>),
        NoSuchJob,
        BadTarget(String),
        Busy { after_ms: u32 },
        Refused(RefusedVerb),
        Failed(String),
        Versions(FleetVersions),
        Cancelling,
        BackedUp(StoreBackup),
        Checked(StoreCheck),
        Matched(TargetMatches),
        Grains(GrainsPage),
        Batches(Vec<BatchProgress>),
    }

    pub struct TargetMatches {
        pub minions: Vec<MinionId>,
        pub unsure: Vec<MinionId>,
        pub unknown: Vec<String>,
    }

    pub struct GrainsPage {
        pub minions: Vec<(MinionId, Option<Packed>)>,
        pub more: bool,
    }

    pub struct Batch {
        pub size: u32,
        pub wait_ms: u64,
        pub failhard: bool,
        pub queues: bool,
    }

    pub struct BatchProgress {
        pub jid: Jid,
        pub batch: Batch,
        pub minions: u64,
        pub waiting: u64,
        pub active: u64,
        pub ended: u64,
        pub stopped: Option<BatchStop>,
    }

    pub enum BatchStop {
        Halted,
        Cancelled,
    }

    pub struct Published {
        pub jid: Option<Jid>,
        pub expires: MasterTime,
        pub minions: Vec<(MinionId, OfferState)>,
        pub unknown: Vec<String>,
        pub unsure: Vec<MinionId>,
        pub batch: Option<Batch>,
    }

    pub enum OfferState {
        Offered,
        NotConnected,
        Queued,
        Running,
        Returned,
        Declined,
        Expired,
        LostTrack,
        MayHaveRun,
        Cancelled,
        Withdrawn,
        ReturnedAndLost,
        NoWord,
        Waiting,
    }

    pub struct ReturnsPage {
        pub returns: Vec<StoredReturn>,
        pub more: bool,
    }

    pub struct StoredReturn {
        pub receipt: u64,
        pub minion: MinionId,
        pub retcode: i64,
        pub success: bool,
        pub payload: Packed,
    }

    pub struct StoredJob {
        pub job: Job,
        pub operator: String,
        pub batch: Option<Batch>,
    }

    pub struct StatesPage {
        pub states: Vec<(MinionId, OfferState)>,
        pub more: bool,
        pub silent: Vec<MinionId>,
        pub clock: MasterTime,
        pub expires: MasterTime,
        pub no_word_since: Vec<(MinionId, MasterTime)>,
        pub duplicates: Vec<MinionId>,
    }

    pub struct KeyReply {
        pub keys: Vec<KeyEntry>,
        pub master: [u8; 32],
        pub duplicates: Vec<(MinionId, Vec<String>)>,
    }

    pub struct KeyEntry {
        pub id: MinionId,
        pub state: KeyState,
        pub identity: [u8; 32],
    }

    pub struct FleetVersions {
        pub software: String,
        pub versions: Versions,
        pub minions: Vec<(MinionId, PeerVersion)>,
    }

    pub struct StoreBackup {
        pub folder: String,
        pub files: u64,
        pub bytes: u64,
    }

    pub struct StoreCheck {
        pub files: u64,
        pub jobs: u64,
        pub returns: u64,
        pub problems: Vec<String>,
    }
}

// What a caller asks, and its replies.
messages! {
    pub enum CallerRequest {
        Return(CallerReturn),
        FireEvents(MinionEvents),
    }

    pub struct CallerReturn {
        pub request_id: [u8; 16],
        pub fun: String,
        pub arg: Packed,
        pub user: String,
        pub retcode: i64,
        pub success: bool,
        pub payload: Packed,
    }

    pub enum CallerReply {
        Stored(Jid),
        Done,
        Busy { after_ms: u32 },
        Refused(RefusedVerb),
        Failed(String),
    }
}
