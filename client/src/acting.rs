//! The master as a user who logged in sees it: each request goes with the token of the login.

use std::sync::Arc;

use async_trait::async_trait;
use saline_messages::{
    ActAsRequest, LoginToken, NetapiClient, OperatorReply, OperatorRequest, encode,
};
use saline_protocol::transport::{Clock, Subscriber, TopicFilter};

use crate::ClientError;
use crate::event_polls::EventPolls;
use crate::master::Master;
use crate::master_absence::MasterAbsence;
use crate::operator_session::OperatorSession;

/// A session, over which everything is asked in the name of the user of a login.
#[derive(Debug)]
pub(crate) struct ActingMaster {
    pub(crate) session: Arc<OperatorSession>,
    pub(crate) token: LoginToken,
    /// The client of the API by which the user asks.
    pub(crate) client: Option<NetapiClient>,
}

#[async_trait]
impl Master for ActingMaster {
    async fn ask(&self, request: &OperatorRequest) -> Result<OperatorReply, ClientError> {
        let acting = OperatorRequest::ActAs(ActAsRequest {
            token: self.token,
            client: self.client,
            request: encode(request).into(),
        });
        match self.session.ask(&acting).await? {
            OperatorReply::NotLoggedIn => Err(ClientError::NotLoggedIn),
            reply => Ok(reply),
        }
    }

    async fn subscribe(
        self: Arc<Self>,
        topics: Vec<TopicFilter>,
    ) -> Result<Box<dyn Subscriber>, ClientError> {
        let context = self.session.context().clone();
        let polls = EventPolls::begin(self, context, topics).await?;
        Ok(Box::new(polls))
    }

    fn absence(&self) -> &MasterAbsence {
        self.session.absence()
    }

    fn sessions(&self) -> u64 {
        self.session.sessions()
    }

    fn endpoint(&self) -> String {
        self.session.endpoint()
    }

    fn clock(&self) -> Clock {
        self.session.clock()
    }
}
