//! What a backend and the layer count.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Every number that a transport counts, on all backends alike.
        ///
        /// The layer [`metrics`](crate::layer::metrics) counts requests, publications and bytes
        /// (`OBS-001`). A backend counts what it alone sees: [`Lost`](Self::Lost),
        /// [`Connected`](Self::Connected), [`Disconnected`](Self::Disconnected) and
        /// [`PeersRefused`](Self::PeersRefused).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Metric { $($(#[$doc])* $variant,)* }

        impl Metric {
            /// All of them, in the order in which they are printed.
            pub const ALL: &'static [Metric] = &[$(Metric::$variant),*];

            /// The name under which it is printed and exported.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

metrics! {
    /// Requests that a client was asked to make, those that were refused among them.
    RequestsSent = "requests_sent",
    /// Requests that ended in an error, of whatever kind.
    RequestsFailed = "requests_failed",
    /// Requests that a server handed up.
    RequestsReceived = "requests_received",
    /// Bytes of payload in those requests, and in publications that were taken. The payload of a reply
    /// is counted where it arrives.
    BytesSent = "bytes_sent",
    /// Bytes of payload in requests, replies and publications handed up.
    BytesReceived = "bytes_received",
    /// Publications handed to the backend.
    Published = "published",
    /// Publications handed up to subscribers: one that two of them take counts twice.
    Delivered = "delivered",
    /// Publications that slow subscribers lost, where the number is known: each once, by the side that
    /// dropped it (`OBS-003`).
    Lost = "lost",
    /// Links that came up, the first included; by both sides (`OBS-002`).
    Connected = "connected",
    /// Links that went down, whoever ended them; by both sides.
    Disconnected = "disconnected",
    /// Peers that were cut for breaking the protocol or a limit.
    PeersRefused = "peers_refused",
}

/// Where counts go. Called from many tasks at once, also under locks: an implementation neither waits
/// nor calls back.
pub trait MetricsSink: Send + Sync + fmt::Debug {
    /// Adds `by` to `metric`.
    fn add(&self, metric: Metric, by: u64);
}

/// A sink that keeps sums in memory. `Display` prints them in one line, as the daemons do on SIGUSR1.
#[derive(Debug)]
pub struct Counters(Box<[AtomicU64]>);

impl Counters {
    /// All zero.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(
            Metric::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
        ))
    }

    /// The sum so far.
    pub fn get(&self, metric: Metric) -> u64 {
        self.0[metric as usize].load(Ordering::Relaxed)
    }
}

impl MetricsSink for Counters {
    fn add(&self, metric: Metric, by: u64) {
        self.0[metric as usize].fetch_add(by, Ordering::Relaxed);
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, metric) in Metric::ALL.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{}={}", metric.name(), self.get(*metric))?;
        }
        Ok(())
    }
}
