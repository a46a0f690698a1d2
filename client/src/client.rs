//! The client of an operator's program.

use std::sync::Arc;
use std::time::Duration;

use saline_config::{ApiConfig, MasterConfig};
use saline_messages::{
    EventsPage, EventsRequest, Jid, KeyReply, KeyRequest, LastSeen, LoggedIn, LoginReply,
    LoginRequest, LoginToken, MinionId, NetapiClient, OperatorReply, OperatorRequest, OrderWarning,
    Published, RequestId, ReturnsPage, StatesPage, TargetMatches, TokenReply, TokenRequest,
    UploadReply, UploadRequest,
};
use saline_protocol::transport::{Clock, Context, Registry};
use saline_targeting::CompiledTarget;

use crate::acting::ActingMaster;
use crate::master::Master;
use crate::operator_session::OperatorSession;
use crate::{ClientError, EventFilter, Events, JobFollower, JobSpec, RunnerRun, RunnerSpec};

/// A connection to the master: to the one on another host as an API, or to the one on this machine, with the rights of its local operator, or, for a user who cannot read
/// that one's key, with those that `publisher_acl` gives. Takes any
/// number of requests at once, and reconnects by itself when the master restarts.
#[derive(Debug)]
pub struct Client {
    session: Arc<OperatorSession>,
    /// The session, or what puts the token of a login before each request.
    master: Arc<dyn Master>,
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
        let session = Arc::new(OperatorSession::connect(config, registry).await?);
        Ok(Self {
            master: Arc::clone(&session) as Arc<dyn Master>,
            session,
            timeout: config.timeout,
        })
    }

    /// Connects to a master on another host as an API, which has a key of its own in `pki_dir`, made at the first connection. The
    /// master is trusted as a minion trusts it: the first that answers, or the one with `master_finger`. In its own name an API may
    /// do next to nothing: [`acting`](Self::acting) asks for users.
    ///
    /// # Errors
    /// `ApiKeyPending` until an operator has accepted the key; `MasterUnreachable` when no master answers; others as the
    /// handshake goes.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub async fn connect_to(config: &ApiConfig, registry: &Registry) -> Result<Self, ClientError> {
        let session = Arc::new(OperatorSession::connect_to(config, registry).await?);
        Ok(Self {
            master: Arc::clone(&session) as Arc<dyn Master>,
            session,
            timeout: config.timeout,
        })
    }

    /// Returns a client over the same connection that asks for everything in the name of the user of a login, by this client of
    /// an API; `None` on the command line.
    pub fn acting(&self, token: LoginToken, client: Option<NetapiClient>) -> Self {
        Self {
            session: Arc::clone(&self.session),
            master: Arc::new(ActingMaster {
                session: Arc::clone(&self.session),
                token,
                client,
            }),
            timeout: self.timeout,
        }
    }

    /// Waits for a reply of the master.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The request changes nothing.
    pub async fn ping(&self) -> Result<(), ClientError> {
        self.own_name().await.map(drop)
    }

    /// Asks the master for the name of the user, the operator or the API that it takes this client for: that of the login, for
    /// one that acts for a user.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The request changes nothing.
    pub async fn own_name(&self) -> Result<String, ClientError> {
        match self.ask(&OperatorRequest::Ping).await? {
            OperatorReply::Pong(name) => Ok(name),
            _ => Err(ClientError::WrongAnswer("Ping")),
        }
    }

    /// Logs a user in, and tries again for as long as the master has logins wait. Returns none when it refuses the name, the
    /// password or the way.
    ///
    /// # Errors
    /// `NotAllowed` when nobody may log in; others as for every request.
    ///
    /// # Cancel safety
    /// The token may be valid all the same.
    pub async fn log_in(&self, request: LoginRequest) -> Result<Option<LoggedIn>, ClientError> {
        loop {
            match self.try_log_in(request.clone()).await? {
                LoginReply::LoggedIn(logged_in) => return Ok(Some(logged_in)),
                LoginReply::Refused => return Ok(None),
                LoginReply::Later { after_ms } => {
                    Clock.pause(Duration::from_millis(after_ms.into())).await;
                }
            }
        }
    }

    /// Tries once to log a user in.
    ///
    /// # Errors
    /// `NotAllowed` when nobody may log in; others as for every request.
    ///
    /// # Cancel safety
    /// The token may be valid all the same.
    pub async fn try_log_in(&self, request: LoginRequest) -> Result<LoginReply, ClientError> {
        match self.ask(&OperatorRequest::Login(request)).await? {
            OperatorReply::Login(reply) => Ok(reply),
            _ => Err(ClientError::WrongAnswer("Login")),
        }
    }

    /// Ends a login: its token is valid no longer. Repeated, it changes nothing more.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The login may be ended all the same.
    pub async fn log_out(&self, token: LoginToken) -> Result<(), ClientError> {
        match self.ask(&OperatorRequest::Logout(token)).await? {
            OperatorReply::LoggedOut => Ok(()),
            _ => Err(ClientError::WrongAnswer("Logout")),
        }
    }

    /// Returns events after a place, over any connection; waits for them as the request says.
    ///
    /// # Errors
    /// `NotAllowed` when no rule lets one read events; others as for every request.
    ///
    /// # Cancel safety
    /// The request changes nothing.
    pub async fn events_after(&self, request: EventsRequest) -> Result<EventsPage, ClientError> {
        match self.ask(&OperatorRequest::Events(request)).await? {
            OperatorReply::Events(page) => Ok(page),
            _ => Err(ClientError::WrongAnswer("Events")),
        }
    }

    /// Publishes a job and does not wait for it. The job is published once, even if the connection is
    /// lost and the request repeated.
    ///
    /// # Errors
    /// As for every request: `MasterGone`, `Failed`, …
    ///
    /// # Cancel safety
    /// The job may be published all the same.
    pub async fn run_async(&self, spec: JobSpec) -> Result<Published, ClientError> {
        let request_id = RequestId::random().map_err(|_| ClientError::Randomness)?;
        let request = spec
            .into_request(request_id)
            .map_err(|_| ClientError::Randomness)?;
        match self.ask(&OperatorRequest::Publish(request)).await? {
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
    pub async fn run(&self, spec: JobSpec) -> Result<JobFollower, ClientError> {
        let timeout = spec.timeout.unwrap_or(self.timeout);
        let published = self.run_async(spec).await?;
        Ok(JobFollower::new(
            Arc::clone(&self.master),
            published,
            timeout,
        ))
    }

    /// Describes a run of a function on the master, which begins with the first request about it.
    ///
    /// # Errors
    /// `Randomness` when the system has none.
    pub fn runner(&self, spec: RunnerSpec) -> Result<RunnerRun, ClientError> {
        RunnerRun::new(Arc::clone(&self.master), spec)
    }

    /// Returns the minions that a target includes, as far as the master knows; with `include_unknown` also those that have
    /// reported no grains, where it depends on these.
    ///
    /// # Errors
    /// `BadTarget` when it names an unknown nodegroup; others as for every request.
    ///
    /// # Cancel safety
    /// The request changes nothing.
    pub async fn match_target(
        &self,
        target: CompiledTarget,
        include_unknown: bool,
    ) -> Result<TargetMatches, ClientError> {
        let request = OperatorRequest::MatchTarget {
            target: target.into_target(),
            include_unknown,
        };
        match self.ask(&request).await? {
            OperatorReply::Matched(matches) => Ok(matches),
            _ => Err(ClientError::WrongAnswer("MatchTarget")),
        }
    }

    /// Returns a page of the job's returns, in the order of their receipt, from the one after number
    /// `after`; 0 for the first.
    ///
    /// # Errors
    /// `NoSuchJob` when the store does not have the job; others as for every request.
    ///
    /// # Cancel safety
    /// The request changes nothing.
    pub async fn job_returns(&self, jid: &Jid, after: u64) -> Result<ReturnsPage, ClientError> {
        let jid = jid.clone();
        match self
            .ask(&OperatorRequest::JobReturns { jid, after })
            .await?
        {
            OperatorReply::Returns(page) => Ok(page),
            _ => Err(ClientError::WrongAnswer("JobReturns")),
        }
    }

    /// Returns a page of the states of the job's minions, from the one after `after`.
    ///
    /// # Errors
    /// `NoSuchJob` when the store does not have the job; others as for every request.
    ///
    /// # Cancel safety
    /// The request changes nothing.
    pub async fn job_states(
        &self,
        jid: &Jid,
        after: Option<MinionId>,
    ) -> Result<StatesPage, ClientError> {
        let jid = jid.clone();
        match self.ask(&OperatorRequest::JobStates { jid, after }).await? {
            OperatorReply::States(page) => Ok(page),
            _ => Err(ClientError::WrongAnswer("JobStates")),
        }
    }

    /// Cancels a job: minions that have not begun it will not run it. The states of the job tell when each
    /// has said so. Returns what the operator is warned of.
    ///
    /// # Errors
    /// `NoSuchJob` when the store does not have the job; others as for every request.
    ///
    /// # Cancel safety
    /// The job may be cancelled all the same.
    pub async fn cancel(&self, jid: &Jid) -> Result<Vec<OrderWarning>, ClientError> {
        let jid = jid.clone();
        match self.ask(&OperatorRequest::Cancel { jid }).await? {
            OperatorReply::Cancelling(warnings) => Ok(warnings),
            _ => Err(ClientError::WrongAnswer("Cancel")),
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

    /// Has the master make a new group key, and send it to all minions that are present. Returns what the operator is warned
    /// of.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The key may be made all the same.
    pub async fn rotate_group_key(&self) -> Result<Vec<OrderWarning>, ClientError> {
        match self.ask(&OperatorRequest::RotateGroupKey).await? {
            OperatorReply::Rotated(warnings) => Ok(warnings),
            _ => Err(ClientError::WrongAnswer("RotateGroupKey")),
        }
    }

    /// Makes, lists or revokes tokens that let minions in.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The request may be carried out all the same. Repeated, it changes nothing more.
    pub async fn tokens(&self, request: TokenRequest) -> Result<TokenReply, ClientError> {
        match self.ask(&OperatorRequest::Tokens(request)).await? {
            OperatorReply::Tokens(reply) => Ok(reply),
            _ => Err(ClientError::WrongAnswer("Tokens")),
        }
    }

    /// Hands in files for the minions of a job, in parts.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The request may be carried out all the same. Repeated, it changes nothing more.
    pub async fn upload(&self, request: UploadRequest) -> Result<UploadReply, ClientError> {
        match self.ask(&OperatorRequest::Upload(request)).await? {
            OperatorReply::Upload(reply) => Ok(reply),
            _ => Err(ClientError::WrongAnswer("Upload")),
        }
    }

    /// Returns where and when the master saw each key of these minions last, of at most
    /// [`MAX_LAST_SEEN`](saline_messages::MAX_LAST_SEEN) minions.
    ///
    /// # Errors
    /// As for every request.
    ///
    /// # Cancel safety
    /// The request changes nothing.
    pub async fn last_seen(&self, minions: Vec<MinionId>) -> Result<Vec<LastSeen>, ClientError> {
        match self.ask(&OperatorRequest::LastSeen(minions)).await? {
            OperatorReply::LastSeen(last_seen) => Ok(last_seen),
            _ => Err(ClientError::WrongAnswer("LastSeen")),
        }
    }

    /// Listens to events: to the event bus as the local operator, and otherwise, over the session, to those that one may get.
    /// Every event that is fired after this returns is received or counted as lost.
    ///
    /// # Errors
    /// `NotAllowed` when no rule lets one read events, `BadTag` when the filter cannot match any tag, `MasterGone` when the master does not confirm.
    ///
    /// # Cancel safety
    /// A subscription whose future was dropped is withdrawn.
    pub async fn events(&self, filter: &EventFilter) -> Result<Events, ClientError> {
        let topics = filter.topics()?;
        Ok(Events(Arc::clone(&self.master).subscribe(topics).await?))
    }

    /// Waits until the master has been away for two seconds, and returns how much longer requests, jobs that are followed and runs
    /// wait for it before they fail with [`ClientError::MasterGone`]. Each absence is reported once. While the master is present,
    /// this waits as long as the client exists.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn master_away(&self) -> Duration {
        let context = self.session.context();
        self.session.absence().next_reported(context.clock).await
    }

    /// Returns the context of the client: tasks that it spawns end with the client.
    pub fn context(&self) -> &Context {
        self.session.context()
    }

    /// Ends the connection, every subscription and every task.
    ///
    /// # Cancel safety
    /// A shutdown that was begun goes on; call again to wait for it.
    pub async fn shutdown(&self) {
        self.session.shutdown().await;
    }

    /// Sends a request. Replies that stand for a failure of any verb become errors.
    async fn ask(&self, request: &OperatorRequest) -> Result<OperatorReply, ClientError> {
        match (self.master.ask(request).await?, request) {
            (OperatorReply::BadTarget(why), _) => Err(ClientError::BadTarget(why)),
            (OperatorReply::Failed(why), _) => Err(ClientError::Failed(why)),
            (OperatorReply::Invalid(why), _) => Err(ClientError::Invalid(why)),
            (OperatorReply::NotAllowed(why), _) => Err(ClientError::NotAllowed(why)),
            (OperatorReply::NotLoggedIn, _) => Err(ClientError::NotLoggedIn),
            (
                OperatorReply::NoSuchJob,
                OperatorRequest::JobReturns { jid, .. }
                | OperatorRequest::JobStates { jid, .. }
                | OperatorRequest::Cancel { jid },
            ) => Err(ClientError::NoSuchJob(jid.clone())),
            (reply, _) => Ok(reply),
        }
    }
}
