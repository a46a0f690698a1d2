//! Requests that have no answer yet.

use std::time::Duration;

use saline_messages::FileRefusal;

/// How long a request waits before the minion is asked to come again.
pub(super) const WAIT: Duration = Duration::from_secs(8);

/// The reason why a request has no answer yet.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The minion is to ask again.
    Busy,
    Refused(FileRefusal),
}

impl From<FileRefusal> for NoAnswer {
    fn from(why: FileRefusal) -> Self {
        Self::Refused(why)
    }
}
