//! Endpoints: where a server listens and a client connects.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::{Error, ErrorKind, Options, Result};

/// A name or an address, and a port. To a server, port 0 asks the system for a free one, the same for
/// everything that the name resolves to; [`Server::bound`](super::Server::bound) says which (`CON-009`).
///
/// ```
/// use saline_protocol::transport::HostPort;
///
/// assert_eq!(HostPort::parse("salt:4507", 4506)?, HostPort::new("salt", 4507));
/// assert_eq!(HostPort::parse("2001:db8::1", 4506)?.to_string(), "[2001:db8::1]:4506");
/// # Ok::<(), saline_protocol::transport::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `192.0.2.1`, `2001:db8::1` (without brackets) or a name.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// A host and a port as they are, without looking at either.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port` or a bare `v6`, as Salt's `master` option does;
    /// `default_port` where none is given. Nothing is resolved.
    ///
    /// # Errors
    /// `Config` when the host is empty or the port is not a number from 0 to 65535.
    pub fn parse(text: &str, default_port: u16) -> Result<Self> {
        let bad = |why: &str| Error::new(ErrorKind::Config, format!("address {text:?}: {why}"));
        if text.parse::<Ipv6Addr>().is_ok() {
            return Ok(Self::new(text, default_port));
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest
                .split_once(']')
                .ok_or_else(|| bad("a bracket is not closed"))?;
            host.parse::<Ipv6Addr>()
                .map_err(|_| bad("not an IPv6 address in the brackets"))?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(bad("expected a colon and a port after the bracket")),
            }
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(bad("not a host"));
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| bad("the port is not a number"))?,
            None => default_port,
        };
        Ok(Self::new(host, port))
    }

    /// The address when the host is one and not a name.
    pub fn as_socket_address(&self) -> Option<SocketAddr> {
        let ip: IpAddr = self.host.parse().ok()?;
        Some(SocketAddr::new(ip, self.port))
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The place itself, without the scheme.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// Reached over a network.
    Network {
        /// One or more. A client tries them in order until one answers, each time that it connects
        /// (`CON-014`); a server listens on all or on none.
        addresses: Vec<HostPort>,
        /// The path behind the authority of a URL, for backends that have one.
        path: Option<String>,
    },
    /// A path on this machine: a Unix socket, or what the backend makes of it. Only with the
    /// capability [`local_endpoints`](super::Capabilities::local_endpoints).
    ///
    /// A socket in the file system lets no other user in (`BUS-001`), replaces what a dead process
    /// left, disturbs neither somebody who listens nor a file that is no socket, both `Refused`
    /// (`BUS-003` to `BUS-005`), and goes with its server (`BUS-006`). TLS is not for it.
    Local(PathBuf),
}

/// A scheme, an address and the options of its backend.
///
/// ```
/// use saline_protocol::transport::{Endpoint, HostPort};
///
/// let anywhere = Endpoint::network("tcp", HostPort::new("127.0.0.1", 0));
/// assert_eq!(anywhere.to_string(), "tcp://127.0.0.1:0");
/// assert_eq!(Endpoint::local("tcp", "/run/saline/bus").port(), None);
/// ```
///
/// `Display` leaves the options out, and `Debug` does not show those that are secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Names the transport in the [`Registry`](super::Registry).
    pub scheme: String,
    /// The address at which the server listens.
    pub address: Address,
    /// How, of the kinds that the backend declares; see [`Transport::options`](super::Transport::options).
    pub options: Options,
}

impl Endpoint {
    /// One network address, without options.
    pub fn network(scheme: impl Into<String>, at: HostPort) -> Self {
        Self {
            scheme: scheme.into(),
            address: Address::Network {
                addresses: vec![at],
                path: None,
            },
            options: Options::none(),
        }
    }

    /// A path on this machine, without options.
    pub fn local(scheme: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            scheme: scheme.into(),
            address: Address::Local(path.into()),
            options: Options::none(),
        }
    }

    /// The same with these options.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The same place with another port, at each of its addresses, when it is on a network.
    #[must_use]
    pub fn with_port(mut self, new: u16) -> Self {
        if let Address::Network { addresses, .. } = &mut self.address {
            for address in addresses {
                address.port = new;
            }
        }
        self
    }

    /// The port of its first address, when it is on a network.
    pub fn port(&self) -> Option<u16> {
        match &self.address {
            Address::Network { addresses, .. } => addresses.first().map(|address| address.port),
            Address::Local(_) => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        match &self.address {
            Address::Network { addresses, path } => {
                for (index, address) in addresses.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{address}")?;
                }
                f.write_str(path.as_deref().unwrap_or_default())
            }
            Address::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_are_read_as_salt_reads_them() {
        for (text, host, port) in [
            ("salt", "salt", 4506),
            ("salt:4507", "salt", 4507),
            ("192.0.2.1:1", "192.0.2.1", 1),
            ("[::1]:2", "::1", 2),
            ("[::1]", "::1", 4506),
            ("2001:db8::1", "2001:db8::1", 4506),
        ] {
            assert_eq!(
                HostPort::parse(text, 4506).unwrap(),
                HostPort::new(host, port)
            );
        }
        for text in ["", ":1", "a:b", "[::1", "[x]:1", "a b", "[::1]x"] {
            assert!(HostPort::parse(text, 4506).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_what_is_printed_parses_again(text in "\\PC{0,40}") {
            if let Ok(parsed) = HostPort::parse(&text, 1) {
                prop_assert_eq!(HostPort::parse(&parsed.to_string(), 1).unwrap(), parsed);
            }
        }
    }
}
