//! What the client needs of a master: answers, and its event bus.

use std::fmt;

use async_trait::async_trait;
use saline_protocol::message::{OperatorReply, OperatorRequest};
use saline_protocol::transport::{Clock, Subscriber, TopicFilter};

use crate::ClientError;

/// A master as its operator sees it. The one that travels is [`Link`](crate::link::Link).
#[async_trait]
pub(crate) trait Master: Send + Sync + fmt::Debug {
    /// Asks until there is an answer, across lost connections and restarts of the master: the
    /// same request again, which acts once.
    ///
    /// # Errors
    /// `MasterGone` when it has been away for too long; others when asking again cannot help.
    ///
    /// # Cancel safety
    /// What was sent may still be carried out.
    async fn ask(&self, request: &OperatorRequest) -> Result<OperatorReply, ClientError>;

    /// Subscribes to the event bus. When it returns, nothing that is fired is missed.
    ///
    /// # Errors
    /// `MasterGone` when no confirmation came.
    ///
    /// # Cancel safety
    /// A subscription whose future was dropped is withdrawn.
    async fn subscribe(&self, topics: Vec<TopicFilter>)
    -> Result<Box<dyn Subscriber>, ClientError>;

    /// How many sessions have been made with it.
    fn sessions(&self) -> u64;

    /// Where it is, for messages.
    fn endpoint(&self) -> String;

    /// Reads and awaits time.
    fn clock(&self) -> Clock;
}
