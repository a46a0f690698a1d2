//! Runners and wheels: functions that the master carries out.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{
    Arguments, Incoming, Jid, OperatorReply, OperatorRequest, OrderWarning, RequestId, RunKind,
    RunnerCall, RunnerEnd, RunnerReply, RunnerRequest, decode,
};

use crate::ClientError;
use crate::master::Master;

/// The description of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunnerSpec {
    /// The kind of the function.
    pub kind: RunKind,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arg: Arguments,
    /// The user who asks; for the record, no authority.
    pub user: String,
    /// How long the run may take; none for the function's own time.
    pub timeout: Option<Duration>,
}

impl RunnerSpec {
    /// Describes a run of the runner `fun` without arguments, asked by `root`.
    pub fn new(fun: impl Into<String>) -> Self {
        Self {
            kind: RunKind::Runner,
            fun: fun.into(),
            arg: Arguments::default(),
            user: "root".to_owned(),
            timeout: None,
        }
    }

    /// Has the run be one of a function of this kind.
    #[must_use]
    pub fn of_kind(mut self, kind: RunKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the arguments.
    #[must_use]
    pub fn with_arguments(mut self, arg: Arguments) -> Self {
        self.arg = arg;
        self
    }

    /// Sets the user who asks.
    #[must_use]
    pub fn asked_by(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// Sets how long the run may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }
}

/// A run of a function on the master. It is begun with the first request about it; dropping this does not end it.
#[derive(Debug)]
pub struct RunnerRun {
    master: Arc<dyn Master>,
    call: RunnerCall,
}

impl RunnerRun {
    /// Creates the run, of which the master knows nothing yet.
    ///
    /// # Errors
    /// `Randomness`
    pub(crate) fn new(master: Arc<dyn Master>, spec: RunnerSpec) -> Result<Self, ClientError> {
        let timeout = spec.timeout.map(|time| u64::try_from(time.as_millis()));
        Ok(Self {
            master,
            call: RunnerCall {
                request_id: RequestId::random().map_err(|_| ClientError::Randomness)?,
                kind: spec.kind,
                fun: spec.fun,
                arg: spec.arg.pack(),
                user: spec.user,
                timeout_ms: timeout.map(|time| time.unwrap_or(u64::MAX)),
                is_async: false,
            },
        })
    }

    /// Begins the run, and waits for its end. A run that is interrupted by a restart of the master is begun
    /// again there, which the notes of its end say; one that must not be repeated has an error then.
    ///
    /// # Errors
    /// `RunnerRefused` when there is no such function or its arguments do not fit; others as for every request.
    /// A run that fails is no error here: [`RunnerEnd::error`] says why.
    ///
    /// # Cancel safety
    /// The run goes on. Another call goes on waiting for it.
    pub async fn end(&self) -> Result<RunnerEnd, ClientError> {
        self.end_with_jid().await.map(|(_, end)| end)
    }

    /// Begins the run, waits for its end as [`end`](Self::end) does, and returns also its jid.
    ///
    /// # Errors
    /// As [`end`](Self::end).
    ///
    /// # Cancel safety
    /// The run goes on. Another call goes on waiting for it.
    pub async fn end_with_jid(&self) -> Result<(Jid, RunnerEnd), ClientError> {
        let run = RunnerRequest::Run(self.call.clone());
        let mut first: Option<Jid> = None;
        'again: loop {
            let ended = match self.ask(run.clone()).await? {
                // The master has waited for some seconds.
                RunnerReply::Begun(jid) => {
                    first.get_or_insert(jid);
                    continue;
                }
                RunnerReply::Ended(ended) => ended,
                _ => return Err(ClientError::WrongAnswer("Run")),
            };
            let mut incoming =
                Incoming::of(&ended.part).map_err(|_| ClientError::WrongAnswer("Run"))?;
            incoming
                .take(&ended.part)
                .map_err(|_| ClientError::WrongAnswer("Run"))?;
            while !incoming.is_whole() {
                let part = RunnerRequest::Part {
                    request_id: self.call.request_id,
                    offset: incoming.received(),
                };
                match self.ask(part).await? {
                    RunnerReply::Part(part) => match incoming.take(&part) {
                        Ok(true) => {}
                        Ok(false) => return Err(ClientError::WrongAnswer("Part")),
                        // The run was started over, and has ended otherwise.
                        Err(_) => continue 'again,
                    },
                    // The master was started again meanwhile.
                    RunnerReply::NoSuchRun => continue 'again,
                    _ => return Err(ClientError::WrongAnswer("Part")),
                }
            }
            let mut end: RunnerEnd = incoming
                .whole()
                .and_then(|whole| decode(whole).ok())
                .ok_or(ClientError::WrongAnswer("Run"))?;
            if first.as_ref().is_some_and(|first| *first != ended.jid) && end.error.is_none() {
                end.notes.push(format!(
                    "the master was started again meanwhile, and started {} again",
                    self.call.fun
                ));
            }
            return Ok((ended.jid, end));
        }
    }

    /// Begins the run, and returns its jid without waiting for its end: the master stores it.
    ///
    /// # Errors
    /// As [`end`](Self::end).
    ///
    /// # Cancel safety
    /// The run may be begun all the same.
    pub async fn begin_async(mut self) -> Result<Jid, ClientError> {
        self.call.is_async = true;
        match self.ask(RunnerRequest::Run(self.call.clone())).await? {
            RunnerReply::Begun(jid) => Ok(jid),
            _ => Err(ClientError::WrongAnswer("Run")),
        }
    }

    /// Ends the run before it is done. Returns what the operator is warned of; none if the master does not know the run.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The run may be ended all the same.
    pub async fn kill(&self) -> Result<Option<Vec<OrderWarning>>, ClientError> {
        let request_id = self.call.request_id;
        match self.ask(RunnerRequest::Kill { request_id }).await? {
            RunnerReply::Ending(warnings) => Ok(Some(warnings)),
            RunnerReply::NoSuchRun => Ok(None),
            _ => Err(ClientError::WrongAnswer("Kill")),
        }
    }

    /// Has the master store the return of the run, for which nobody waits from now on. Returns its jid; none if
    /// the master does not know it.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The return may be stored all the same.
    pub async fn keep(&self) -> Result<Option<Jid>, ClientError> {
        let request_id = self.call.request_id;
        match self.ask(RunnerRequest::Keep { request_id }).await? {
            RunnerReply::Kept(jid) => Ok(Some(jid)),
            RunnerReply::NoSuchRun => Ok(None),
            _ => Err(ClientError::WrongAnswer("Keep")),
        }
    }

    async fn ask(&self, request: RunnerRequest) -> Result<RunnerReply, ClientError> {
        match self.master.ask(&OperatorRequest::Runner(request)).await? {
            OperatorReply::Runner(RunnerReply::Refused(why)) => {
                Err(ClientError::RunnerRefused(why))
            }
            OperatorReply::Runner(reply) => Ok(reply),
            OperatorReply::Failed(why) => Err(ClientError::Failed(why)),
            OperatorReply::NotAllowed(why) => Err(ClientError::NotAllowed(why)),
            _ => Err(ClientError::WrongAnswer("Runner")),
        }
    }
}
