//! A requirement, as data.

use std::fmt;
use std::future::Future;
use std::net::{Ipv6Addr, UdpSocket};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use saline_protocol::transport::{Address, DropAccounting};

use crate::kit::{RawAt, World, enough_descriptors};
use crate::{Backend, Outcome, Wire};

/// How binding a requirement is, after RFC 2119. `Display` is its word there. All levels are run alike,
/// and what is not kept is a failure unless it is a declared gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Without it a backend is not one, and should not be released.
    Must,
    /// A backend that does without says so as a known gap.
    Should,
    /// Welcome; nothing above relies on it.
    May,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::May => "MAY",
        })
    }
}

/// A run in progress.
pub type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// One sentence of the contract, and how it is checked.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    /// `REQ-001`: the area and a number, never used again.
    pub id: &'static str,
    /// A few words in snake case, for the names of tests.
    pub name: &'static str,
    /// How binding it is.
    pub level: Level,
    /// What a backend does.
    pub sentence: &'static str,
    /// Why it matters to whoever stands above.
    pub why: &'static str,
    /// Where to look when it fails.
    pub look_at: &'static str,
    /// What must be declared or there for it to apply: all of them.
    pub needs: &'static [Need],
    /// Checks it, once, in a world made for it. [`run_one`](crate::run_one) makes that.
    pub run: fn(Arc<World>) -> Running,
}

/// What must be declared by the backend, or be there on the machine, for a requirement to apply.
/// Decided before anything runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// Endpoints with hosts and ports; see [`Backend::endpoint`].
    Network,
    /// An IPv6 loopback on this machine.
    Ipv6,
    /// The capability `local_endpoints`.
    LocalEndpoints,
    /// No capability `local_endpoints`.
    NoLocalEndpoints,
    /// The capability `drop_accounting`, exact.
    ExactDrops,
    /// The capability `admission`.
    Admission,
    /// The capability `departures`.
    Departures,
    /// The capability `max_message`, below `usize::MAX`.
    BoundedMessages,
    /// Raw connections, at the sockets under the endpoint or inside of the transport's own: see [`Backend::wire`]
    /// and [`Backend::raw`]. With both, the requirement is run with each.
    RawConnections,
    /// Raw connections at the sockets under the endpoint, TCP or Unix sockets; see [`Backend::wire`].
    ConnectionWire,
    /// Raw UDP under the endpoint.
    UdpWire,
    /// Raw sockets of whatever kind under the endpoint, or where there are none raw connections inside of the transport's
    /// own.
    AnyWire,
    /// Local endpoints that are sockets in the file system; see [`Backend::local_sockets`].
    LocalSockets,
    /// The capability `local_users`.
    LocalUsers,
    /// A process of its own whose memory and descriptors the system tells. With it, the requirement
    /// is run in one.
    OwnProcess,
    /// A machine on which nothing else of the suite runs meanwhile. It is waited for.
    QuietMachine,
}

impl Need {
    /// Whether it is the machine that decides and not what the backend declares.
    pub fn is_of_the_machine(self) -> bool {
        matches!(self, Self::Ipv6 | Self::OwnProcess | Self::QuietMachine)
    }

