//! The errors that an operator sees, each in one line: what happened, to what, what to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_channel::{ChannelError, Distrust, KeyError};
use saline_messages::{Jid, ProtocolVersions, Refusal};
use saline_protocol::transport;

/// The reason why a request to the master failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No master listens.
    #[error(
        "no master answers at {endpoint}: is saline-master running? Start it, or name its configuration folder with -c"
    )]
    MasterDown {
        /// The master's endpoint.
        endpoint: String,
        /// The error of the transport.
        source: Option<transport::Error>,
    },
    /// The key that a master creates at its first start does not exist.
    #[error(
        "no master answers at {endpoint}: {} does not exist, so saline-master was never started with this configuration; start it, or name another configuration folder with -c",
        path.display()
    )]
    NeverStarted {
        /// The master's endpoint.
        endpoint: String,
        /// The missing file.
        path: PathBuf,
    },
    /// The master was connected, and has been away for too long.
    #[error(
        "the master at {endpoint} has been gone for {} s: start saline-master again. What it was asked last may have been done. Minions keep running the jobs that they have begun, and keep the returns",
        gone.as_secs()
    )]
    MasterGone {
        /// The master's endpoint.
        endpoint: String,
        /// How long the master has been away.
        gone: Duration,
    },
    /// The local operator's key cannot be read.
    #[error(
        "cannot read {}: permission denied; run this as the user that saline-master runs as, or as root, or have root allow you functions with publisher_acl in the master's configuration, and restart saline-master if nobody was named there before",
        path.display()
    )]
    NotPermitted {
        /// The file.
        path: PathBuf,
    },
    /// The master lets users of this machine in, and no rule is for this one.
    #[error(
        "no rule of publisher_acl in the master's configuration is for you: have root add one (`publisher_acl: {{YOUR_NAME: [test.ping]}}`)"
    )]
    NoRule,
    /// The master lets users of this machine in, and not this one, whatever its rules are.
    #[error(
        "publisher_acl_blacklist in the master's configuration names you: no rule helps until root takes you out of it"
    )]
    Blacklisted,
    /// A key file cannot be used.
    #[error("{0}")]
    Key(#[source] KeyError),
    /// The master does not accept this operator's key.
    #[error(
        "the master at {endpoint} does not accept the key in {} ({answer}): restart saline-master, which creates a new one",
        path.display()
    )]
    NotAccepted {
        /// The master's endpoint.
        endpoint: String,
        /// The file with the key.
        path: PathBuf,
        /// The master's decision.
        answer: String,
    },
    /// No master answers an API on another host.
    #[error(
        "no master answers at {endpoints}: is saline-master running there, and are `master` and `transport` in the file `api` right?"
    )]
    MasterUnreachable {
        /// The endpoints that were tried.
        endpoints: String,
        /// The error of the last transport.
        source: transport::Error,
    },
    /// The key of this API waits to be accepted.
    #[error(
        "the master at {endpoint} has not accepted the key of the API {name} yet: on the master, run `saline-key --accept-operator {fingerprint} --api`"
    )]
    ApiKeyPending {
        /// The master's endpoint.
        endpoint: String,
        /// The name under which the key waits.
        name: String,
        /// The fingerprint of the key.
        fingerprint: String,
    },
    /// The master does not let this API's key wait.
    #[error(
        "the master at {endpoint} does not take the key of the API {name}, fingerprint {fingerprint}: {why}; `saline-key -L` on the master shows the keys that wait, and `saline-key --delete-operator FINGERPRINT` removes one"
    )]
    ApiKeyRefused {
        /// The master's endpoint.
        endpoint: String,
        /// The name of the API.
        name: String,
        /// The fingerprint of the key.
        fingerprint: String,
        /// The reason.
        why: &'static str,
    },
    /// The name of the host is not a valid name for an API.
    #[error(
        "the host's name, {host:?}, is not a valid name for an API: set `id` in the file `api`"
    )]
    NoApiName {
        /// The host's name.
        host: String,
    },
    /// The master that answers an API is not the trusted one, or which one is cannot be read.
    #[error("{0}")]
    Distrust(String),
    /// The master speaks no protocol version that this program speaks.
    #[error(
        "the master at {endpoint} is Saline {software} and speaks protocol {versions}, this program speaks {}: use the programs of one version, and restart saline-master after an upgrade",
        ProtocolVersions::OURS
    )]
    NoCommonVersion {
        /// The master's endpoint.
        endpoint: String,
        /// The versions that the master speaks.
        versions: ProtocolVersions,
        /// The version of the master's software.
        software: String,
    },
    /// The master that answers is not the one whose key is in `pki_dir`.
    #[error(
        "the master at {endpoint} is not the one whose key is {}: is another saline-master running with the same sock_dir?",
        path.display()
    )]
    WrongMaster {
        /// The master's endpoint.
        endpoint: String,
        /// The file with the known key.
        path: PathBuf,
        /// The error with both fingerprints.
        source: ChannelError,
    },
    /// The master refuses every message.
    #[error(
        "the master at {endpoint} refuses every message ({refusal:?}): do both have the same version?"
    )]
    Refused {
        /// The master's endpoint.
        endpoint: String,
        /// The reason.
        refusal: Refusal,
    },
    /// The target is malformed.
    #[error("{0}")]
    BadTarget(String),
    /// The event tag is malformed.
    #[error("bad event tag: {0}")]
    BadTag(String),
    /// There is no such job.
    #[error(
        "job {0} is unknown: it was never published by this master, is older than keep_jobs_seconds, or was removed when the store reached job_store_size"
    )]
    NoSuchJob(Jid),
    /// The master does not begin the runner, for this reason.
    #[error("{0}")]
    RunnerRefused(String),
    /// The request is larger than a message may be.
    #[error("the request is too large: {0}; raise max_message_size or send less")]
    TooLarge(#[source] transport::Error),
    /// The master could not carry out the request.
    #[error("the master failed: {0}; its log says more")]
    Failed(String),
    /// The master does not carry out the request as it is.
    #[error("{0}")]
    Invalid(String),
    /// No rule of the master allows the request.
    #[error("{0}")]
    NotAllowed(String),
    /// The token of the login is not valid.
    #[error("this login is not valid: it has expired, was revoked or never was; log in again")]
    NotLoggedIn,
    /// The reply does not fit the request.
    #[error("the master's reply to {0} is invalid: do both have the same version?")]
    WrongAnswer(&'static str),
    /// The session failed.
    #[error("the session with the master failed: {0}")]
    Channel(#[source] ChannelError),
    /// The transport failed, and repeating the request cannot help.
    #[error("{0}")]
    Transport(#[source] transport::Error),
    /// The client has been shut down.
    #[error("this client has been shut down")]
    Closed,
    /// The system has no randomness for a request id.
    #[error("the system has no randomness")]
    Randomness,
}

impl From<Distrust> for ClientError {
    fn from(Distrust(line): Distrust) -> Self {
        Self::Distrust(line)
    }
}

impl ClientError {
    /// Whether no master runs, so that the key store may be used without it.
    pub fn is_master_down(&self) -> bool {
        matches!(self, Self::MasterDown { .. } | Self::NeverStarted { .. })
    }

    /// Converts the error of a key file.
    pub(crate) fn key(error: KeyError) -> Self {
        match error {
            KeyError::Io { path, source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Self::NotPermitted { path }
            }
            other => Self::Key(other),
        }
    }

    /// Converts the error of a key file that a master creates at its first start.
    pub(crate) fn masters_key(error: KeyError, endpoint: &str) -> Self {
        match error {
            KeyError::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Self::never_started(endpoint, &path)
            }
            other => Self::key(other),
        }
    }

    pub(crate) fn never_started(endpoint: &str, path: &Path) -> Self {
        Self::NeverStarted {
            endpoint: endpoint.to_owned(),
            path: path.to_owned(),
        }
    }
}
