//! Jids: always rising, and readable as the time of the publication.
//!
//! A jid is counted, compared and stored as microseconds since 1970, and only written as
//! `%Y%m%d%H%M%S%f`. One more than
//! `…59999999` is the next minute and not `…60000000`, so every jid is a time that exists, has
//! twenty digits, and sorts as text in the order of creation.

use std::collections::VecDeque;

use saline_messages::{Jid, RequestId};
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// The last microsecond of the year 9999, the last one that twenty digits can write.
const LAST: i64 = 253_402_300_799_999_999;

/// How far a jid that somebody chose may be before the master's time, in microseconds: jobs are stored by their jids.
const MAX_AGE: i64 = 60_000_000;

/// How far it may be ahead of the master's time, in microseconds: all later jids are above it.
const MAX_LEAD: i64 = 1_000_000;

/// The reason why a jid that somebody chose cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JidError {
    /// The digits are no time.
    #[error(
        "the jid {0} is not a valid time; write the present time in UTC as YYYYMMDDhhmmssffffff"
    )]
    InvalidTime(Jid),
    /// The jid is far from the master's time.
    #[error(
        "the jid {chosen} is more than a minute before the master's time, or a second ahead of it, which is {now} as a jid"
    )]
    TooFarFromNow {
        /// The jid that was chosen.
        chosen: Jid,
        /// The jid that writes the master's time.
        now: Jid,
    },
    /// Another job has a jid as high.
    #[error("the jid {chosen} is not above the last one, {last}; choose a later time")]
    NotIncreasing {
        /// The jid that was chosen.
        chosen: Jid,
        /// The highest jid so far.
        last: Jid,
    },
}

/// The number of reservations that are remembered, so that their requests may be repeated.
const REMEMBERED: usize = 64;

/// Creates jids, each above the one before.
#[derive(Debug, Default)]
pub(crate) struct JidSource {
    last: Option<i64>,
    /// The last jids that somebody chose, with their requests.
    reserved: VecDeque<(RequestId, Jid)>,
}

impl JidSource {
    /// Continues after the jid that writes this number of microseconds, if it is the highest so far.
    pub(crate) fn rise_above(&mut self, micros: i64) {
        self.last = self.last.max(Some(micros));
    }

    /// Returns the highest jid so far as a number, or 0.
    pub(crate) fn last(&self) -> i64 {
        self.last.unwrap_or(0)
    }

    /// Returns the next jid. At the end of the year 9999 it stays the same, and the store refuses to
    /// publish under the same jid twice.
    pub(crate) fn next(&mut self, now: i64) -> Jid {
        from_micros(self.next_number(now))
    }

    /// Reserves a jid that somebody chose for this request, as if it had been the next one. The request may be
    /// repeated.
    pub(crate) fn reserve(
        &mut self,
        chosen: Jid,
        request: RequestId,
        now: i64,
    ) -> Result<Jid, JidError> {
        let is_repeated = |(by, jid): &(RequestId, Jid)| *by == request && *jid == chosen;
        if self.reserved.iter().any(is_repeated) {
            return Ok(chosen);
        }
        let Some(micros) = to_micros(&chosen) else {
            return Err(JidError::InvalidTime(chosen));
        };
        if micros < now.saturating_sub(MAX_AGE) || micros > now.saturating_add(MAX_LEAD) {
            return Err(JidError::TooFarFromNow {
                chosen,
                now: from_micros(now),
            });
        }
        if let Some(last) = self.last.filter(|last| micros <= *last) {
            return Err(JidError::NotIncreasing {
                chosen,
                last: from_micros(last),
            });
        }
        self.last = Some(micros);
        self.reserved.push_back((request, chosen.clone()));
        if self.reserved.len() > REMEMBERED {
            self.reserved.pop_front();
        }
        Ok(chosen)
    }

    /// Returns the next jid as a number: `max(last + 1, now)`. `now` is the master's time in microseconds.
    pub(crate) fn next_number(&mut self, now: i64) -> i64 {
        let next = self
            .last
            .map_or(now, |last| now.max(last.saturating_add(1)))
            .clamp(0, LAST);
        self.last = Some(next);
        next
    }
}

/// Writes a count between 0 and [`LAST`]; one outside of these as the nearest of them.
pub(crate) fn from_micros(micros: i64) -> Jid {
    let micros = micros.clamp(0, LAST);
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000)
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let text = format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}{:06}",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.microsecond(),
    );
    Jid::parse(&text).expect("a time between the years 1970 and 9999 has twenty digits")
}

