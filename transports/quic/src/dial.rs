//! Connecting.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use saline_engine::net::{Candidate, candidates};
use saline_engine::{Attempts, Dialer};
use saline_protocol::transport::{Address, Context, Endpoint, Error, ErrorKind, Result};
use tokio::sync::Notify;

use crate::pipe::{ClientEndpoint, QuicPipe, lost};
use crate::quinn_config;
use crate::runtime::LifetimeRuntime;
use crate::socket::{self, Icmp};
use crate::{certificate, options};

/// Connects to one endpoint, over a socket of its own each time.
#[derive(Debug)]
pub struct QuicDialer {
    config: quinn::ClientConfig,
    udp_buffer: usize,
    context: Context,
    /// quinn's tasks.
    attempts: Attempts,
}

impl QuicDialer {
    /// Returns a dialer for `endpoint`, with certificates as `context` asks for them.
    ///
    /// # Errors
    /// `Config` when `ssl` asks for what cannot be.
    pub(crate) fn new(endpoint: &Endpoint, context: &Context) -> Result<Self> {
        let crypto = certificate::client(context.tls.as_ref())?;
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(quinn_config::transport_config(&context.limits, 0));
        Ok(Self {
            config,
            udp_buffer: options::udp_buffer(&endpoint.options),
            context: context.clone(),
            attempts: Attempts::default(),
        })
    }

    fn endpoint(&self, peer: SocketAddr) -> io::Result<(ClientEndpoint, Icmp)> {
        let socket = socket::open(socket::anywhere(peer), self.udp_buffer, false)?;
        let icmp = Icmp::ask(&socket, peer)?;
        let tasks = self.attempts.begin(&self.context);
        let sent = Arc::new(Notify::new());
        let runtime = LifetimeRuntime::new(&tasks, Arc::clone(&sent));
        let endpoint =
            quinn::Endpoint::new(quinn_config::endpoint_config(), None, socket, runtime)?;
        let client = ClientEndpoint {
            endpoint,
            _cut: tasks.cut.clone().drop_guard(),
            tasks,
            sent,
        };
        Ok((client, icmp))
    }
}

/// Returns the error of a port that nobody listens on, with what that usually means.
fn unheard(error: &io::Error, peer: SocketAddr) -> io::Error {
    let why = format!(
        "nothing listens on UDP port {} ({error}): does the server there serve quic?",
        peer.port()
    );
    io::Error::new(error.kind(), why)
}

impl Dialer for QuicDialer {
    type Pipe = QuicPipe;

    async fn candidates(&self, endpoint: &Endpoint) -> Result<Vec<Candidate>> {
        match &endpoint.address {
            Address::Network { .. } => candidates(endpoint).await,
            Address::Local(path) => Err(Error::new(
                ErrorKind::Config,
                format!(
                    "QUIC has no local endpoints, so {} cannot be one",
                    path.display()
                ),
            )),
        }
    }

    async fn dial(&self, candidate: &Candidate) -> io::Result<QuicPipe> {
        let Candidate::Network { address, host } = candidate else {
            let why = format!("{candidate:?} is not an address that QUIC can use");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        // The endpoint of the connection before this one is gone by now, and its tasks with it.
        self.close().await;
        let peer = *address;
        let name = saline_tls::server_name(host, self.context.tls.as_ref());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (client, icmp) = self.endpoint(peer)?;
        let connecting = client
            .endpoint
            .connect_with(self.config.clone(), peer, &name.to_str());
        let connecting = connecting.map_err(io::Error::other)?;
        let shaking = async {
            let connection = connecting.await.map_err(lost)?;
            let streams = connection.open_bi().await.map_err(lost)?;
            io::Result::Ok((connection, streams))
        };
        let shaken = tokio::select! {
            shaken = shaking => shaken,
            error = icmp.refused() => Err(unheard(&error, peer)),
        };
        match shaken {
            Ok((connection, streams)) => {
                // Where this fails, a router's word may end the link: no reason not to have one.
                let _ = icmp.stop(peer);
                Ok(QuicPipe::dialled(connection, streams, client))
            }
            Err(error) => {
                // Nothing of the attempt is left.
                drop(client);
                self.close().await;
                Err(error)
            }
        }
    }

    async fn close(&self) {
        self.attempts.close().await;
    }
}
