//! The description of a job to be published.

use std::time::Duration;

use saline_data::{Packed, Value};
use saline_messages::random::NoRandomness;
use saline_messages::{Arguments, BatchRequest, Jid, PublishRequest, RequestId, Secrets};
use saline_targeting::{CompiledTarget, Target, TargetError};

use crate::{JobCall, SecretArguments};

/// The description of a job to be published.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct JobSpec {
    /// The minions that run it.
    pub target: CompiledTarget,
    /// Whether minions that have reported no grains are asked too, where the target depends on these.
    pub include_unknown: bool,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function, but for those that are secret.
    pub arg: Arguments,
    /// The arguments that are secret: nobody but the function sees their values.
    pub secrets: SecretArguments,
    /// The user who asks; for the record, no authority.
    pub user: String,
    /// How long to wait for minions without a sign of life; none for the configured `timeout`.
    pub timeout: Option<Duration>,
    /// How long minions may take to begin. Those that are away get the job when they connect in that
    /// time; none for the master's `job_ttl`, and only minions that are present.
    pub ttl: Option<Duration>,
    /// Whether the job is sealed for each of its minions alone, however many they are. Otherwise every accepted
    /// minion can read the arguments of a job for more than 64 minions.
    pub private: bool,
    /// How many minions are chosen at random of those that match and are present; none for all that match.
    pub subset: Option<u32>,
    /// Whether the job is offered to a few minions at a time.
    pub batch: BatchRequest,
    /// The metadata of the job, to find it by: entries of a mapping. The master stores them; minions do not
    /// get them.
    pub metadata: Option<Vec<(String, Value)>>,
    /// The jid of the job: above that of every job of the master, and at most a minute before the master's time; none
    /// for one that the master makes.
    pub jid: Option<Jid>,
    /// The names of the destinations outside of the master that get the job and its returns, beside those that get every one.
    pub returners: Vec<String>,
    /// Whether the job is published although none of its minions can know the function: each then returns that itself.
    /// Otherwise the master refuses the order.
    pub allow_unknown_functions: bool,
}

impl JobSpec {
    /// Describes a run of `fun` on the minions of `target`, without arguments, asked by `root`.
    pub fn new(target: CompiledTarget, fun: impl Into<String>) -> Self {
        Self {
            target,
            include_unknown: false,
            fun: fun.into(),
            arg: Arguments::default(),
            secrets: SecretArguments::default(),
            user: "root".to_owned(),
            timeout: None,
            ttl: None,
            private: false,
            subset: None,
            batch: BatchRequest::default(),
            metadata: None,
            jid: None,
            returners: Vec::new(),
            allow_unknown_functions: false,
        }
    }

    /// Describes a job of this call on the minions of `target`, asked by `root`.
    pub fn of_call(target: CompiledTarget, call: JobCall) -> Self {
        Self::new(target, call.fun)
            .with_arguments(call.arg)
            .with_secrets(call.secrets)
    }

    /// Describes a run of `fun` on the minions that a glob matches.
    ///
    /// # Errors
    /// When the glob is malformed.
    pub fn glob(glob: impl Into<String>, fun: impl Into<String>) -> Result<Self, TargetError> {
        Ok(Self::new(Target::glob(glob).compile()?, fun))
    }

    /// Sets whether minions that have reported no grains are asked too, where the target depends on these.
    #[must_use]
    pub fn including_unknown(mut self, include_unknown: bool) -> Self {
        self.include_unknown = include_unknown;
        self
    }

    /// Sets the arguments.
    #[must_use]
    pub fn with_arguments(mut self, arg: Arguments) -> Self {
        self.arg = arg;
        self
    }

    /// Sets the arguments that are secret. Their names must not be among the other arguments.
    #[must_use]
    pub fn with_secrets(mut self, secrets: SecretArguments) -> Self {
        self.secrets = secrets;
        self
    }

    /// Sets the user who asks.
    #[must_use]
    pub fn asked_by(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// Sets how long minions may take to begin, also those that are away now.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Option<Duration>) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets whether the job is sealed for each of its minions alone.
    #[must_use]
    pub fn kept_private(mut self, private: bool) -> Self {
        self.private = private;
        self
    }

    /// Sets how many of the minions that match and are present are chosen.
    #[must_use]
    pub fn with_subset(mut self, subset: Option<u32>) -> Self {
        self.subset = subset;
        self
    }

    /// Sets whether the job is offered to a few minions at a time.
    #[must_use]
    pub fn in_batches(mut self, batch: BatchRequest) -> Self {
        self.batch = batch;
        self
    }

    /// Sets what is noted with the job.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Option<Vec<(String, Value)>>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the jid; without one, the master makes it.
    #[must_use]
    pub fn with_jid(mut self, jid: Option<Jid>) -> Self {
        self.jid = jid;
        self
    }

    /// Sets the destinations outside of the master that get the job and its returns.
    #[must_use]
    pub fn returned_to(mut self, returners: Vec<String>) -> Self {
        self.returners = returners;
        self
    }

    /// Sets whether the job is published although none of its minions can know the function, so that each returns that itself.
    #[must_use]
    pub fn allowing_unknown_functions(mut self, allow_unknown_functions: bool) -> Self {
        self.allow_unknown_functions = allow_unknown_functions;
        self
    }

    /// Returns the request that publishes the job.
    ///
    /// # Errors
    /// When the system has no randomness, with which secrets are hidden.
    pub(crate) fn into_request(
        mut self,
        request_id: RequestId,
    ) -> Result<PublishRequest, NoRandomness> {
        let secrets = Secrets::set_apart(&mut self.arg, self.secrets.0)?;
        let ttl_ms = |ttl: Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let pack = |metadata| Packed::pack(&Value::Map(metadata));
        Ok(PublishRequest {
            request_id,
            target: self.target.into_target(),
            include_unknown: self.include_unknown,
            fun: self.fun,
            arg: self.arg.pack(),
            secrets,
            user: self.user,
            ttl_ms: self.ttl.map(ttl_ms),
            private: self.private,
            subset: self.subset,
            batch: self.batch,
            metadata: self.metadata.map(pack),
            jid: self.jid,
            returners: self.returners.into(),
            allow_unknown_functions: self.allow_unknown_functions,
        })
    }

    /// Sets how long to wait for minions without a sign of life.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }
}
