//! The connections of the XPUB socket: how many subscriptions each has, and whether it is alive.

use std::os::fd::RawFd;
use std::time::Duration;

use saline_protocol::transport::{Context, Endpoint, Instant, Metric};

use crate::accepted::ports;
use crate::liveness::{PeerLiveness, Verdict};
use crate::native;
use crate::number_map::NumberMap;

/// The connections of the XPUB socket over a network.
#[derive(Debug)]
pub(crate) struct SubscriberLiveness {
    /// The connections by the descriptors that the monitor reports.
    members: NumberMap<RawFd, Member>,
    /// The ports of the XPUB socket.
    ports: Vec<u16>,
    context: Context,
}

#[derive(Debug)]
struct Member {
    subscriptions: usize,
    liveness: PeerLiveness,
}

impl SubscriberLiveness {
    /// Returns the state of a socket bound at `bound`, without connections.
    pub(crate) fn new(bound: &Endpoint, context: &Context) -> Self {
        Self {
            members: NumberMap::default(),
            ports: ports(bound),
            context: context.clone(),
        }
    }

    /// Adds a connection that was accepted. libzmq itself bounds the time of its handshake.
    pub(crate) fn came(&mut self, descriptor: RawFd) {
        self.members.insert(descriptor, self.stranger());
    }

    /// Removes a connection that has ended; its descriptor will be used again.
    pub(crate) fn left(&mut self, descriptor: RawFd) {
        self.members.remove(&descriptor);
    }

    fn stranger(&self) -> Member {
        let (limits, now) = (&self.context.limits, self.context.clock.now());
        // Nobody is asked: every link ping asks all of them.
        let liveness = PeerLiveness::new(now, limits, limits.ping_interval);
        Member {
            subscriptions: 0,
            liveness: liveness.with_first_word_after(now, limits.handshake_timeout),
        }
    }

    /// Counts the subscriptions of each connection, and cuts one that has too many: libzmq keeps
    /// them all, forty bytes for each byte.
    pub(crate) fn said(&mut self, message: &zmq::Message) {
        let (Some(what @ 0..=1), Some(source)) = (message.first(), native::source(message)) else {
            return;
        };
        if !self.members.contains_key(&source) {
            self.came(source);
        }
        let Some(member) = self.members.get_mut(&source) else {
            return;
        };
        // Even if the message has waited here: until it was read, no other could come in.
        member.liveness.heard();
        if *what == 0 {
            member.subscriptions = member.subscriptions.saturating_sub(1);
            return;
        }
        member.subscriptions += 1;
        // While it is confirmed, every filter has a second one; and there is the link ping.
        let most = 2 * self.context.limits.subscriptions_per_connection + 16;
        if member.subscriptions > most {
            member.subscriptions = 0;
            if native::cut(source, &self.ports) {
                self.context.count(Metric::PeersRefused);
                tracing::debug!(most, "cut a subscriber with too many subscriptions");
            }
        }
    }

    /// Cuts the connections that have given no sign of life for too long. This look comes `late` after
    /// its time.
    pub(crate) fn look(&mut self, now: Instant, late: Duration) {
        for (descriptor, member) in &mut self.members {
            let verdict = member.liveness.look(now, late, Some(*descriptor));
            // A local peer is never one of these ports.
            if verdict == Verdict::Dead && native::cut(*descriptor, &self.ports) {
                tracing::debug!("cut a subscriber that gives no sign of life");
            }
        }
    }
}
