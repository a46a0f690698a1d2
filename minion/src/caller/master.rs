//! A caller's session with the master of its minion.

use std::sync::Arc;
use std::time::Duration;

use saline_channel::establish;
use saline_channel::{
    ChannelError, Credentials, Established, Identity, NoiseKey, PinnedMaster, Session,
};
use saline_config::MinionConfig;
use saline_messages::{
    Admission, CallerReply, CallerRequest, CallerReturn, Class, MinionEvents, MinionId,
    ProtocolVersions, Refusal, Role,
};
use saline_protocol::transport::{Clock, Context, Registry};

use super::CallError;
use crate::link::candidate::{self, Connected};
use crate::link::token_file::TokenFile;
use saline_modules::{Host, NotAnswered};

/// How long the handshake, and each request, may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a busy master is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the end of the connection may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// A session with the role of a caller.
#[derive(Debug)]
pub(super) struct CallerSession {
    connected: Connected,
    credentials: Credentials,
    trusted: PinnedMaster,
    session: Session,
    clock: Clock,
}

/// The reason why the master did not take the events or the return.
#[derive(Debug, thiserror::Error)]
pub(super) enum TellError {
    /// The session or the connection failed.
    #[error("the master did not take the return: {0}")]
    Channel(#[from] ChannelError),
    /// The master did not carry it out.
    #[error("the master did not take the return: {0}")]
    Refused(String),
    /// The function has a name that no function has.
    #[error("the master was not told: it stores no call of a function with such a name")]
    NotStored,
    /// The master was busy for too long.
    #[error("the master did not take the return: it is busy")]
    Busy,
}

impl CallerSession {
    /// Connects with the first configured transport on which a master answers, and makes a session with the
    /// minion's key.
    pub(super) async fn make(
        config: &MinionConfig,
        id: &MinionId,
        registry: &Registry,
    ) -> Result<Self, CallError> {
        let credentials = Credentials {
            role: Role::Caller,
            id: id.to_string(),
            identity: Arc::new(Identity::load(&config.paths.pki_dir)?),
            // This is the minion's own key, so that the master refuses it here too once it was replaced.
            noise: NoiseKey::load_or_create(&config.paths.pki_dir)?,
            versions: ProtocolVersions::OURS,
        };
        let trusted = PinnedMaster::new(config.master_identity(), config.master_finger.clone())
            .with_token(TokenFile::of(config).read());
        let trust = trusted.trust().map_err(|why| CallError::Distrust(why.0))?;
        let context = Context::new(config.limits()).with_tls(config.tls.clone());
        let candidates = candidate::candidates(config, registry).map_err(CallError::Config)?;
        let connected = connect_to_any(&candidates, &context).await?;
        let endpoint = connected.endpoint.to_string();
        let clock = context.clock;
        let deadline = clock.after(ANSWER_TIMEOUT);
        let client = connected.client.as_ref();
        let made = establish(client, &credentials, &trust, deadline).await;
        let Established {
            session,
            answer,
            master,
        } = made.map_err(|source| match source {
            ChannelError::WrongMaster { found, .. } => {
                CallError::Distrust(trusted.explain_other_key(&trust, &found).0)
            }
            old @ ChannelError::OldNoiseKey => {
                CallError::Distrust(trusted.explain_old_noise_key(&old).0)
            }
            source => CallError::Session {
                endpoint: endpoint.clone(),
                source,
            },
        })?;
        trusted.pin(&trust, &master);
        match answer {
            Admission::Accepted(_) => Ok(Self {
                connected,
                credentials,
                trusted,
                session,
                clock,
            }),
            Admission::NoCommonVersion { versions, software } => Err(CallError::NoCommonVersion {
                endpoint,
                versions,
                software,
            }),
            Admission::OldNoiseKey => Err(CallError::OldNoiseKey {
                endpoint,
                id: id.clone(),
            }),
            _ => Err(CallError::NotAccepted {
                endpoint,
                id: id.clone(),
            }),
        }
    }

    /// Asks the master whether its configuration has these destinations.
    ///
    /// # Errors
    /// When it does not have one, or does not answer.
    pub(super) async fn check_returners(&self, names: &[String]) -> Result<(), CallError> {
        if names.is_empty() {
            return Ok(());
        }
        let request = CallerRequest::CheckReturners(names.to_vec());
        self.ask(&request).await.map_err(|error| {
            CallError::NoDestination(match error {
                TellError::Refused(why) => why,
                error => error.to_string(),
            })
        })
    }

