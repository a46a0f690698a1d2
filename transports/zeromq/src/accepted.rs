//! The connections of one listening socket that nobody has admitted: how many descriptors they may take, and who gives
//! way when there are no more.
//!
//! They are counted when libzmq accepts them, by its monitor, and not by a handler for ZAP: a stranger that says nothing
//! never gets so far that libzmq would ask one, and a question of ZAP names no connection whose end could be told.

use std::collections::{HashMap, HashSet};
use std::os::fd::RawFd;

#[cfg(doc)]
use saline_protocol::transport::Limits;
use saline_protocol::transport::{Address, Context, Endpoint, Metric, SourcePlaces};

use crate::native::{self, SocketId};

/// Connections that may stand beside [`Limits::connections`], because they have not said hello.
const MAX_UNGREETED: usize = 1024;

/// The connections of a socket that have a place among its descriptors.
#[derive(Debug)]
pub(crate) struct AcceptedConnections {
    /// Those that are not admitted, by the descriptors that the monitor reports.
    strangers: SourcePlaces<RawFd>,
    /// Those that are admitted: they keep their descriptors, whoever comes.
    admitted: HashSet<RawFd>,
    /// The sockets of those that are not admitted: a descriptor may be another connection's before its end is told.
    sockets: HashMap<RawFd, SocketId>,
    /// Those that were cut and have not ended: they still have their descriptors.
    ending: HashSet<RawFd>,
    /// How many there may be of both.
    most: usize,
    /// The ports of the socket.
    ports: Vec<u16>,
    context: Context,
}

impl AcceptedConnections {
    /// Returns the state of a socket bound at `bound`, without connections. A server has two sockets, and each has half
    /// of its descriptors. Local connections are not counted: libzmq's descriptors of them cannot be cut.
    pub(crate) fn new(bound: &Endpoint, context: &Context) -> Self {
        let limits = &context.limits;
        let share = limits.descriptors.map_or(usize::MAX, |all| all / 2);
        let connections = limits.connections.saturating_add(MAX_UNGREETED);
        Self {
            strangers: SourcePlaces::default(),
            admitted: HashSet::new(),
            sockets: HashMap::new(),
            ending: HashSet::new(),
            most: share.min(connections).max(1),
            ports: ports(bound),
            context: context.clone(),
        }
    }

    /// Takes a place for a connection that was accepted. When there is none left, the oldest connection of the source that
    /// has most is cut for it, or this one.
    pub(crate) fn came(&mut self, descriptor: RawFd) {
        // One that had this descriptor before has ended.
        self.left(descriptor);
        let Some((socket, source)) = native::accepted(descriptor, &self.ports) else {
            // So has this one, or it is local.
            return;
        };
        self.sockets.insert(descriptor, socket);
        let places = self.most.saturating_sub(self.admitted.len());
        match self.strangers.take_one_of(places, descriptor, source) {
            Ok(None) => {}
            Ok(Some(oldest)) => self.cut(oldest),
            Err(_) => self.cut(descriptor),
        }
    }

    /// Gives back the place of a connection that has ended.
    pub(crate) fn left(&mut self, descriptor: RawFd) {
        if !self.strangers.release(&descriptor) {
            self.admitted.remove(&descriptor);
        }
        self.sockets.remove(&descriptor);
        self.ending.remove(&descriptor);
    }

    /// Keeps the descriptor of a connection from now on: its peer is admitted.
    pub(crate) fn admit(&mut self, descriptor: RawFd) {
        if self.strangers.release(&descriptor) {
            self.sockets.remove(&descriptor);
            self.admitted.insert(descriptor);
        }
    }

    /// Cuts a connection because the process has no descriptor for another one: the oldest of the source that has most.
    /// None while one that was cut has not ended: a flood is refused more often than there are strangers to cut, and
    /// would cut others too.
    pub(crate) fn cut_for_descriptor(&mut self) {
        if self.ending.is_empty()
            && let Some(oldest) = self.strangers.oldest_of_largest().copied()
        {
            self.strangers.release(&oldest);
            self.cut(oldest);
        }
    }

