//! The interface that a run needs of a master: requests, and the event bus.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use saline_messages::{OperatorReply, OperatorRequest};
use saline_protocol::transport::{Clock, Subscriber, TopicFilter};

use crate::ClientError;
use crate::master_absence::MasterAbsence;

/// A master as its operator sees it: a `OperatorSession`, or a table in tests.
#[async_trait]
pub(crate) trait Master: Send + Sync + fmt::Debug {
    /// Sends a request until it is answered, across lost connections and restarts of the master. A
    /// repeated request acts once.
    ///
    /// # Errors
    /// `MasterGone` when the master has been away for too long; others when repeating cannot help.
    ///
    /// # Cancel safety
    /// A request that was sent may still be carried out.
    async fn ask(&self, request: &OperatorRequest) -> Result<OperatorReply, ClientError>;

    /// Subscribes to the event bus. Every event that is fired after this returns is received or
    /// counted as lost.
    ///
    /// # Errors
    /// `MasterGone` when no confirmation came, `NotAllowed` when the master refuses events; others as for every request.
    ///
    /// # Cancel safety
    /// A subscription whose future was dropped is withdrawn.
    async fn subscribe(
        self: Arc<Self>,
        topics: Vec<TopicFilter>,
    ) -> Result<Box<dyn Subscriber>, ClientError>;

    /// Returns how long the master has been away, as requests and subscriptions notice it.
    fn absence(&self) -> &MasterAbsence;

    /// Returns how many sessions have been made with the master.
    fn sessions(&self) -> u64;

    /// Returns the master's endpoint, for messages.
    fn endpoint(&self) -> String;

    /// Returns the clock.
    fn clock(&self) -> Clock;
}
