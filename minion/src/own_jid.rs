//! Jids of jobs that the minion makes itself. They look like those of a master, the time with its date, but for the day,
//! which has fifty added to it: no master gives such a jid, so no job of a master is taken for one of these.

use std::sync::atomic::{AtomicI64, Ordering};

use saline_messages::Jid;
use saline_protocol::transport::Clock;
use time::OffsetDateTime;

/// The place of the day in a jid.
const DAY: usize = 6;

/// Makes the jids of the minion's own jobs.
#[derive(Debug, Default)]
pub(crate) struct OwnJids {
    /// The time of the last one, in microseconds since 1970.
    last: AtomicI64,
}

impl OwnJids {
    /// Returns a jid that was not given since the start of the process.
    pub(crate) fn next(&self, clock: Clock) -> Jid {
        let now = OffsetDateTime::from(clock.wall()).unix_timestamp_nanos() / 1_000;
        let now = i64::try_from(now).unwrap_or_default();
        let step = |last: i64| Some(now.max(last + 1));
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        // The closure never declines.
        of_time(now.max(last.unwrap_or_default() + 1))
    }
}

fn of_time(microseconds: i64) -> Jid {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(microseconds) * 1_000);
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let text = format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}{:06}",
        time.year(),
        u8::from(time.month()),
        time.day() + 50,
        time.hour(),
        time.minute(),
        time.second(),
        time.microsecond()
    );
    #[expect(
        clippy::expect_used,
        reason = "years have four digits until 9999, which is the last year of the type"
    )]
    Jid::parse(&text).expect("twenty digits")
}

/// Whether a jid is one of the minion's own jobs.
pub(crate) fn is_own(jid: &Jid) -> bool {
    jid.as_str().as_bytes()[DAY] >= b'5'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_jids_are_told_from_those_of_a_master_and_are_never_given_twice() {
        let jids = OwnJids::default();
        let all: std::collections::BTreeSet<Jid> = (0..1_000).map(|_| jids.next(Clock)).collect();
        assert_eq!(all.len(), 1_000);
        assert!(all.iter().all(is_own));
        assert_eq!(
            of_time(1_764_083_411_000_007).as_str(),
            "20251175151011000007"
        );
        assert!(!is_own(&Jid::parse("20261131091409931549").unwrap()));
    }
}
