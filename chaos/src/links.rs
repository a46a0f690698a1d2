//! The link of each minion to the master, with an address of its own, so that it can fail alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use saline_testing::Ports;
use saline_testing::links::{Carries, Link};

use crate::arguments::Transport;
use crate::plan::LinkFault;

/// Listens on `host` at the master's ports, and passes everything on to 127.0.0.1.
///
/// # Errors
/// When an address is taken.
pub(crate) async fn open(transport: Transport, host: IpAddr, ports: Ports) -> io::Result<Link> {
    let carries = Carries::of(transport.name());
    let route = |port| {
        let master = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        (SocketAddr::new(host, port), master)
    };
    let ports = [ports.requests, ports.publications];
    let ports = ports.into_iter().filter(|port| *port != 0);
    let routes: Vec<_> = ports.map(route).collect();
    Link::open(carries, &routes).await
}

/// Sets the fault. A cut is over at once; the others last until the link is cleared.
pub(crate) fn set(link: &Link, fault: LinkFault) {
    match fault {
        LinkFault::Delay(by) => link.set(|now| now.delay = Duration::from_millis(by)),
        LinkFault::Throttle(bytes) => link.set(|now| now.bytes_a_second = Some(bytes)),
        LinkFault::BlackHole => link.set(|now| now.black_hole = true),
        LinkFault::Cut => link.cut(),
    }
}