/// Parses a jid; none when its digits are no valid time.
pub(crate) fn to_micros(jid: &Jid) -> Option<i64> {
    let digits = |from: usize, to: usize| jid.as_str()[from..to].parse::<u32>().ok();
    let small = |from, to| digits(from, to).and_then(|n| u8::try_from(n).ok());
    let year = i32::try_from(digits(0, 4)?).ok()?;
    let month = Month::try_from(small(4, 6)?).ok()?;
    let date = Date::from_calendar_date(year, month, small(6, 8)?).ok()?;
    let time = Time::from_hms_micro(
        small(8, 10)?,
        small(10, 12)?,
        small(12, 14)?,
        digits(14, 20)?,
    )
    .ok()?;
    let nanos = PrimitiveDateTime::new(date, time)
        .assume_utc()
        .unix_timestamp_nanos();
    i64::try_from(nanos.div_euclid(1_000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(last: &Jid) -> JidSource {
        let mut source = JidSource::default();
        source.rise_above(to_micros(last).unwrap());
        source
    }

    #[test]
    fn a_jid_is_the_time_as_salt_writes_it() {
        let jid = JidSource::default().next(1_700_000_000_123_456);
        assert_eq!(jid.as_str(), "20231114221320123456");
        assert_eq!(to_micros(&jid), Some(1_700_000_000_123_456));
    }

    #[test]
    fn a_chosen_jid_is_above_all_others_and_near_the_time() {
        const NOW: i64 = 1_700_000_000_000_000;
        let mut source = JidSource::default();
        let mut requests = 0_u8..;
        let mut reserve = |micros: i64| {
            let request = RequestId([requests.next().unwrap_or_default(); 16]);
            source.reserve(from_micros(micros), request, NOW).map(drop)
        };
        let refused = |error: Result<(), JidError>| error.unwrap_err().to_string();
        assert_eq!(reserve(NOW - 60_000_000), Ok(()));
        assert_eq!(reserve(NOW + 5), Ok(()));
        for below in [NOW, NOW + 5] {
            let said = refused(reserve(below));
            assert!(
                said.contains("not above the last one, 20231114221320000005"),
                "{said}"
            );
        }
        assert_eq!(reserve(NOW + 1_000_000), Ok(()));
        for far in [NOW - 60_000_001, NOW + 1_000_001] {
            let said = refused(reserve(far));
            assert!(said.contains("more than a minute"), "{said}");
        }
        assert_eq!(
            source.next_number(NOW),
            NOW + 1_000_001,
            "the others rise above it"
        );
        let (again, second) = (RequestId([1; 16]), from_micros(NOW + 5));
        assert_eq!(
            source.reserve(second.clone(), again, NOW),
            Ok(second),
            "the second request is repeated"
        );
        let no_time = Jid::parse("20231399000000000000").unwrap();
        let said = source
            .reserve(no_time, RequestId([99; 16]), NOW)
            .unwrap_err()
            .to_string();
        assert!(said.contains("is not a valid time"), "{said}");
    }

    #[test]
    fn one_more_carries_into_minutes_and_years() {
        let last = Jid::parse("20231231235959999999").unwrap();
        let mut source = after(&last);
        assert_eq!(source.next(0).as_str(), "20240101000000000000");
        let last = Jid::parse("20240228235959999999").unwrap();
        let mut source = after(&last);
        assert_eq!(source.next(0).as_str(), "20240229000000000000");
    }

    #[test]
    fn a_clock_that_steps_back_does_not_step_jids_back() {
        let mut source = JidSource::default();
        let first = source.next(1_700_000_000_000_000);
        let second = source.next(1_600_000_000_000_000);
        let third = source.next(-1_000_000);
        assert!(first < second && second < third);
        assert_eq!(to_micros(&third), Some(1_700_000_000_000_002));
    }

    #[test]
    fn the_last_microsecond_is_the_last() {
        let mut source = JidSource::default();
        let last = source.next(i64::MAX);
        assert_eq!(last.as_str(), "99991231235959999999");
        assert_eq!(source.next(0), last);
    }

    #[test]
    fn digits_that_are_no_time_are_not_counted_on() {
        for bad in [
            "20240230000000000000",
            "20240101006000000000",
            "99999999999999999999",
        ] {
            assert_eq!(to_micros(&Jid::parse(bad).unwrap()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn jids_rise_whatever_the_clock_does(
            start in proptest::option::of(0..LAST / 2),
            clock in proptest::collection::vec(prop_oneof![0..LAST / 2, 1_699_999_999_999_990..1_700_000_000_000_010i64], 1..50),
        ) {
            let start = start.map(from_micros);
            let mut source = start.as_ref().map(after).unwrap_or_default();
            let mut last = start;
            for now in clock {
                let jid = source.next(now);
                prop_assert_eq!(jid.as_str().len(), 20);
                prop_assert!(to_micros(&jid).is_some_and(|micros| micros >= now));
                prop_assert!(last.is_none_or(|last| last < jid));
                last = Some(jid);
            }
        }

        #[test]
        fn what_is_written_is_read(micros in 0..=LAST) {
            prop_assert_eq!(to_micros(&from_micros(micros)), Some(micros));
        }
    }
}
