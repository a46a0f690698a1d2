//! The QUIC transport: quinn and rustls. One connection a client, which carries requests and
//! publications alike on one bidirectional stream.
//!
//! The engine (`saline-engine`) holds everything above a connection. Here are the connections:
//!
//! | file | holds |
//! |---|---|
//! | `dial.rs` | connecting |
//! | `listen.rs` | binding and accepting |
//! | `pipe.rs` | the stream of a connection as a pipe, and how a connection ends |
//! | `certificate.rs` | certificates, and what TLS is asked to do with them |
//! | `socket.rs` | UDP sockets, and what the system tells about peers |
//! | `quinn_config.rs` | the parameters of quinn |
//! | `runtime.rs` | quinn's tasks, timers and sockets on the context |
//! | `options.rs` | the options of the section `quic` |
//!
//! The connection is always encrypted, and unless `ssl` says otherwise nobody is authenticated by it: a
//! server shows a self-signed certificate that it makes when it starts, and a client takes any. The
//! channel above proves who the peer is and that it holds this very certificate
//! ([`Client::peer_certificate`] and [`ServerControl::certificate`] are the same bytes at both ends).
//! With `ssl` certificates come from files and are held against authorities, at either end; names in
//! them are not compared.
//!
//! QUIC's own time-out is off: the engine pings, and judges silence on every transport alike.
//!
//! [`Client::peer_certificate`]: saline_protocol::transport::Client::peer_certificate
//! [`ServerControl::certificate`]: saline_protocol::transport::ServerControl::certificate

mod certificate;
mod dial;
mod listen;
mod options;
mod pipe;
mod quinn_config;
mod runtime;
mod socket;

use std::sync::Arc;

use async_trait::async_trait;
use saline_engine::Connections;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, OptionSpec, Result, ServeAt, Server, Transport,
};

use dial::QuicDialer;
use listen::QuicListener;

/// The QUIC transport, scheme `quic`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quic;

impl Quic {
    /// Returns the transport.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for Quic {
    fn scheme(&self) -> &'static str {
        "quic"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_shared_socket()
            .with_encryption()
            .with_exact_drops()
            .with_admission()
            .with_departures()
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    async fn serve(&self, at: ServeAt, mut context: Context) -> Result<Server> {
        // All connections share the descriptor of their listener.
        context.limits.descriptors = None;
        let (listeners, bound, certificate) = listen::bind(&at.requests, &context).await?;
        Ok(saline_engine::serve(
            listeners,
            bound,
            Some(certificate),
            context,
        ))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let dialer = self.dialer(endpoint, &context)?;
        saline_engine::connect(dialer, endpoint, context).await
    }
}

impl Connections for Quic {
    type Dialer = QuicDialer;
    type Listener = QuicListener;

    fn dialer(&self, endpoint: &Endpoint, context: &Context) -> Result<QuicDialer> {
        QuicDialer::new(endpoint, context)
    }

    async fn bind(
        &self,
        endpoint: &Endpoint,
        context: &Context,
    ) -> Result<(Vec<QuicListener>, Endpoint)> {
        let (listeners, bound, _) = listen::bind(endpoint, context).await?;
        Ok((listeners, bound))
    }
}
