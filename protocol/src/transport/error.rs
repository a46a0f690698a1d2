//! What can go wrong on a transport, as a closed set of kinds.

use std::borrow::Cow;

/// The result of every operation of the contract.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. The kind is contract and tested; the text is not, and nothing decides by it.
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
    /// The peer, or the operating system, said no: a port in use, a uid that is not ours.
    Refused,
    /// This end has been shut down.
    Closed,
    /// The configuration asks for something that cannot be.
    Config,
    /// The peer broke the backend's own protocol.
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

    /// Whether the same operation can succeed later without anybody changing anything.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::ConnectionLost | Self::TimedOut | Self::NoReply
        )
    }
}

/// An error of the transport contract: a kind, what it happened to, and the source.
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

    /// The same, saying that a retry can (or cannot) help where the kind alone would say otherwise.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// The kind, which is contract.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether asking again can help.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// A payload of `size` bytes against a limit of `limit` bytes.
    pub fn too_large(what: &str, size: usize, limit: usize) -> Self {
        Self::new(
            ErrorKind::TooLarge,
            format!("{what} of {size} bytes, the limit is {limit}"),
        )
    }

    /// This end has been shut down.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "this end has been shut down")
    }
}
