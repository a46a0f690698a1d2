//! The messages between a master and its peers: the envelope, and the messages inside it.
//!
//! The wire is `postcard` behind an explicit version and kind ([`Header`]). Once a version is released,
//! messages grow by new kinds and new variants at the end only. The values that functions take and return are
//! self-describing ([`Value`](saline_data::Value)) and travel packed ([`Packed`](saline_data::Packed)), so
//! that a master passes them on as they came. It unpacks arguments where rules judge them, and what it shows.

mod arguments;
mod auth;
mod batch;
mod caller;
mod calls;
mod envelope;
mod event;
mod event_origin;
mod event_page;
mod event_tag;
mod files;
mod id;
mod job;
mod keys;
mod login;
mod mine;
mod minion;
mod minion_functions;
mod minion_job_state;
mod operator;
mod pillar;

pub mod random;
mod reconciliation;
mod refused_verb;
mod run_kind;
mod runner;
mod secrets;
mod tokens;
mod transfer;
mod uploads;

mod version;

pub use arguments::{Arguments, PackedArguments};
pub use auth::{Admission, GroupKeyMaterial, Introduction, PublicationAddress, Role, Welcome};
pub use batch::{Batch, BatchRequest, BatchSize};
pub use caller::{
    CallerReply, CallerRequest, CallerReturn, MAX_CALL_ARGUMENTS, MAX_CALL_NAME, MAX_SCHEDULE_NAME,
    ScheduledReturn, ScheduledRun, is_function_name, schedule_of_user, user_of_schedule,
};
pub use calls::{CallsError, calls, compound, is_compound, shown_functions};
pub use envelope::{
    Class, ENVELOPE_VERSION, EnvelopeError, HEADER_LEN, Header, Kind, Refusal, busy, refusal,
};
pub use event::{Event, MAX_HOOK_ARGUMENTS};
pub use event_origin::{EventOrigin, OriginKind};
pub use event_page::{EventCursor, EventsPage, EventsRequest, MAX_EVENT_PREFIXES, MAX_EVENTS_WAIT};
pub use event_tag::{BatchEvent, EventTag, JobEvent, RunEvent};
pub use files::{
    FileEntry, FileKind, FilePlace, FileRefusal, FileReply, FileRequest, FilesPage,
    MAX_ENVIRONMENT, SeenFile,
};
pub use id::{IdError, Jid, MinionId, RequestId, SessionId, StartId};
pub use job::{
    CLAIMS_NAMED, Job, Lease, MasterTime, MustClaim, RETCODE_INTERRUPTED, Return, ReturnVerdict,
    SignedJob, StoredReturn,
};
pub use keys::{ApiKeyAction, KeyAction, KeyEntry, KeyReply, KeyRequest, KeyState};
pub use login::{
    ActAsRequest, LoggedIn, LoginReply, LoginRequest, LoginToken, MAX_LOGIN_TEXT, NetapiClient,
    Password,
};
pub use mine::{
    FoundEntry, MAX_MINE_ALLOWED_BYTES, MAX_MINE_BYTES, MAX_MINE_ENTRIES, MAX_MINE_FUNCTIONS,
    MAX_MINE_NAME_BYTES, MAX_MINE_TARGET_BYTES, MAX_MINE_VALUE_BYTES, MineEntry, MinePage,
    MineRefusal, MineReply, MineRequest, is_mine_name, mine_names,
};
pub use minion::{
    GrainsReport, JobsPage, MAX_EVENT_DATA, MAX_EVENTS, MAX_RETURNS, MAX_STARTED, MinionEvent,
    MinionEvents, MinionReply, MinionRequest, PendingRequest, PlannedEnd,
};
pub use minion_functions::{
    FunctionsError, FunctionsReport, MAX_FUNCTIONS_BYTES, MinionFunctions, is_plain_name,
};
pub use minion_job_state::MinionJobState;
pub use operator::{
    LastSeen, MAX_LAST_SEEN, MAX_METADATA, MAX_RETURNERS, OperatorReply, OperatorRequest,
    OrderWarning, PublishRequest, Published, ReturnsPage, StatesPage, TargetMatches,
};
pub use pillar::{
    MAX_PILLAR, MAX_PILLAR_ERRORS, MinionPillar, PillarRefusal, PillarReply, PillarRequest,
};
pub use reconciliation::{
    ExpiryAck, Heartbeat, HeartbeatReply, JobAccount, Known, MAX_ACCOUNTS, MAX_PREDECESSORS,
    MAX_RUNNING, Reconciliation, ReconciliationReply,
};
pub use refused_verb::RefusedVerb;
pub use run_kind::RunKind;
pub use runner::{EndedRun, RunnerCall, RunnerEnd, RunnerReply, RunnerRequest};
pub use secrets::{ArgumentPlace, MAX_SECRET, SecretError, Secrets, is_secret};
pub use tokens::{
    MAX_TOKEN_TIME, MAX_TOKEN_USES, NewToken, NotTokenName, TokenEntry, TokenName, TokenRefusal,
    TokenReply, TokenRequest,
};
pub use transfer::{
    ForeignPart, Incoming, MAX_PART, Outgoing, PARTS_FROM, Part, ReturnPart, TransferDigest,
    TransferId,
};
pub use uploads::{MAX_UPLOADED_FILES, UPLOADS_ENVIRONMENT, UploadId, UploadReply, UploadRequest};
pub use version::{
    Extension, MAX_SOFTWARE, PeerVersion, ProtocolVersions, SOFTWARE, is_presentable,
};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes inside an envelope are not the expected message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not of type {what}: {source}")]
pub struct DecodeError {
    what: &'static str,
    source: postcard::Error,
}

