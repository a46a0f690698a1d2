//! The address at which a daemon serves its metrics.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::paths::place;

/// The address at which a daemon serves its metrics over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAddress {
    /// An address and a port of this machine.
    Network(SocketAddr),
    /// The path of a Unix socket.
    Local(PathBuf),
}

/// The error for a text that is not the address of metrics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "takes an IP address with a port, such as 127.0.0.1:9464 or [::1]:9464, or the absolute path of a socket"
)]
pub struct NoMetricsAddress;

impl FromStr for MetricsAddress {
    type Err = NoMetricsAddress;

    fn from_str(text: &str) -> Result<Self, NoMetricsAddress> {
        if text.starts_with('/') && !text.contains('\0') {
            return Ok(Self::Local(PathBuf::from(text)));
        }
        // Names are not taken: a daemon whose start waits for a name server helps nobody.
        text.parse()
            .map(Self::Network)
            .map_err(|_| NoMetricsAddress)
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => write!(f, "{address}"),
            Self::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

impl MetricsAddress {
    /// Returns the address with `root` put before its path, if it has one.
    pub(crate) fn under(self, root: &Path) -> Self {
        match self {
            Self::Local(path) => Self::Local(place(root, &path)),
            network => network,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_numbers_with_a_port_or_an_absolute_path() {
        let read = |text: &str| text.parse::<MetricsAddress>();
        for text in ["127.0.0.1:9464", "[::1]:9464", "0.0.0.0:1", "/run/m.sock"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        for text in [
            "9464",
            "127.0.0.1",
            "::1:9464",
            "localhost:9464",
            "m.sock",
            "/a\0b",
            "",
        ] {
            assert_eq!(read(text), Err(NoMetricsAddress), "{text}");
        }
    }

    #[test]
    fn root_dir_is_put_before_a_path_alone() {
        let under = |text: &str| {
            let address: MetricsAddress = text.parse().unwrap();
            address.under(Path::new("/r")).to_string()
        };
        assert_eq!(under("/run/m.sock"), "/r/run/m.sock");
        assert_eq!(under("127.0.0.1:1"), "127.0.0.1:1");
    }
}
