//! The places that an endpoint stands for now.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use saline_protocol::transport::{Address, Endpoint, Error, ErrorKind, HostPort, Result};

use super::check_path;

/// A place where a server may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Candidate {
    /// An address of a network.
    Network {
        /// The address.
        address: SocketAddr,
        /// The host that was asked for: the name that a certificate is held against.
        host: String,
    },
    /// A name that is not resolved, for backends whose names are no network's.
    Name(HostPort),
    /// A path on this machine.
    Local(PathBuf),
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { address, host } => {
                write!(f, "{}", HostPort::new(host, address.port()))?;
                match host.parse::<IpAddr>() {
                    Ok(_) => Ok(()),
                    Err(_) => write!(f, " ({})", address.ip()),
                }
            }
            Self::Name(name) => write!(f, "{name}"),
            Self::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Returns the places of `endpoint`, in its order, with its names resolved now.
///
/// # Errors
/// `Config` when a path cannot be a socket's, `Unreachable` when no name resolves.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub async fn candidates(endpoint: &Endpoint) -> Result<Vec<Candidate>> {
    let addresses = match &endpoint.address {
        Address::Local(path) => {
            check_path(path)?;
            return Ok(vec![Candidate::Local(path.clone())]);
        }
        Address::Network { addresses, .. } => addresses,
    };
    let mut candidates = Vec::with_capacity(addresses.len());
    let mut failed = None;
    for address in addresses {
        let host = &address.host;
        match resolve(address).await {
            Ok(found) => candidates.extend(found.into_iter().map(|address| Candidate::Network {
                address,
                host: host.clone(),
            })),
            Err(error) => failed = Some((address, error)),
        }
    }
    match failed {
        Some((address, error)) if candidates.is_empty() => {
            let why = format!("cannot resolve {address}");
            Err(Error::new(ErrorKind::Unreachable, why).with_source(error))
        }
        _ => Ok(candidates),
    }
}

/// Returns the addresses of `address`, each once.
///
/// # Errors
/// The resolver's.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub async fn resolve(address: &HostPort) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = address.as_socket_address() {
        return Ok(vec![address]);
    }
    let found = tokio::net::lookup_host((address.host.as_str(), address.port)).await?;
    let mut all = Vec::new();
    // A hosts file may name an address twice.
    for one in found {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    Ok(all)
}