    /// What it asks for, in words that complete "only …".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Network => "on backends whose endpoints have a host and a port",
            Self::Ipv6 => "on machines with an IPv6 loopback",
            Self::LocalEndpoints => "on backends that declare local endpoints",
            Self::NoLocalEndpoints => "on backends that declare no local endpoints",
            Self::ExactDrops => "on backends that declare exact drop accounting",
            Self::BoundedMessages => "on backends that declare a bound on messages",
            Self::Admission => "on backends that declare limits before admission",
            Self::Departures => "on backends that declare departures",
            Self::RawConnections => {
                "on backends over TCP or Unix sockets, and inside of the connections of those over the engine"
            }
            Self::ConnectionWire => "on backends over TCP or Unix sockets",
            Self::UdpWire => "on backends over UDP",
            Self::AnyWire => {
                "on backends over TCP, UDP or Unix sockets, and inside of the connections of others over the engine"
            }
            Self::LocalSockets => {
                "on backends whose local endpoints are sockets in the file system"
            }
            Self::LocalUsers => "on backends that declare local endpoints for every user",
            Self::QuietMachine => "while nothing else of the suite runs",
            Self::OwnProcess => "in a process of its own, on machines with /proc",
        }
    }

    /// Why `backend` does not meet it, if it does not.
    pub fn unmet(self, backend: &dyn Backend) -> Option<&'static str> {
        let transport = backend.transport();
        let declared = transport.capabilities();
        let (met, reason) = match self {
            Self::Network => (
                backend.endpoint_in(Path::new("/"), "any").is_none()
                    && backend.endpoint_at_broker("any").is_none()
                    && matches!(
                        backend.endpoint("127.0.0.1").address,
                        Address::Network { .. }
                    ),
                "its endpoints have no host and port",
            ),
            Self::Ipv6 => (
                UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok(),
                "this machine has no IPv6 loopback",
            ),
            Self::LocalEndpoints => (declared.local_endpoints, "declares no local endpoints"),
            Self::NoLocalEndpoints => (!declared.local_endpoints, "declares local endpoints"),
            Self::ExactDrops => (
                declared.drop_accounting == DropAccounting::Exact,
                "declares that it cannot count every loss",
            ),
            Self::BoundedMessages => (
                declared.max_message < usize::MAX,
                "declares no bound on messages",
            ),
            Self::Admission => (declared.admission, "declares no limits before admission"),
            Self::Departures => (declared.departures, "declares no departures"),
            Self::RawConnections => (
                backend.raw().is_some() || is_connection(backend.wire()),
                "declares neither TCP nor Unix sockets under its endpoints, and hands out no connections",
            ),
            Self::ConnectionWire => (
                is_connection(backend.wire()),
                "declares neither TCP nor Unix sockets under its endpoints",
            ),
            Self::UdpWire => (
                backend.wire() == Some(Wire::Udp),
                "declares no UDP under its endpoints",
            ),
            Self::AnyWire => (
                backend.raw().is_some() || backend.wire().is_some(),
                "declares no wire under its endpoints, and hands out no connections",
            ),
            Self::LocalSockets => (
                backend.local_sockets(),
                "declares no local endpoints that are sockets in the file system",
            ),
            Self::LocalUsers => (
                declared.local_users,
                "declares no local endpoints for every user",
            ),
            Self::QuietMachine => (true, ""),
            Self::OwnProcess => (
                Path::new("/proc/self/fd").is_dir() && enough_descriptors(),
                "this machine has no /proc, or allows a process too few descriptors",
            ),
        };
        (!met).then_some(reason)
    }
}

fn is_connection(wire: Option<Wire>) -> bool {
    matches!(wire, Some(Wire::Tcp | Wire::UnixPath(_)))
}

impl Requirement {
    /// Why it does not apply to `backend`, if it does not.
    pub fn skipped(&self, backend: &dyn Backend) -> Option<&'static str> {
        self.needs.iter().find_map(|need| need.unmet(backend))
    }

    /// Why it does not apply to `backend` by what that declares, whatever the machine is.
    pub fn skipped_by_declaration(&self, backend: &dyn Backend) -> Option<&'static str> {
        let declared = self.needs.iter().filter(|need| !need.is_of_the_machine());
        declared.into_iter().find_map(|need| need.unmet(backend))
    }

    /// Where the raw connections are with which it is run on `backend`, to which it applies: once for each.
    pub(crate) fn raw_at(&self, backend: &dyn Backend) -> Vec<RawAt> {
        let (wire, pipes) = (backend.wire(), backend.raw().map(|_| RawAt::Pipes));
        if self.needs.contains(&Need::RawConnections) {
            let sockets = is_connection(wire).then_some(RawAt::Sockets);
            return sockets.into_iter().chain(pipes).collect();
        }
        let pipes = pipes.filter(|_| self.needs.contains(&Need::AnyWire) && wire.is_none());
        vec![pipes.unwrap_or(RawAt::Sockets)]
    }

    /// Whether it runs while nothing else of the suite does.
    pub fn is_exclusive(&self) -> bool {
        self.needs.contains(&Need::QuietMachine)
    }

    /// The area: the letters of its id.
    pub fn area(&self) -> &'static str {
        self.id.split('-').next().unwrap_or(self.id)
    }
}
