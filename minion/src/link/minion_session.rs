//! An accepted session with the master.

use std::sync::Arc;
use std::time::Duration;

use saline_channel::{ChannelError, Session};
use saline_messages::{
    Class, DecodeError, MinionReply, MinionRequest, PlannedEnd, RefusedVerb, Welcome,
};
use saline_protocol::transport::{self, Client, Clock, Endpoint};
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

/// The reason why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The master does not know the session, or broke the protocol in it.
    Lost,
    /// Another minion with the same id took the place of this one.
    Replaced,
    /// The minion's key was deleted or rejected.
    KeyGone,
    /// The minion has another session, in place of this one.
    HandedOver,
}

/// The reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
    /// The master is busy, and asks for a delay.
    #[error("the master is busy")]
    Busy(Duration),
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// The master's reply is authentic and cannot be read.
    #[error("the master's reply cannot be read: {0}")]
    Unreadable(DecodeError),
    /// The answer is not the master's, whose session stands: somebody on the path made it, or changed it.
    #[error("the answer is not the master's: {0}")]
    NotAuthentic(ChannelError),
    /// The master refused the request for good.
    #[error("the master refused the request: {0}")]
    Refused(RefusedVerb),
}

/// An accepted session with the master.
#[derive(Debug)]
pub struct MinionSession {
    /// The connection that carries the session.
    pub client: Arc<dyn Client>,
    /// The master's endpoint.
    pub endpoint: Endpoint,
    /// Seals requests and opens replies.
    pub session: Session,
    /// The master's answer when it accepted the session.
    pub welcome: Welcome,
    /// The number of the session, counted from 1 since the minion started.
    pub number: u64,
    /// Whether the connection stands, as the subscription tells.
    is_up: watch::Sender<bool>,
    end: CancellationToken,
    why: OnceCell<Ended>,
}

impl MinionSession {
    /// Wraps a session that the master accepted over `client`.
    pub fn new(
        client: Arc<dyn Client>,
        endpoint: Endpoint,
        session: Session,
        welcome: Welcome,
        number: u64,
    ) -> Self {
        Self {
            number,
            client,
            endpoint,
            session,
            welcome,
            is_up: watch::Sender::new(true),
            end: CancellationToken::new(),
            why: OnceCell::new(),
        }
    }

    /// Ends the session; the first reason counts.
    pub fn end(&self, why: Ended) {
        // An error means that the session had ended already.
        let _ = self.why.set(why);
        self.end.cancel();
    }

    /// Notes whether the connection stands.
    pub fn set_up(&self, is_up: bool) {
        self.is_up.send_replace(is_up);
    }

    /// Waits until the connection stands.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn up(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_up.subscribe().wait_for(|is_up| *is_up).await;
    }

    /// Whether the connection is up, as far as the transport knows.
    pub fn is_up(&self) -> bool {
        *self.is_up.borrow()
    }

    /// Waits until the connection has been down for this time.
    ///
    /// # Cancel safety
    /// When the future is dropped the time starts over.
    pub async fn down_for(&self, time: Duration) {
        loop {
            // The sender lives as long as `self`.
            let _ = self.is_up.subscribe().wait_for(|is_up| !is_up).await;
            if Clock.deadline(Clock.after(time), self.up()).await.is_err() {
                return;
            }
        }
    }

    /// Whether the session has ended.
    pub fn has_ended(&self) -> bool {
        self.end.is_cancelled()
    }

    /// Waits until the session has ended, and returns the reason.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn ended(&self) -> Ended {
        self.end.cancelled().await;
        self.why.get().copied().unwrap_or(Ended::Lost)
    }

    /// Says goodbye to the master, with what the machine is planned to do now, and closes the connection.
    ///
    /// # Cancel safety
    /// A shutdown that was begun goes on.
    pub async fn leave(&self, planned: Option<PlannedEnd>, within: Duration) {
        if let Err(error) = self
            .ask(Class::Event, &MinionRequest::Goodbye(planned), within)
            .await
        {
            tracing::debug!("the master was not told goodbye: {error}");
        }
        // An error means that requests or publications were cut, which no longer matters.
        let _ = self.client.shutdown(within).await;
    }

    /// Sends a request and waits for the reply, at most for `within`. A reply that says that the
    /// session is over ends it.
    ///
    /// # Errors
    /// See [`AskError`].
    ///
    /// # Cancel safety
    /// A request that was sent may still be carried out.
    pub async fn ask(
        &self,
        class: Class,
        request: &MinionRequest,
        within: Duration,
    ) -> Result<MinionReply, AskError> {
        if self.end.is_cancelled() {
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
            Err(ChannelError::Decode(error)) => return Err(AskError::Unreadable(error)),
            Err(ChannelError::Transport(error)) => return Err(AskError::Transport(error)),
            // What is said in the clear is a hint. Whether it is true, the session itself tells.
            Err(error) => match self.disproof(within).await {
                None => return Err(AskError::NotAuthentic(error)),
                Some(Ended::Lost) => {
                    tracing::info!("session {} has ended: {error}", self.session.id());
                    Ended::Lost
                }
                Some(why) => why,
            },
        };
        self.end(why);
        Err(AskError::Ended)
    }

    /// Asks in the session whether it stands. Returns the reason when it has ended: the master says so in it,
    /// or does not know it again.
    async fn disproof(&self, within: Duration) -> Option<Ended> {
        let deadline = Clock.after(within);
        let answer = self
            .session
            .ask::<_, MinionReply>(
                self.client.as_ref(),
                Class::Event,
                &MinionRequest::Poll,
                deadline,
            )
            .await;
        match answer {
            Ok(MinionReply::Refused(RefusedVerb::Replaced)) => Some(Ended::Replaced),
            Ok(MinionReply::Refused(RefusedVerb::KeyGone)) => Some(Ended::KeyGone),
            Ok(_) | Err(ChannelError::Transport(_) | ChannelError::Busy { .. }) => None,
            Err(_) => Some(Ended::Lost),
        }
    }
}
