//! The errors of transports, each of a kind.

use std::borrow::Cow;

/// The result of every operation of the contract.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error. The kind is contract and tested; the text is not, and nothing decides by it.
///
/// Which operation ends with which kind stands under its *Errors*; together they are:
///
/// | kind | ends | did a request run? | can a retry help? |
/// |---|---|---|---|
/// | `Unreachable` | `connect`, `request`, `subscribe` | no, and it never will | yes |
/// | `ConnectionLost` | `request` | perhaps | yes |
/// | `TimedOut` | `request`; a `shutdown` that had to cut something | perhaps, or it may still | yes |
/// | `NoReply` | `request` | perhaps | yes |
/// | `TooLarge` | `request`, `publish`, `Reply::send` | no | no |
/// | `Refused` | `serve` | | no |
/// | `Closed` | whatever is asked of an end that was shut down | no, if it had not been sent; else perhaps | no |
/// | `Config` | `serve`, `connect`, `subscribe`, the registry, options | | no |
/// | `Protocol` | none of them: see there | | no |
///
/// That a retry can help does not say that it is safe: after `ConnectionLost`, `TimedOut` and `NoReply`
/// a request may have had its effect, and only whoever made it knows whether it may have it twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No peer could be reached, and nothing was sent: the request did not run.
    Unreachable,
    /// The link broke after the request was sent. It may have run.
    ConnectionLost,
    /// The deadline passed after the request was sent. It may have run, or may still.
    TimedOut,
    /// The handler dropped its reply handle.
    NoReply,
    /// A payload above [`Limits::max_message`](super::Limits::max_message).
    TooLarge,
    /// The operating system, or whoever was there before, said no: a port in use, an address that is
    /// not this machine's, a folder of somebody else.
    Refused,
    /// This end has been shut down, or its context was cancelled.
    Closed,
    /// The configuration, or the caller, asks for something that cannot be.
    Config,
    /// The peer broke the backend's own protocol. For a backend's own use, between its parts: to a
    /// caller of the contract such a peer is one whose link broke (`ConnectionLost`) or could not be
    /// made (`Unreachable`), and it is counted as
    /// [`Metric::PeersRefused`](super::Metric::PeersRefused).
    Protocol,
}

impl ErrorKind {
    /// The name that logs and reports carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::ConnectionLost => "connection lost",
            Self::TimedOut => "timed out",
            Self::NoReply => "no reply",
            Self::TooLarge => "too large",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::Config => "configuration",
            Self::Protocol => "protocol violation",
        }
    }

    /// Whether the same operation can succeed later without anybody changing anything. Whether
    /// repeating it is safe is another question; see [`ErrorKind`].
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::ConnectionLost | Self::TimedOut | Self::NoReply
        )
    }
}

/// An error of the transport contract: a kind, what it happened to, and the source.
///
/// ```
/// use saline_protocol::transport::{Error, ErrorKind};
///
/// let cause = std::io::Error::other("address in use");
/// let error = Error::new(ErrorKind::Refused, "cannot listen on 192.0.2.1:4506").with_source(cause);
/// assert_eq!(error.kind(), ErrorKind::Refused);
/// assert!(!error.is_retryable());
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}: {context}", kind.name())]
pub struct Error {
    kind: ErrorKind,
    retryable: bool,
    context: Cow<'static, str>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `context` says what it happened to.
    pub fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            retryable: kind.is_retryable(),
            context: context.into(),
            source: None,
        }
    }

    /// The same with the error that caused it.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same, saying that a retry can (or cannot) help where the kind alone would say otherwise: a
    /// name that no server will ever have, say.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// The kind, which is contract.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the context of the error, without its kind.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// Whether asking again can help.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// `TooLarge`: a payload of `size` bytes against a limit of `limit` bytes. `what` names it: "a
    /// request".
    pub fn too_large(what: &str, size: usize, limit: usize) -> Self {
        Self::new(
            ErrorKind::TooLarge,
            format!("{what} of {size} bytes, the limit is {limit}"),
        )
    }

    /// `Closed`: this end has been shut down.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "this end has been shut down")
    }
}
