//! The link of each minion to the master, with an address of its own, so that it can fail alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use saline_testing::links::{Carries, Link};

use crate::arguments::Transport;
use crate::plan::LinkFault;

/// Listens on `host` at the ports of the master, or of the servers of NATS, with a link for each, and passes everything on to
/// 127.0.0.1. The master's first one carries requests.
///
/// # Errors
/// When an address is taken.
pub(crate) async fn open(
    transport: Transport,
    host: IpAddr,
    ports: &[u16],
) -> io::Result<Vec<Link>> {
    let carries = Carries::of(transport.name());
    let mut links = Vec::new();
    for &port in ports {
        let master = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if port != 0 {
            links.push(Link::open(carries, &[(SocketAddr::new(host, port), master)]).await?);
        }
    }
    Ok(links)
}

/// Sets the fault. A cut is over at once; the others last until the links are cleared.
pub(crate) fn set(links: &[Link], fault: LinkFault) {
    match (fault, links) {
        (LinkFault::HalfOpen, [_, publications, ..]) => {
            // The connection that there is ends, and another one never begins.
            publications.set(|now| now.black_hole = true);
            publications.cut();
        }
        (LinkFault::HalfOpen, _) => {}
        (fault, links) => links.iter().for_each(|link| match fault {
            LinkFault::Delay(by) => link.set(|now| now.delay = Duration::from_millis(by)),
            LinkFault::Throttle(bytes) => link.set(|now| now.bytes_a_second = Some(bytes)),
            LinkFault::BlackHole => link.set(|now| now.black_hole = true),
            LinkFault::Cut | LinkFault::HalfOpen => link.cut(),
        }),
    }
}