impl DecodeError {
    fn of<T>(source: postcard::Error) -> Self {
        Self {
            what: short_type_name::<T>(),
            source,
        }
    }
}

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // Messages are made of types whose lengths are known, and writing to memory does not fail.
    postcard::to_stdvec(message).unwrap_or_default()
}

/// Encodes a message behind what is in `head`, as [`encode`] does.
pub fn encode_behind<T: Serialize>(head: Vec<u8>, message: &T) -> Vec<u8> {
    postcard::to_extend(message, head).unwrap_or_default()
}

/// Decodes a message, which must use all bytes.
///
/// # Errors
/// When the bytes are not such a message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    match decode_front(bytes)? {
        (message, []) => Ok(message),
        _ => Err(DecodeError::of::<T>(
            postcard::Error::DeserializeBadEncoding,
        )),
    }
}

/// Decodes the message that bytes begin with, and returns it with what is behind it.
///
/// # Errors
/// When the bytes do not begin with such a message.
pub fn decode_front<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), DecodeError> {
    postcard::take_from_bytes(bytes).map_err(DecodeError::of::<T>)
}

/// Returns the name of a message's type without its path and its parameters.
fn short_type_name<T>() -> &'static str {
    let full = std::any::type_name::<T>();
    let path = full.split('<').next().unwrap_or(full);
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_cleanly(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<MinionRequest>(&bytes);
            let _ = decode::<MinionReply>(&bytes);
            let _ = decode::<OperatorRequest>(&bytes);
            let _ = decode::<OperatorReply>(&bytes);
            let _ = decode::<PendingRequest>(&bytes);
            let _ = decode::<Admission>(&bytes);
            let _ = decode::<Introduction>(&bytes);
            let _ = decode::<SignedJob>(&bytes);
            let _ = Event::decode(&bytes);
        }
    }

    #[test]
    fn an_announced_length_reserves_nothing() {
        // `Jobs` with 2^60 elements of which none follows.
        let none = JobsPage {
            jobs: Vec::new(),
            more: false,
        };
        let mut bytes = encode(&MinionReply::Jobs(none))[..1].to_vec();
        bytes.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(decode::<MinionReply>(&bytes).is_err());
    }

    #[test]
    fn a_message_that_does_not_decode_is_named() {
        let error = decode::<Admission>(&[9]).unwrap_err().to_string();
        assert!(error.starts_with("not of type Admission: "), "{error}");
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut bytes = encode(&MinionRequest::Goodbye(None));
        bytes.push(0);
        assert!(decode::<MinionRequest>(&bytes).is_err());
    }
}
