//! The handshakes that one source may have carried out: a token bucket for each address. One that ends with
//! an accepted session costs nothing, so that a fleet behind one address comes back at full speed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{Clock, Instant, Peer};

use crate::token_bucket::{Rate, TokenBucket};

/// The handshakes that a source may have at once. With what it gets back while a handshake waits, it stays
/// below the number of handshakes that wait.
const BURST: f64 = 384.0;

/// How the bucket of a source fills.
const RATE: Rate = Rate {
    per_second: 100.0,
    burst: BURST,
};

/// The largest number of sources that are told apart. Those beyond share one bucket.
const SOURCES_MOST: usize = 8192;

/// What each source may still ask for.
#[derive(Debug)]
pub(super) struct SourceBudget {
    clock: Clock,
    buckets: Mutex<HashMap<IpAddr, TokenBucket>>,
}

impl SourceBudget {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            buckets: Mutex::default(),
        }
    }

    /// Takes one handshake from the budget of the peer's source. Returns false when nothing is left. A peer
    /// whose address the transport does not tell is not limited here.
    pub(super) fn take(&self, peer: Peer) -> bool {
        let Some(source) = source(peer) else {
            return true;
        };
        let now = self.clock.now();
        let mut buckets = self.lock();
        let place = place(&mut buckets, source, now);
        let bucket = buckets
            .entry(place)
            .or_insert_with(|| TokenBucket::full(RATE, now));
        let is_left = bucket.refill(RATE, now) >= 1.0;
        if is_left {
            bucket.take(1.0);
        }
        is_left
    }

    /// Gives a handshake back that ended with an accepted session.
    pub(super) fn give_back(&self, peer: Peer) {
        let Some(source) = source(peer) else {
            return;
        };
        let mut buckets = self.lock();
        let place = match buckets.contains_key(&source) {
            true => source,
            false => SHARED,
        };
        if let Some(bucket) = buckets.get_mut(&place) {
            bucket.give_back(RATE);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, TokenBucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of the bucket that sources share when there are too many.
const SHARED: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Returns where the bucket of a source is.
fn place(buckets: &mut HashMap<IpAddr, TokenBucket>, source: IpAddr, now: Instant) -> IpAddr {
    if buckets.contains_key(&source) || buckets.len() < SOURCES_MOST {
        return source;
    }
    // Those that are full again are as good as none.
    buckets.retain(|_, bucket| bucket.refill(RATE, now) < BURST);
    match buckets.len() < SOURCES_MOST {
        true => source,
        false => SHARED,
    }
}

/// Returns the source of a peer: its address, or the network of 64 bits that an IPv6 address belongs to.
fn source(peer: Peer) -> Option<IpAddr> {
    Some(match peer.address?.ip().to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[8..].fill(0);
            IpAddr::V6(Ipv6Addr::from(octets))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn peer(address: &str) -> Peer {
        Peer::new(1, address.parse().ok())
    }

    #[tokio::test(start_paused = true)]
    async fn one_source_does_not_take_what_belongs_to_others() {
        let budget = SourceBudget::new(Clock);
        let stranger = peer("192.0.2.1:1000");
        let taken = (0..1_000).filter(|_| budget.take(stranger)).count();
        assert_eq!(taken, 384);
        assert!(!budget.take(peer("192.0.2.1:2000")), "another port");
        assert!(budget.take(peer("192.0.2.2:1000")));
        assert!(budget.take(Peer::new(2, None)));
        Clock.pause(Duration::from_secs(1)).await;
        let taken = (0..1_000).filter(|_| budget.take(stranger)).count();
        assert_eq!(taken, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_accepted_pays_nothing() {
        let budget = SourceBudget::new(Clock);
        let fleet = peer("192.0.2.1:1000");
        for _ in 0..10_000 {
            assert!(budget.take(fleet));
            budget.give_back(fleet);
        }
    }

    #[test]
    fn a_network_of_version_6_is_one_source() {
        let budget = SourceBudget::new(Clock);
        for host in 0..384 {
            assert!(budget.take(peer(&format!("[2001:db8::{host:x}]:1"))));
        }
        assert!(!budget.take(peer("[2001:db8::ffff]:1")));
        assert!(budget.take(peer("[2001:db8:0:1::1]:1")));
        assert!(!budget.take(peer("[2001:db8::1]:1")), "written otherwise");
    }

    #[tokio::test(start_paused = true)]
    async fn the_sources_are_bounded() {
        let budget = SourceBudget::new(Clock);
        for number in 0..20_000u32 {
            let address = std::net::Ipv4Addr::from(number);
            budget.take(peer(&format!("{address}:1")));
        }
        assert!(budget.lock().len() <= SOURCES_MOST + 1);
        Clock.pause(Duration::from_secs(10)).await;
        assert!(budget.take(peer("198.51.100.1:1")));
        assert!(budget.lock().len() < 10);
    }
}
