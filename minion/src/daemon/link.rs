//! A session that is accepted, and asking in it.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::channel::{ChannelError, Session};
use saline_protocol::message::{Class, MinionReply, MinionRequest, RefusedVerb, Welcome};
use saline_protocol::transport::{self, Client, Clock, Endpoint};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// Why a session came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The master does not know it, or what came in it cannot be believed.
    Lost,
    /// Another minion with this id took its place.
    Replaced,
    /// The minion's key was deleted or rejected.
    KeyGone,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The session is over.
    #[error("the session is over")]
    Ended,
    /// The master asks to come again later.
    #[error("the master is busy")]
    Busy(Duration),
    /// It did not travel.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// The master will not do it.
    #[error("the master refused it: {0:?}")]
    Refused(RefusedVerb),
}

/// A session that is accepted.
#[derive(Debug)]
pub struct Link {
    /// Over which it goes.
    pub client: Arc<dyn Client>,
    /// Where the master is.
    pub endpoint: Endpoint,
    /// To ask in.
    pub session: Session,
    /// What the master said at the door.
    pub welcome: Welcome,
    over: CancellationToken,
    why: OnceCell<Ended>,
}

impl Link {
    /// A session that stands over `client`.
    pub fn new(
        client: Arc<dyn Client>,
        endpoint: Endpoint,
        session: Session,
        welcome: Welcome,
    ) -> Self {
        Self {
            client,
            endpoint,
            session,
            welcome,
            over: CancellationToken::new(),
            why: OnceCell::new(),
        }
    }

    /// The session is over; the first reason counts.
    pub fn end(&self, why: Ended) {
        // An error means that it was over already.
        let _ = self.why.set(why);
        self.over.cancel();
    }

    /// Waits until it is over.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn ended(&self) -> Ended {
        self.over.cancelled().await;
        self.why.get().copied().unwrap_or(Ended::Lost)
    }

    /// Asks, and waits for the answer at most that long. What says that the session is over ends it.
    ///
    /// # Errors
    /// See [`AskError`].
    ///
    /// # Cancel safety
    /// What was sent may still be carried out.
    pub async fn ask(
        &self,
        class: Class,
        request: &MinionRequest,
        within: Duration,
    ) -> Result<MinionReply, AskError> {
        if self.over.is_cancelled() {
            return Err(AskError::Ended);
        }
        let deadline = Clock.after(within);
        let answer = self
            .session
            .ask::<_, MinionReply>(self.client.as_ref(), class, request, deadline)
            .await;
        let why = match answer {
            Ok(MinionReply::Refused(RefusedVerb::Replaced)) => Ended::Replaced,
            Ok(MinionReply::Refused(RefusedVerb::KeyGone)) => Ended::KeyGone,
            Ok(MinionReply::Refused(verb)) => return Err(AskError::Refused(verb)),
            Ok(MinionReply::Busy { after_ms }) => {
                return Err(AskError::Busy(Duration::from_millis(u64::from(after_ms))));
            }
            Ok(reply) => return Ok(reply),
            Err(ChannelError::Busy { after }) => return Err(AskError::Busy(after)),
            Err(ChannelError::Transport(error)) => return Err(AskError::Transport(error)),
            Err(error) => {
                tracing::info!("session {} is over: {error}", self.session.id());
                Ended::Lost
            }
        };
        self.end(why);
        Err(AskError::Ended)
    }
}
