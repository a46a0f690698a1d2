//! Binding all addresses of an endpoint, or none.

use std::io;
use std::net::SocketAddr;

use saline_protocol::transport::{Address, Endpoint, Error, ErrorKind, Result};
use tokio::net::{TcpListener, TcpSocket};

use super::resolve;

/// How often a free port is looked for that several addresses of one name can share.
const TRIES: usize = 16;

/// Listens with TCP on every address of `endpoint`, which is a network's. Returns the listeners, and
/// the endpoint with each port 0 replaced by the port that the system chose.
///
/// # Errors
/// `Refused` when an address is in use, cannot be resolved or is not this machine's; `Config` when
/// there is none. Nothing stays bound.
///
/// # Cancel safety
/// Nothing stays bound when the future is dropped.
pub async fn bind_tcp(endpoint: &Endpoint, backlog: u32) -> Result<(Vec<TcpListener>, Endpoint)> {
    let listen = |address| {
        let listener = listen(address, backlog)?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    bind_all(endpoint, listen).await
}

/// Binds every address of `endpoint` with `bind`, which returns a socket and its port: for backends
/// over UDP. Otherwise as [`bind_tcp`].
///
/// # Errors
/// As [`bind_tcp`].
///
/// # Cancel safety
/// Nothing stays bound when the future is dropped.
pub async fn bind_udp<S>(
    endpoint: &Endpoint,
    bind: impl FnMut(SocketAddr) -> io::Result<(S, u16)>,
) -> Result<(Vec<S>, Endpoint)> {
    bind_all(endpoint, bind).await
}

async fn bind_all<S>(
    endpoint: &Endpoint,
    mut bind: impl FnMut(SocketAddr) -> io::Result<(S, u16)>,
) -> Result<(Vec<S>, Endpoint)> {
    let mut bound = endpoint.clone();
    let mut sockets = Vec::new();
    if let Address::Network { addresses, .. } = &mut bound.address {
        let mut all = Vec::with_capacity(addresses.len());
        for address in addresses.iter() {
            let found = resolve(address).await;
            all.push(found.map_err(|error| refused(endpoint, address, error))?);
        }
        // From here on nothing is awaited, so that nothing stays bound when this is dropped.
        for (address, found) in addresses.iter_mut().zip(all) {
            let (some, port) =
                bind_one(&found, &mut bind).map_err(|error| refused(endpoint, &*address, error))?;
            sockets.extend(some);
            address.port = port;
        }
    }
    if sockets.is_empty() {
        let why = format!("{endpoint}: no address to listen on");
        return Err(Error::new(ErrorKind::Config, why));
    }
    Ok((sockets, bound))
}

fn refused(endpoint: &Endpoint, address: &impl std::fmt::Display, error: io::Error) -> Error {
    let why = match &endpoint.address {
        Address::Network { addresses, .. } if addresses.len() > 1 => {
            format!("cannot listen on {address} of {endpoint}: {error}")
        }
        _ => format!("cannot listen on {endpoint}: {error}"),
    };
    Error::new(ErrorKind::Refused, why).with_source(error)
}

/// Binds all addresses of one name, on one port.
fn bind_one<S>(
    found: &[SocketAddr],
    bind: &mut impl FnMut(SocketAddr) -> io::Result<(S, u16)>,
) -> io::Result<(Vec<S>, u16)> {
    let mut tries = 0;
    'again: loop {
        tries += 1;
        let mut port = 0;
        let mut sockets = Vec::with_capacity(found.len());
        for address in found {
            let mut at = *address;
            if at.port() == 0 {
                at.set_port(port);
            }
            match bind(at) {
                Ok((socket, chosen)) => {
                    port = chosen;
                    sockets.push(socket);
                }
                // The port that was free on the first address is not on this one.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && address.port() == 0
                        && port != 0
                        && tries < TRIES =>
                {
                    continue 'again;
                }
                Err(error) => return Err(error),
            }
        }
        return Ok((sockets, port));
    }
}

fn listen(at: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // The port is free as soon as we are gone, whatever of our connections the system still holds.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(backlog)
}
