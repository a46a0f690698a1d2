//! What a server does with its connections: its parts by themselves, and servers whose clients a test plays.

mod admission;
mod ending;
mod greeting;
mod listening;
mod played;
mod requests;
mod serving;
mod shutdown;
mod strangers;

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{Backoff, Context, Counters, Limits, Metric, Peer, Source};

use super::connection::Connection;
use super::{CloseOnDrop, ServerCore};
use crate::DepartureReceiver;
use crate::wire::Greeting;
use crate::wire::testing::soon;

/// The delay after an error of a listener is at least a tenth of it.
const BACKOFF: Duration = Duration::from_secs(1000);

/// A server without listeners, and what it counts.
pub(super) struct Bare {
    pub(super) core: Arc<ServerCore>,
    pub(super) departed: DepartureReceiver,
    counters: Arc<Counters>,
}

impl Bare {
    pub(super) fn new(limits: Limits) -> Self {
        let counters = Counters::new();
        let mut context = Context::new(limits);
        context.metrics = counters.clone();
        context.backoff = Backoff::new(BACKOFF, BACKOFF);
        let (core, departed) = ServerCore::new(context, None);
        Self {
            core,
            departed,
            counters,
        }
    }

    /// Adds a connection of this number.
    pub(super) fn connect(&self, number: u64) -> Arc<Connection> {
        let connection = self.connection(number, Source::Process);
        assert!(self.core.add(&connection));
        connection
    }

    /// Returns a connection that was not added.
    fn connection(&self, number: u64, source: Source) -> Arc<Connection> {
        let client = Greeting::of_client(&self.core.lifetime.context.limits);
        let peer = Peer::new(number, source);
        Connection::new(Arc::clone(&self.core), peer, client)
    }

    fn open(&self) -> Arc<CloseOnDrop> {
        Arc::new(CloseOnDrop(Arc::clone(&self.core)))
    }

    fn count(&self, metric: Metric) -> u64 {
        self.counters.get(metric)
    }
}
