//! The ports of a master.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use super::Log;

/// The ports of a master on this machine; 0 leaves the choice to the system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ports {
    /// Where it takes requests.
    pub requests: u16,
    /// Where it publishes; 0 where that is not apart, as for every transport but zeromq.
    pub publications: u16,
}

impl Ports {
    /// Finds ports that nobody uses on any address. Somebody may take them before the master does.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn find(transport: &str) -> io::Result<Self> {
        if transport == "quic" {
            let requests = UdpSocket::bind("0.0.0.0:0")?.local_addr()?.port();
            return Ok(Self {
                requests,
                publications: 0,
            });
        }
        // Both are held until both are known, so that they differ.
        let [one, other] = [
            TcpListener::bind("0.0.0.0:0")?,
            TcpListener::bind("0.0.0.0:0")?,
        ];
        Ok(Self {
            requests: one.local_addr()?.port(),
            publications: other.local_addr()?.port(),
        })
    }

    /// Waits until a master has logged that it is up, and returns the ports that it logged, with the endpoint of
    /// its requests.
    ///
    /// # Errors
    /// When it has not within `time`; the message is its last line.
    pub fn logged(log: &Log, time: Duration) -> io::Result<(Self, String)> {
        let find = |needle| {
            log.find(needle, 1, time).map_err(|log| {
                let last = log.lines().last().unwrap_or_default();
                io::Error::other(format!("the master did not start: {last}"))
            })
        };
        let endpoint = |line: &str, name: &str| {
            let (_, endpoint) = line.split_once(name).unwrap_or_default();
            endpoint.trim().to_owned()
        };
        let port = |endpoint: &str| {
            let port = endpoint.rsplit(':').next().unwrap_or_default();
            port.parse::<u16>().map_err(io::Error::other)
        };
        find(" is up")?;
        let requests = endpoint(&find("requests on ")?, "requests on ");
        let publications = match log.count("publications on ") {
            0 => 0,
            _ => port(&endpoint(&find("publications on ")?, "publications on "))?,
        };
        let ports = Self {
            requests: port(&requests)?,
            publications,
        };
        Ok((ports, requests))
    }
}
