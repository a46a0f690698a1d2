//! The subscription to the publications of a session. It is confirmed before the minion reconciles, which makes the
//! minion present: a minion that no publication reaches must not be offered any job.

use std::sync::Arc;
use std::time::Duration;

use saline_channel::publication::{topic_all, topic_of};
use saline_messages::{Class, MinionId, MinionRequest, PublicationAddress};
use saline_protocol::transport::{Clock, Endpoint, Error, Subscriber, TopicFilter};

use super::minion_session::MinionSession;

/// An accepted session whose publications reach the minion.
#[derive(Debug)]
pub struct SubscribedSession {
    /// The session.
    pub session: Arc<MinionSession>,
    /// Receives the publications to all minions and those to this one.
    pub subscriber: Box<dyn Subscriber>,
    /// The endpoint of the publications.
    pub publications: Endpoint,
}

/// The reason why there is no subscription.
#[derive(Debug, thiserror::Error)]
#[error(
    "the master takes requests at {requests}, and no subscription at {publications}: {why}; open both ports to this minion"
)]
pub struct SubscribeError {
    requests: Endpoint,
    publications: Endpoint,
    why: Error,
}

/// Subscribes to the publications to all minions and to those to the minion `id`.
///
/// # Errors
/// When the master does not confirm the subscription within `timeout`: the connection is of no use.
///
/// # Cancel safety
/// When the future is dropped there is no subscription.
pub async fn subscribe(
    session: Arc<MinionSession>,
    id: &MinionId,
    timeout: Duration,
) -> Result<SubscribedSession, SubscribeError> {
    let at = match &session.welcome.publications {
        PublicationAddress::SameConnection => None,
        PublicationAddress::Port(port) => Some(session.endpoint.clone().with_port(*port)),
        PublicationAddress::Path(path) => Some(Endpoint::local(&session.endpoint.scheme, path)),
    };
    let topics = [topic_all(), topic_of(id)].map(TopicFilter::Exact).to_vec();
    let deadline = Clock.after(timeout);
    // A master forgets a session that is not used for a few seconds, and a subscription may take longer.
    let (subscribed, used) = tokio::join!(
        session.client.subscribe(at.as_ref(), topics, deadline),
        session.ask(Class::Event, &MinionRequest::Poll, timeout),
    );
    if let Err(error) = used {
        tracing::debug!("the session was not used before it was reconciled: {error}");
    }
    let publications = at.unwrap_or_else(|| session.endpoint.clone());
    match subscribed {
        Ok(subscriber) => Ok(SubscribedSession {
            session,
            subscriber,
            publications,
        }),
        Err(why) => Err(SubscribeError {
            requests: session.endpoint.clone(),
            publications,
            why,
        }),
    }
}