    fn cut(&mut self, descriptor: RawFd) {
        let socket = self.sockets.remove(&descriptor);
        self.ending.insert(descriptor);
        if socket.is_some_and(SocketId::shut_down) {
            self.context.count(Metric::PeersRefused);
            tracing::debug!("cut a connection for its descriptor");
        }
    }
}

/// Returns the ports that a socket is bound at.
pub(crate) fn ports(bound: &Endpoint) -> Vec<u16> {
    match &bound.address {
        Address::Network { addresses, .. } => addresses.iter().map(|at| at.port).collect(),
        Address::Local(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, OwnedFd};

    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    use saline_protocol::transport::{HostPort, Limits};

    /// Connections to one listener, of which each end is here.
    struct Crowd {
        listener: TcpListener,
        table: AcceptedConnections,
    }

    impl Crowd {
        /// Returns a listener whose connections have so many descriptors.
        fn new(most: usize) -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let mut limits = Limits::default();
            limits.descriptors = Some(2 * most);
            let at = Endpoint::network("zeromq", HostPort::new("127.0.0.1", port));
            let table = AcceptedConnections::new(&at, &Context::new(limits));
            Self { listener, table }
        }

        /// Returns both ends of a connection from this address, the client's first.
        fn come(&mut self, from: [u8; 4]) -> (TcpStream, TcpStream) {
            let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            bind(&client, &SocketAddrV4::new(from.into(), 0)).unwrap();
            connect(&client, &self.listener.local_addr().unwrap()).unwrap();
            let client = TcpStream::from(client);
            client.set_nonblocking(true).unwrap();
            let (server, _) = self.listener.accept().unwrap();
            self.table.came(server.as_raw_fd());
            (client, server)
        }
    }

    fn is_cut((client, _): &(TcpStream, TcpStream)) -> bool {
        match (&*client).read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    const HERE: [u8; 4] = [127, 0, 0, 1];
    const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];

    #[test]
    fn the_oldest_of_the_source_that_has_most_gives_way() {
        let mut crowd = Crowd::new(5);
        let here = crowd.come(HERE);
        let admitted = crowd.come(ELSEWHERE);
        crowd.table.admit(admitted.1.as_raw_fd());
        let elsewhere: Vec<_> = (0..4).map(|_| crowd.come(ELSEWHERE)).collect();
        let cut: Vec<_> = elsewhere.iter().map(is_cut).collect();
        assert_eq!(
            cut,
            [false, false, false, true],
            "one more than there may be"
        );
        let also_here = crowd.come(HERE);
        assert!(is_cut(&elsewhere[0]) && !is_cut(&elsewhere[1]));
        assert!(!is_cut(&here) && !is_cut(&also_here) && !is_cut(&admitted));
    }

    #[test]
    fn one_is_cut_for_a_descriptor_until_it_has_ended() {
        let mut crowd = Crowd::new(100);
        let here = crowd.come(HERE);
        let elsewhere: Vec<_> = (0..3).map(|_| crowd.come(ELSEWHERE)).collect();
        let count = || elsewhere.iter().filter(|one| is_cut(one)).count();
        for _ in 0..10 {
            crowd.table.cut_for_descriptor();
        }
        assert_eq!(count(), 1);
        crowd.table.left(elsewhere[0].1.as_raw_fd());
        crowd.table.cut_for_descriptor();
        assert_eq!(count(), 2);
        assert!(!is_cut(&here));
    }

    #[test]
    fn a_descriptor_that_is_another_connection_s_is_not_cut() {
        let mut crowd = Crowd::new(100);
        let (_client, gone) = crowd.come(ELSEWHERE);
        let descriptor = gone.as_raw_fd();
        let (other, next) = crowd.come(HERE);
        // As if the first had ended, and the system given its descriptor to the second.
        crowd.table.left(next.as_raw_fd());
        let mut reused = OwnedFd::from(gone);
        rustix::io::dup2(&next, &mut reused).unwrap();
        assert_eq!(reused.as_raw_fd(), descriptor);
        crowd.table.cut_for_descriptor();
        assert!(!is_cut(&(other, TcpStream::from(reused))));
    }
}