    /// Sends the events that the function fired, and what it returned.
    pub(super) async fn tell(
        &mut self,
        host: &Host,
        returned: CallerReturn,
    ) -> Result<(), TellError> {
        self.resume(host).await?;
        while let Some((first, events)) = host.events.try_next_batch(host.max_payload()) {
            let events = MinionEvents {
                start: host.events.start_id(),
                first,
                events,
            };
            self.ask(&CallerRequest::FireEvents(events)).await?;
        }
        if !returned.is_within_bounds() {
            return Err(TellError::NotStored);
        }
        self.ask(&CallerRequest::Return(returned)).await
    }

    /// Sends a request of a function, which sends it again where it has to be.
    pub(super) async fn ask_once(
        &mut self,
        host: &Host,
        request: &CallerRequest,
        within: Duration,
    ) -> Result<CallerReply, NotAnswered> {
        let refused = |error: &dyn std::fmt::Display| NotAnswered::Refused(error.to_string());
        let resumed = self.resume(host).await;
        resumed.map_err(|error| refused(&error))?;
        let deadline = self.clock.after(within);
        let client = self.connected.client.as_ref();
        let answer = self.session.ask(client, Class::Bulk, request, deadline);
        match answer.await {
            Ok(CallerReply::Busy { after_ms }) => {
                Err(NotAnswered::Later(Duration::from_millis(after_ms.into())))
            }
            Ok(CallerReply::Refused(why)) => Err(refused(&why)),
            Ok(CallerReply::Failed(why)) => Err(NotAnswered::Refused(why)),
            Ok(reply) => Ok(reply),
            Err(ChannelError::Busy { after }) => Err(NotAnswered::Later(after)),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Makes sure that the session stands: the master forgets one that was not used for a minute, or that has not been
    /// used yet for a few seconds, and the function may have taken longer. What this sends is small, so that the
    /// master admits the connection before anything large follows.
    async fn resume(&mut self, host: &Host) -> Result<(), TellError> {
        let nothing = CallerRequest::FireEvents(MinionEvents {
            start: host.events.start_id(),
            first: 1,
            events: Vec::new(),
        });
        match self.ask(&nothing).await {
            Err(TellError::Channel(ChannelError::Refused(Refusal::UnknownSession))) => {}
            told => return told,
        }
        let trust = self.trusted.trust();
        let trust = trust.map_err(|why| TellError::Refused(why.0))?;
        let deadline = self.clock.after(ANSWER_TIMEOUT);
        let client = self.connected.client.as_ref();
        let made = establish(client, &self.credentials, &trust, deadline).await?;
        if !made.answer.is_accepted() {
            let why = "it does not accept the key of the minion any more";
            return Err(TellError::Refused(why.to_owned()));
        }
        self.session = made.session;
        self.ask(&nothing).await
    }

    /// Sends a request until it is carried out, refused, or the master was busy for too long.
    async fn ask(&self, request: &CallerRequest) -> Result<(), TellError> {
        let give_up = self.clock.after(BUSY_TIMEOUT);
        loop {
            let deadline = self.clock.after(ANSWER_TIMEOUT);
            let client = self.connected.client.as_ref();
            let answer = self.session.ask(client, Class::Return, request, deadline);
            let delay = match answer.await {
                Ok(CallerReply::Stored(_) | CallerReply::Done) => return Ok(()),
                Ok(CallerReply::Busy { after_ms }) => Duration::from_millis(after_ms.into()),
                Ok(CallerReply::Refused(why)) => {
                    return Err(TellError::Refused(why.to_string()));
                }
                Ok(CallerReply::Failed(why)) => return Err(TellError::Refused(why)),
                Ok(CallerReply::Pillar(_) | CallerReply::Mine(_)) => {
                    let why = "it gave an answer to another question";
                    return Err(TellError::Refused(why.to_owned()));
                }
                Err(ChannelError::Busy { after }) => after,
                Err(error) => return Err(error.into()),
            };
            if self.clock.after(delay) >= give_up {
                return Err(TellError::Busy);
            }
            self.clock.pause(delay).await;
        }
    }

    /// Ends the connection.
    pub(super) async fn leave(&self) {
        // An error means that requests were cut, which no longer matters.
        let _ = self.connected.client.shutdown(LEAVE_TIMEOUT).await;
        self.connected.context.cancel.cancel();
    }
}

async fn connect_to_any(
    candidates: &[candidate::Candidate],
    context: &Context,
) -> Result<Connected, CallError> {
    let mut tried = Vec::new();
    for candidate in candidates {
        match candidate.connect(context).await {
            Ok(connected) => return Ok(connected),
            Err(error) => tried.push(format!("{} ({error})", candidate.endpoint)),
        }
    }
    Err(CallError::NoMaster {
        tried: tried.join(", "),
    })
}
