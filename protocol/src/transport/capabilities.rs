//! What a backend can do, declared before it starts.

/// How exactly a backend can say how many messages a subscriber lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropAccounting {
    /// Every loss is counted: [`Lost::Messages`](super::Lost::Messages).
    Exact,
    /// A loss is told, its number may be [`Lost::Unknown`](super::Lost::Unknown).
    Unknown,
}

/// The few facts about a backend that change what its callers and the conformance suite do.
///
/// They are known before anything starts, so that a test can be listed as skipped and a
/// configuration refused.
///
/// ```
/// use saline_protocol::transport::{Capabilities, DropAccounting};
///
/// // Payloads of up to 1 GiB, paths on this machine, and every loss counted.
/// let able = Capabilities::new(1 << 30).with_local_endpoints().with_exact_drops();
/// assert!(able.local_endpoints && !able.encrypted);
/// assert_eq!(able.drop_accounting, DropAccounting::Exact);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The largest payload in bytes that the backend can carry at all. A backend for which this is
    /// below the configured `max_message_size` refuses to start (`LIM-007`).
    pub max_message: usize,
    /// Whether [`Address::Local`](super::Address::Local) endpoints (a path on this machine) are served.
    pub local_endpoints: bool,
    /// Whether a local endpoint can be opened to [every user](super::LocalAccess::EveryUser) of this machine, with each
    /// of whom it tells who that is.
    pub local_users: bool,
    /// Whether publications travel on an endpoint of their own, as ZeroMQ's do. Only then are
    /// [`ServeAt::publications`](super::ServeAt::publications) and the `at` of
    /// [`Client::subscribe`](super::Client::subscribe) given.
    pub publications_apart: bool,
    /// Whether the connections of all clients share one socket of the server, as over QUIC, so that a client takes no descriptor
    /// there. Otherwise a client takes one, or two when [publications travel apart](Self::publications_apart).
    pub shared_socket: bool,
    /// Whether the backend can encrypt its network links with [`Context::tls`](super::Context::tls).
    /// One that cannot refuses to start when that is asked for. What the channel above encrypts is
    /// encrypted on every backend.
    pub encrypted: bool,
    /// How exactly it counts what a subscriber lost.
    pub drop_accounting: DropAccounting,
    /// Whether it keeps tight [limits](super::Limits::admission) for a peer until it is
    /// [admitted](super::ServerControl::admitted).
    pub admission: bool,
    /// Whether it tells the [departure](super::Departures) of peers that were admitted.
    pub departures: bool,
    /// Whether a broker that the backend did not start stands between the two ends. So far it is told
    /// to operators and in reports, and nothing else follows from it but that the quickstart, which starts no broker, refuses it.
    pub brokered: bool,
}

impl Capabilities {
    /// A backend that carries payloads of up to `max_message` bytes and can do nothing optional.
    pub const fn new(max_message: usize) -> Self {
        Self {
            max_message,
            local_endpoints: false,
            local_users: false,
            publications_apart: false,
            shared_socket: false,
            encrypted: false,
            drop_accounting: DropAccounting::Unknown,
            admission: false,
            departures: false,
            brokered: false,
        }
    }

    /// With endpoints that are a path on this machine.
    #[must_use]
    pub const fn with_local_endpoints(mut self) -> Self {
        self.local_endpoints = true;
        self
    }

    /// With local endpoints for every user of this machine.
    #[must_use]
    pub const fn with_local_users(mut self) -> Self {
        self.local_users = true;
        self
    }

    /// With publications on an endpoint of their own.
    #[must_use]
    pub const fn with_publications_apart(mut self) -> Self {
        self.publications_apart = true;
        self
    }

    /// With one socket of the server for the connections of all clients.
    #[must_use]
    pub const fn with_shared_socket(mut self) -> Self {
        self.shared_socket = true;
        self
    }

    /// With encryption of its own.
    #[must_use]
    pub const fn with_encryption(mut self) -> Self {
        self.encrypted = true;
        self
    }

    /// With an exact count of what a subscriber lost.
    #[must_use]
    pub const fn with_exact_drops(mut self) -> Self {
        self.drop_accounting = DropAccounting::Exact;
        self
    }

    /// With tight limits for peers that were not admitted yet.
    #[must_use]
    pub const fn with_admission(mut self) -> Self {
        self.admission = true;
        self
    }

    /// With news of the peers that have gone.
    #[must_use]
    pub const fn with_departures(mut self) -> Self {
        self.departures = true;
        self
    }

    /// With a broker between the two ends.
    #[must_use]
    pub const fn with_broker(mut self) -> Self {
        self.brokered = true;
        self
    }
}
