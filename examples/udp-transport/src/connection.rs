//! Dialling and binding. A connection is a virtual one over a socket of datagrams.

use std::io;
use std::net::Ipv4Addr;

use saline_engine::net::{Candidate, bind_udp};
use saline_engine::shared_socket::{VirtualDialer, VirtualListener, VirtualPipe};
use saline_engine::{Connections, Dialer};
use saline_protocol::transport::{Address, Context, Endpoint, Error, ErrorKind, Result};

use crate::{Udp, socket};

/// Opens connections, over a socket of its own each time.
#[derive(Debug)]
pub struct UdpDialer(VirtualDialer);

impl Dialer for UdpDialer {
    type Pipe = VirtualPipe;

    async fn dial(&self, candidate: &Candidate) -> io::Result<VirtualPipe> {
        let Candidate::Network { address, .. } = candidate else {
            let why = format!("{candidate:?} has no host and port");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        let socket = socket::open(socket::anywhere(*address), false)?;
        // So the system tells when nobody listens there.
        socket.connect(address).await?;
        self.0.connect(socket, *address).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

impl Connections for Udp {
    type Dialer = UdpDialer;
    type Listener = VirtualListener;

    fn dialer(&self, endpoint: &Endpoint, context: &Context) -> Result<UdpDialer> {
        match &endpoint.address {
            Address::Network { .. } => Ok(UdpDialer(VirtualDialer::new(context))),
            Address::Local(_) => {
                let why = format!("{endpoint}: UDP has no local endpoints");
                Err(Error::new(ErrorKind::Config, why))
            }
        }
    }

    async fn bind(
        &self,
        endpoint: &Endpoint,
        context: &Context,
    ) -> Result<(Vec<VirtualListener>, Endpoint)> {
        // [::] takes IPv4 as well, unless that is asked for beside it.
        let only_v6 = match &endpoint.address {
            Address::Network { addresses, .. } => addresses
                .iter()
                .any(|address| address.host.parse::<Ipv4Addr>().is_ok()),
            Address::Local(_) => false,
        };
        bind_udp(endpoint, |address| {
            let socket = socket::open(address, only_v6)?;
            let port = socket.local_addr()?.port();
            Ok((VirtualListener::new(socket, context)?, port))
        })
        .await
    }
}
