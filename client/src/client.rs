//! What an operator's program holds.

use std::sync::Arc;
use std::time::Duration;

use saline_config::MasterConfig;
use saline_protocol::message::{
    Jid, Job, JobSummary, KeyReply, KeyRequest, MinionId, OperatorReply, OperatorRequest,
    Published, RequestId, ReturnsPage,
};
use saline_protocol::transport::{Context, Registry};

use crate::link::Link;
use crate::master::Master;
use crate::{ClientError, EventFilter, Events, JobSpec, Run};

/// A connection to the master on this machine, with its operator's rights. Any number of things may
/// be asked at once; it makes its way through restarts of the master by itself.
#[derive(Debug)]
pub struct Client {
    link: Arc<Link>,
    timeout: Duration,
}

impl Client {
    /// Connects to the master that `config` describes, as its local operator.
    ///
    /// # Errors
    /// `MasterDown` and `NeverStarted` when there is none, `NotPermitted` when its operator's key
    /// cannot be read; others as the handshake goes.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub async fn connect(config: &MasterConfig, registry: &Registry) -> Result<Self, ClientError> {
        Ok(Self {
            link: Arc::new(Link::connect(config, registry).await?),
            timeout: config.timeout,
        })
    }

    /// Publishes a job and does not wait for it. Published once, also when the master is lost and
    /// asked again meanwhile.
    ///
    /// # Errors
    /// `BadTarget` when the target cannot be read; others as for every request: `MasterGone`,
    /// `Failed`, …
    ///
    /// # Cancel safety
    /// The job may be published all the same.
    pub async fn run_async(&self, spec: JobSpec) -> Result<Published, ClientError> {
        // What cannot be read here cannot be read there; it need not travel to be told.
        if let Err(error) = spec.target.compile() {
            return Err(ClientError::BadTarget(error.to_string()));
        }
        let request = OperatorRequest::Publish {
            request_id: RequestId::random().map_err(|_| ClientError::Randomness)?,
            target: spec.target,
            fun: spec.fun,
            arg: spec.arg.pack(),
            user: spec.user,
        };
        match self.ask(&request).await? {
            OperatorReply::Published(published) => Ok(published),
            _ => Err(ClientError::WrongAnswer("Publish")),
        }
    }

    /// Publishes a job and follows it.
    ///
    /// # Errors
    /// As [`run_async`](Self::run_async).
    ///
    /// # Cancel safety
    /// The job may be published all the same.
    pub async fn run(&self, spec: JobSpec) -> Result<Run, ClientError> {
        let timeout = spec.timeout.unwrap_or(self.timeout);
        let published = self.run_async(spec).await?;
        Ok(Run::new(
            Arc::clone(&self.link) as Arc<dyn Master>,
            published,
            timeout,
        ))
    }

    /// A page of what has come back to a job, from the minion behind `after`, and where every
    /// minion stands.
    ///
    /// # Errors
    /// `NoSuchJob` when the store does not have it; others as for every request.
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn job_returns(
        &self,
        jid: &Jid,
        after: Option<MinionId>,
    ) -> Result<ReturnsPage, ClientError> {
        let jid = jid.clone();
        match self
            .ask(&OperatorRequest::JobReturns { jid, after })
            .await?
        {
            OperatorReply::Returns(page) => Ok(page),
            _ => Err(ClientError::WrongAnswer("JobReturns")),
        }
    }

    /// At most `limit` jobs of the store, the newest first, only those before `before`.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn job_list(&self, limit: u32, before: Option<Jid>) -> Result<Vec<Job>, ClientError> {
        match self
            .ask(&OperatorRequest::JobList { limit, before })
            .await?
        {
            OperatorReply::Jobs(jobs) => Ok(jobs),
            _ => Err(ClientError::WrongAnswer("JobList")),
        }
    }

    /// One job, and where its minions stand.
    ///
    /// # Errors
    /// `NoSuchJob` when the store does not have it; others as for every request.
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn job_lookup(&self, jid: &Jid) -> Result<JobSummary, ClientError> {
        let jid = jid.clone();
        match self.ask(&OperatorRequest::JobLookup { jid }).await? {
            OperatorReply::Job(summary) => Ok(summary),
            _ => Err(ClientError::WrongAnswer("JobLookup")),
        }
    }

    /// Lists or changes the keys of minions.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The keys may be changed all the same.
    pub async fn keys(&self, request: KeyRequest) -> Result<KeyReply, ClientError> {
        match self.ask(&OperatorRequest::Keys(request)).await? {
            OperatorReply::Keys(reply) => Ok(reply),
            _ => Err(ClientError::WrongAnswer("Keys")),
        }
    }

    /// What every minion runs, as its last heartbeat said.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn running(&self) -> Result<Vec<(MinionId, Vec<Jid>)>, ClientError> {
        match self.ask(&OperatorRequest::Running).await? {
            OperatorReply::Running(running) => Ok(running),
            _ => Err(ClientError::WrongAnswer("Running")),
        }
    }

    /// Listens to the event bus. When it returns, nothing that is fired is missed.
    ///
    /// # Errors
    /// `BadTag` when the filter cannot match any tag, `MasterGone` when the master does not confirm.
    ///
    /// # Cancel safety
    /// A subscription whose future was dropped is withdrawn.
    pub async fn events(&self, filter: &EventFilter) -> Result<Events, ClientError> {
        Ok(Events(self.link.subscribe(filter.topics()?).await?))
    }

    /// For what must run beside: its tasks end with the client.
    pub fn context(&self) -> &Context {
        self.link.context()
    }

    /// Ends the connection, every subscription and every task.
    ///
    /// # Cancel safety
    /// A shutdown that was begun goes on; call again to wait for it.
    pub async fn shutdown(&self) {
        self.link.shutdown().await;
    }

    /// Asks; what every verb may be answered is an error.
    async fn ask(&self, request: &OperatorRequest) -> Result<OperatorReply, ClientError> {
        match (self.link.ask(request).await?, request) {
            (OperatorReply::BadTarget(why), _) => Err(ClientError::BadTarget(why)),
            (OperatorReply::Failed(why), _) => Err(ClientError::Failed(why)),
            (
                OperatorReply::NoSuchJob,
                OperatorRequest::JobReturns { jid, .. } | OperatorRequest::JobLookup { jid },
            ) => Err(ClientError::NoSuchJob(jid.clone())),
            (reply, _) => Ok(reply),
        }
    }
}
