//! What can go wrong for an operator, each in one line: what happened, to what, what to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_protocol::channel::{ChannelError, KeyError};
use saline_protocol::message::{Jid, Refusal};
use saline_protocol::transport;

/// Why something that was asked of a master was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no master answers at {endpoint}: is saline-master running? Start it, or name its configuration folder with -c"
    )]
    MasterDown {
        /// Where.
        endpoint: String,
        /// What the transport says.
        source: Option<transport::Error>,
    },
    /// The key that a master makes when it first starts is not there.
    #[error(
        "no master answers at {endpoint}: {} is not there, so saline-master was never started with this configuration; start it, or name another configuration folder with -c",
        path.display()
    )]
    NeverStarted {
        /// Where it would listen.
        endpoint: String,
        /// The file.
        path: PathBuf,
    },
    /// It was there, and has been away for too long.
    #[error(
        "the master at {endpoint} has been gone for {} s: start saline-master again; what it had taken goes on and its returns are kept",
        gone.as_secs()
    )]
    MasterGone {
        /// Where it was.
        endpoint: String,
        /// For how long.
        gone: Duration,
    },
    /// The local operator's key cannot be read.
    #[error(
        "cannot read {}: permission denied; run this as the user that saline-master runs as, or as root",
        path.display()
    )]
    NotPermitted {
        /// Which file.
        path: PathBuf,
    },
    /// A key file cannot be used.
    #[error("{0}")]
    Key(#[source] KeyError),
    /// The master does not take this operator's key.
    #[error(
        "the master at {endpoint} does not accept the key in {} ({answer}): restart saline-master, which makes it anew",
        path.display()
    )]
    NotAccepted {
        /// Which master.
        endpoint: String,
        /// The key.
        path: PathBuf,
        /// What it says of it.
        answer: String,
    },
    /// Another master than the one whose key lies in `pki_dir`.
    #[error(
        "the master at {endpoint} is not the one whose key is {}: is another saline-master running with the same sock_dir?",
        path.display()
    )]
    WrongMaster {
        /// Where.
        endpoint: String,
        /// The known key.
        path: PathBuf,
        /// Both fingerprints.
        source: ChannelError,
    },
    /// The master refuses every message.
    #[error(
        "the master at {endpoint} refuses to talk ({refusal:?}): are both of the same version?"
    )]
    Refused {
        /// Which master.
        endpoint: String,
        /// What it says.
        refusal: Refusal,
    },
    /// The target cannot be read.
    #[error("bad target: {0}")]
    BadTarget(String),
    /// No event can have such a tag.
    #[error("bad event tag: {0}")]
    BadTag(String),
    /// There is no such job.
    #[error("no job {0} is known: it was never published here, or is older than keep_jobs_seconds")]
    NoSuchJob(Jid),
    /// What was asked is too large to travel.
    #[error("the request is too large: {0}; raise max_message_size or send less")]
    TooLarge(#[source] transport::Error),
    /// The master could not.
    #[error("the master failed: {0}; its log says more")]
    Failed(String),
    /// The master answered something else than what was asked.
    #[error("the master's answer to {0} is not one: are both of the same version?")]
    WrongAnswer(&'static str),
    /// The session cannot be trusted.
    #[error("the session with the master failed: {0}")]
    Channel(#[source] ChannelError),
    /// The transport cannot do what it is asked.
    #[error("{0}")]
    Transport(#[source] transport::Error),
    /// This client has been shut down.
    #[error("this client has been shut down")]
    Closed,
    /// No randomness to make a request id of.
    #[error("the system has no randomness")]
    Randomness,
}

impl ClientError {
    /// Whether no master runs, so that its key store may be worked on without it.
    pub fn is_master_down(&self) -> bool {
        matches!(self, Self::MasterDown { .. } | Self::NeverStarted { .. })
    }

    /// A key file that cannot be read or used.
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

    /// A key file that a master makes when it first starts.
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
