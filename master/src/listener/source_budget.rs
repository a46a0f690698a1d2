//! The handshakes that one source may have carried out. A handshake is given back once it has led to an accepted
//! session, so that a fleet behind one address comes back at full speed.

use saline_protocol::transport::{Clock, SourceNetwork};

use crate::token_bucket::{Rate, TokenBuckets};

/// How the bucket of a source fills. With the handshakes that it may have at once, and what it gets back while a
/// handshake waits, a source stays below the number of handshakes that wait.
const RATE: Rate = Rate {
    per_second: 100.0,
    burst: 384.0,
};

/// The largest number of sources that are told apart. Those beyond share one bucket.
const MAX_SOURCES: usize = 8192;

/// The requests that each source may still make. A peer whose address the transport does not tell is not limited here.
#[derive(Debug)]
pub(super) struct SourceBudget(TokenBuckets<SourceNetwork>);

impl SourceBudget {
    pub(super) fn new(clock: Clock) -> Self {
        Self(TokenBuckets::new(clock, RATE, MAX_SOURCES))
    }

    /// Takes one handshake from the budget of a source. Returns false when nothing is left.
    pub(super) fn take(&self, source: Option<SourceNetwork>) -> bool {
        source.is_none_or(|source| self.0.take(&source).is_ok())
    }

    /// Gives a handshake back that ended with an accepted session.
    pub(super) fn give_back(&self, source: Option<SourceNetwork>) {
        if let Some(source) = source {
            self.0.give_back(&source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn source(address: &str) -> Option<SourceNetwork> {
        Some(SourceNetwork::of(address.parse().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn one_source_does_not_take_what_belongs_to_others() {
        let budget = SourceBudget::new(Clock);
        let stranger = source("192.0.2.1:1000");
        let taken = (0..1_000).filter(|_| budget.take(stranger)).count();
        assert_eq!(taken, 384);
        assert!(!budget.take(source("192.0.2.1:2000")), "another port");
        assert!(budget.take(source("192.0.2.2:1000")));
        assert!(budget.take(None));
        Clock.pause(Duration::from_secs(1)).await;
        let taken = (0..1_000).filter(|_| budget.take(stranger)).count();
        assert_eq!(taken, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_accepted_pays_nothing() {
        let budget = SourceBudget::new(Clock);
        let fleet = source("192.0.2.1:1000");
        for _ in 0..10_000 {
            assert!(budget.take(fleet));
            budget.give_back(fleet);
        }
    }

    #[test]
    fn a_network_of_version_6_is_one_source() {
        let budget = SourceBudget::new(Clock);
        for host in 0..384 {
            assert!(budget.take(source(&format!("[2001:db8::{host:x}]:1"))));
        }
        assert!(!budget.take(source("[2001:db8::ffff]:1")));
        assert!(budget.take(source("[2001:db8:0:1::1]:1")));
    }
}
