//! How the master bounds what strangers and minions may ask of it. Rates and places are each bounded in one way:
//! a [token bucket](token_buckets), which bounds what somebody gets in a second, and places that are
//! [shared by sources](saline_protocol::transport::SourcePlaces), which bound what all strangers hold at a time. What an
//! accepted minion may ask stands in one [`account`], on which all of its verbs draw, and what a local user or an operator may ask
//! in one of the [`OperatorBudgets`]. What minions have in memory or on the
//! disk is bounded by places too, counted in bytes: in the queue of the [event bus](saline_event_bus::FairQueue), where each waits for its turn, and as
//! [`shares`] of a store, where the largest loses its oldest. Two bounds count requests: a minion has [so many under way](ConcurrencyLimit), and of those
//! that [wait for events](EventWaits) whoever has most makes room for the others. Some of the latter places are kept for local root.

pub(crate) mod account;
mod account_limits;
mod concurrency_limit;
mod cost;
mod event_waits;
mod operator_budgets;
pub(crate) mod shares;
pub(crate) mod token_buckets;
pub(crate) mod turns;

use std::hash::Hash;

use saline_protocol::transport::Clock;

pub(crate) use account::Accounts;
pub(crate) use concurrency_limit::{ConcurrencyLimit, RequestPermit};
pub(crate) use cost::Cost;
pub(crate) use event_waits::EventWaits;
pub(crate) use operator_budgets::OperatorBudgets;
pub(crate) use shares::Shares;
pub(crate) use token_buckets::{Rate, TokenBucket, TokenBuckets};
pub(crate) use turns::Turns;

/// The largest number of minions whose buckets are told apart, and of principals whose lines of the log are.
pub(crate) const MAX_MINIONS: usize = 20_000;

/// How often one id may cause an event or a line of the log.
const REPORTS: Rate = Rate {
    per_second: 1.0,
    burst: 1.0,
};

/// Returns the limit of the events and lines of the log that each id causes, whether its key is accepted or not, or each owner of
/// orders.
pub(crate) fn report_limiter<K: Clone + Eq + Hash>(clock: Clock) -> TokenBuckets<K> {
    TokenBuckets::new(clock, REPORTS, MAX_MINIONS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use saline_messages::MinionId;

    use super::*;

    fn id(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_id_is_reported_once_a_second() {
        let limiter = report_limiter(Clock);
        assert!(limiter.allows(&id("a")));
        assert!(limiter.allows(&id("b")));
        assert!(!limiter.allows(&id("a")));
        Clock.pause(Duration::from_secs(1)).await;
        assert!(limiter.allows(&id("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_ids_is_met_with_silence() {
        let limiter = report_limiter(Clock);
        let allowed = (0..2 * MAX_MINIONS).filter(|n| limiter.allows(&id(&format!("m{n}"))));
        assert_eq!(
            allowed.count(),
            MAX_MINIONS + 1,
            "the others share one report"
        );
    }
}
