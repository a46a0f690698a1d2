//! The connections of one listening socket that nobody has admitted: how many descriptors they may take, and who gives
//! way when there are no more.
//!
//! They are counted when libzmq accepts them, by its monitor, and not by a handler for ZAP: a stranger that says nothing
//! never gets so far that libzmq would ask one, and a question of ZAP names no connection whose end could be told.

use std::collections::HashSet;
use std::os::fd::RawFd;

#[cfg(doc)]
use saline_protocol::transport::Limits;
use saline_protocol::transport::{Address, Context, Endpoint, Metric, SourcePlaces};

use crate::native;

/// Connections that may stand beside [`Limits::connections`], because they have not said hello.
const MAX_UNGREETED: usize = 1024;

/// The connections of a socket that have a place among its descriptors.
#[derive(Debug)]
pub(crate) struct AcceptedConnections {
    /// Those that are not admitted, by the descriptors that the monitor reports.
    strangers: SourcePlaces<RawFd>,
    /// Those that are admitted: they keep their descriptors, whoever comes.
    admitted: HashSet<RawFd>,
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
            most: share.min(connections).max(1),
            ports: ports(bound),
            context: context.clone(),
        }
    }

    /// Takes a place for a connection that was accepted. When there is none left, the oldest connection of the source that
    /// has most is cut for it, or this one.
    pub(crate) fn came(&mut self, descriptor: RawFd) {
        if self.ports.is_empty() {
            return;
        }
        // One that had this descriptor before has ended.
        self.left(descriptor);
        let places = self.most.saturating_sub(self.admitted.len());
        let source = native::source_of(descriptor);
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
    }

    /// Keeps the descriptor of a connection from now on: its peer is admitted.
    pub(crate) fn admit(&mut self, descriptor: RawFd) {
        if self.strangers.release(&descriptor) {
            self.admitted.insert(descriptor);
        }
    }

    /// Cuts a connection because the process has no descriptor for another one: the oldest of the source that has most.
    pub(crate) fn cut_for_descriptor(&mut self) {
        if let Some(oldest) = self.strangers.oldest_of_largest().copied() {
            self.strangers.release(&oldest);
            self.cut(oldest);
        }
    }

    fn cut(&self, descriptor: RawFd) {
        if native::cut(descriptor, &self.ports) {
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
