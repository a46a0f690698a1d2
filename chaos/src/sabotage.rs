//! The promises that the daemons can break on purpose, so that the books have something to find.

use clap::ValueEnum;

/// A promise that the daemons break on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sabotage {
    /// The master acknowledges returns before they are on the disk
    AckBeforeCommit,
    /// A minion does not read its spool when it starts
    ForgetSpool,
    /// A minion runs jobs that it has begun before
    Rerun,
    /// The master calls minions present that are gone
    LiePresence,
    /// The master lets jobs expire that run
    ExpireRunning,
    /// The master cuts the list of missed jobs short
    TruncateCatchup,
    /// A minion cuts the last character off what it returns
    ShortenReturns,
}

impl Sabotage {
    /// Returns the name, as on the command line and for the daemons.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AckBeforeCommit => "ack-before-commit",
            Self::ForgetSpool => "forget-spool",
            Self::Rerun => "rerun",
            Self::LiePresence => "lie-presence",
            Self::ExpireRunning => "expire-running",
            Self::TruncateCatchup => "truncate-catchup",
            Self::ShortenReturns => "shorten-returns",
        }
    }
}
