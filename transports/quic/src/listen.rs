//! Binding and accepting.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saline_engine::net::bind_udp;
use saline_engine::{Incoming, Lifetime, Listener};
use saline_protocol::transport::{
    Address, Clock, Context, Endpoint, Error, ErrorKind, Result, Source,
};
use tokio_util::sync::DropGuard;

use crate::pipe::{DONE, QuicPipe, lost};
use crate::runtime::LifetimeRuntime;
use crate::{certificate, options, quinn_config, socket};

/// Connections that may wait to be accepted at once.
const WAITING: usize = 1024;

/// How long connections that were cut are told so.
const CLOSING: Duration = Duration::from_millis(250);

/// A UDP socket that takes connections, with quinn's tasks for it.
#[derive(Debug)]
pub struct QuicListener {
    endpoint: quinn::Endpoint,
    tasks: Arc<Lifetime>,
    _cut: DropGuard,
    /// A connection was cut, and its peer has to be told.
    has_cut: Arc<AtomicBool>,
    clock: Clock,
}

/// Binds all of `endpoint` or nothing. Returns the listeners, what was bound, port 0 replaced, and the
/// SHA-256 of the certificate that all of them show.
///
/// # Errors
/// `Refused` when something is in use or the system says no, `Config` when the endpoint is a path or
/// `ssl` asks for what cannot be.
///
/// # Cancel safety
/// Nothing stays bound when the future is dropped.
pub(crate) async fn bind(
    endpoint: &Endpoint,
    context: &Context,
) -> Result<(Vec<QuicListener>, Endpoint, [u8; 32])> {
    let Address::Network { addresses, .. } = &endpoint.address else {
        let why = format!("QUIC has no local endpoints, so {endpoint} cannot be one");
        return Err(Error::new(ErrorKind::Config, why));
    };
    let (crypto, hash) = certificate::server(context.tls.as_ref())?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(quinn_config::transport_config(&context.limits, 1));
    config.max_incoming(WAITING);
    // [::] takes IPv4 as well, unless that is asked for beside it.
    let only_v6 = addresses
        .iter()
        .any(|address| address.host.parse::<Ipv4Addr>().is_ok());
    let buffer = options::udp_buffer(&endpoint.options);
    let (listeners, bound) = bind_udp(endpoint, |address| {
        let socket = socket::open(address, buffer, only_v6)?;
        let port = socket.local_addr()?.port();
        let tasks = Lifetime::new(context.clone(), Duration::ZERO);
        let runtime = LifetimeRuntime::new(&tasks, Arc::default());
        let config = Some(config.clone());
        let endpoint =
            quinn::Endpoint::new(quinn_config::endpoint_config(), config, socket, runtime)?;
        let listener = QuicListener {
            endpoint,
            _cut: tasks.cut.clone().drop_guard(),
            tasks,
            has_cut: Arc::default(),
            clock: context.clock,
        };
        Ok((listener, port))
    })
    .await?;
    Ok((listeners, bound, hash))
}

impl Listener for QuicListener {
    type Incoming = QuicIncoming;

    async fn accept(&mut self) -> io::Result<QuicIncoming> {
        loop {
            let Some(incoming) = self.endpoint.accept().await else {
                return Err(io::Error::other("the endpoint is closed"));
            };
            if !incoming.remote_address_validated() {
                // Whoever comes first proves its address, which costs a round trip. Without that quinn sends more than three
                // times what came from there (RFC 9000, 8.1): a datagram that begins within the limit is sent as a whole.
                // It may be retried, because its address is not validated.
                let _ = incoming.retry();
                continue;
            }
            return Ok(QuicIncoming {
                incoming,
                has_cut: Arc::clone(&self.has_cut),
            });
        }
    }

    async fn close(self, ended: impl Future<Output = ()> + Send) {
        self.endpoint.set_server_config(None);
        ended.await;
        self.endpoint.close(DONE, b"the server goes");
        if self.has_cut.load(Ordering::Relaxed) {
            // A peer that is cut is told, as far as it listens.
            let until = self.clock.after(CLOSING);
            let _ = self.clock.deadline(until, self.endpoint.wait_idle()).await;
        }
        let _ = self.tasks.shutdown(Duration::ZERO).await;
    }
}

/// A connection whose first packet has arrived.
#[derive(Debug)]
pub struct QuicIncoming {
    incoming: quinn::Incoming,
    has_cut: Arc<AtomicBool>,
}

impl Incoming for QuicIncoming {
    type Pipe = QuicPipe;

    fn source(&self) -> Source {
        Source::of(self.incoming.remote_address())
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.incoming.remote_address())
    }

    fn refuse(self) {
        self.incoming.refuse();
    }

    async fn establish(self) -> io::Result<QuicPipe> {
        let Self { incoming, has_cut } = self;
        let connection = incoming.accept().map_err(lost)?.await.map_err(lost)?;
        // The client opens the one stream and greets on it.
        let streams = connection.accept_bi().await.map_err(lost)?;
        Ok(QuicPipe::accepted(connection, streams, has_cut))
    }
}
