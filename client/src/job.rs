//! What is to be run.

use std::time::Duration;

use saline_protocol::message::Arguments;
use saline_protocol::target::Target;

/// A job that somebody wants done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct JobSpec {
    /// By whom.
    pub target: Target,
    /// What, `module.function`.
    pub fun: String,
    /// With what.
    pub arg: Arguments,
    /// Who asks; for the record, no authority.
    pub user: String,
    /// How long minions without a sign of life are waited for; none for the configuration's
    /// `timeout`.
    pub timeout: Option<Duration>,
}

impl JobSpec {
    /// `fun` on the minions that `target` means, without arguments, asked by `root`.
    pub fn new(target: Target, fun: impl Into<String>) -> Self {
        Self {
            target,
            fun: fun.into(),
            arg: Arguments::default(),
            user: "root".to_owned(),
            timeout: None,
        }
    }

    /// `fun` on the minions that a glob matches.
    pub fn glob(glob: impl Into<String>, fun: impl Into<String>) -> Self {
        Self::new(Target::glob(glob), fun)
    }

    /// The same with these arguments.
    #[must_use]
    pub fn with_arguments(mut self, arg: Arguments) -> Self {
        self.arg = arg;
        self
    }

    /// The same, asked by `user`.
    #[must_use]
    pub fn asked_by(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// The same, waiting that long for minions without a sign of life.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }
}
