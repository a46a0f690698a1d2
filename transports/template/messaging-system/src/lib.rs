//! A skeleton of a transport over a messaging system (a broker, libzmq), to copy. Whatever carries
//! bytes in order is easier as a connection: `transports/template/connection`.
//!
//! It compiles, and what is not written yet fails with an error that says what to write and where
//! `docs/writing-a-transport.md` is about it: `cargo test --test conformance` lists what is left.
//!
//! | file | holds |
//! |---|---|
//! | `lib.rs` | the transport: what it can do, and where both sides begin |
//! | `message.rs` | what the two ends say to each other |
//! | `connection.rs` | a client's connection to the messaging system |
//! | `server.rs` | requests, publications, and how a server ends |
//! | `client.rs` | the client, and the task that keeps it connected |
//! | `subscriber.rs` | the subscriptions of a client |

mod client;
mod connection;
mod message;
mod server;
mod subscriber;

use std::sync::Arc;

use async_trait::async_trait;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Error, ErrorKind, Result, ServeAt, Server, Transport,
};

/// Your transport.
#[derive(Debug, Clone, Copy, Default)]
pub struct Template;

impl Template {
    /// Returns the transport.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for Template {
    fn scheme(&self) -> &'static str {
        "template"
    }

    fn capabilities(&self) -> Capabilities {
        // Promise no more than you keep: what is declared is tested, what is not is skipped.
        Capabilities::new(1 << 30)
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        server::serve(&at.requests, context).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(endpoint, context).await
    }
}

/// Returns the error of something that is not written yet: where, what to write, and which section of
/// the guide is about it.
fn unwritten(place: &str, what: &str, section: &str) -> Error {
    Error::new(
        ErrorKind::Config,
        format!(
            "not written yet: {place}: {what} (docs/writing-a-transport.md, section \"{section}\")"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use saline_engine::Lifetime;
    use saline_protocol::transport::{HostPort, Publisher, Topic, TopicFilter};
    use std::time::Duration;

    /// Calls what is reached only when something before it has been written. Delete this in your copy
    /// as soon as you have written something.
    #[tokio::test]
    async fn whatever_is_called_says_what_to_write() {
        let context = Context::default();
        let soon = context.clock.after(Duration::from_secs(1));
        let topic: Topic = "t".parse().unwrap();
        let endpoint = Endpoint::network("template", HostPort::new("127.0.0.1", 0));
        let client = client::TemplateClient::new(Lifetime::new(context.clone(), Duration::ZERO));
        let publisher = server::TemplatePublisher::default();
        let at = ServeAt {
            requests: endpoint.clone(),
            publications: None,
        };
        let topics = vec![TopicFilter::Exact(topic.clone())];
        let errors = [
            Template.serve(at, context.clone()).await.map(drop),
            Template.connect(&endpoint, context).await.map(drop),
            client.subscribe(None, topics, soon).await.map(drop),
            publisher.publish(&topic, Bytes::new()).await,
            connection::Connection.send(&message::Message::Ping).await,
        ];
        for error in errors {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("not written yet: "), "{error}");
        }
    }
}
