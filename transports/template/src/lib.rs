//! A skeleton of a transport, to copy. `docs/writing-a-transport.md` goes through it file by file;
//! `examples/third-party-transport` is what it can become.
//!
//! It compiles, and what is not written yet fails with an error that says what to write and where the
//! guide speaks of it: `cargo test --test conformance` is the list of what is left.
//!
//! | file | will hold |
//! |---|---|
//! | `lib.rs` | the transport: what it can do, and where both sides begin |
//! | `options.rs` | what can be configured |
//! | `frame.rs` | the bytes on the wire |
//! | `link.rs` | one link of a client: dialling it |
//! | `server.rs` | what listens, whom it takes, how requests are handed out, and the end |
//! | `publisher.rs` | who is connected and who takes what |
//! | `client.rs` | requests, and the task that keeps the link up |
//! | `subscriber.rs` | the subscriptions of a client |

mod client;
mod frame;
mod link;
mod options;
mod publisher;
mod server;
mod subscriber;

use std::sync::Arc;

use async_trait::async_trait;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Error, ErrorKind, OptionSpec, Result, ServeAt, Server,
    Transport,
};

/// Your transport.
#[derive(Debug, Clone, Copy, Default)]
pub struct Template;

impl Template {
    /// The transport.
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

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        server::serve(&at.requests, context).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(endpoint, context).await
    }
}

/// What is not written yet: where, what, and which section of the guide is about it.
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
    use saline_protocol::transport::{HostPort, Publisher, ServerControl, Topic, TopicFilter};
    use std::time::Duration;

    /// What is reached only when something before it has been written. Delete this in your copy as
    /// soon as you have written something.
    #[tokio::test]
    async fn whatever_is_called_says_what_to_write() {
        let context = Context::default();
        let soon = context.clock.after(Duration::from_secs(1));
        let topic: Topic = "t".parse().unwrap();
        let endpoint = Endpoint::network("template", HostPort::new("127.0.0.1", 0));
        let lifetime = Lifetime::new(context.clone(), Duration::ZERO);
        let client = client::TemplateClient {
            _alive: lifetime.cut.clone().drop_guard(),
            lifetime,
        };
        let at = ServeAt {
            requests: endpoint.clone(),
            publications: None,
        };
        let topics = vec![TopicFilter::Exact(topic.clone())];
        let errors = [
            Template.serve(at, context.clone()).await.map(drop),
            Template.connect(&endpoint, context).await.map(drop),
            client.request(Bytes::new(), soon).await.map(drop),
            client.subscribe(None, topics, soon).await.map(drop),
            client.shutdown(Duration::ZERO).await,
            publisher::TemplatePublisher
                .publish(&topic, Bytes::new())
                .await,
            server::TemplateControl.shutdown(Duration::ZERO).await,
            link::Link.send(&frame::Frame::Ping).await,
        ];
        for error in errors {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("not written yet: "), "{error}");
        }
    }
}
